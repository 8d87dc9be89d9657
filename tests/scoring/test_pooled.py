"""Which layers are done in one pass, and that members score as before."""

import logging

import pytest
import torch
from support.configs import composed
from torch import nn

from neuro_cli.core.kernels import winograd
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.model.mnist import MNIST_3M, MNIST_10K, MNIST_500K
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import pooled
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.pooled import pool_convolutions, pooled_alike

here = pytest.mark.skipif(not winograd.AVAILABLE, reason="neither AVX2 nor AVX-512 here")


def chain(*others: nn.Module, **options) -> nn.Sequential:
    chosen = {"kernel_size": 5, "padding": 2} | options
    return nn.Sequential(nn.Conv2d(16, 32, **chosen), *(others or (nn.MaxPool2d(2), nn.ReLU())))


class Own(nn.ReLU):
    pass


def hooked() -> nn.Sequential:
    made = chain()
    made[0].register_forward_hook(lambda *_: None)
    return made


TAKEN = [
    chain(),
    chain(nn.ReLU(), nn.MaxPool2d(2)),
    chain(padding="same"),
    chain(nn.MaxPool2d((2, 2), (2, 2)), nn.ReLU(inplace=True)),
]
LEFT = [
    chain(kernel_size=3, padding=1), chain(stride=2), chain(groups=2), chain(padding=1), chain(padding_mode="reflect"), hooked(),
    chain(nn.MaxPool2d(3), nn.ReLU()), chain(nn.MaxPool2d(2, 1), nn.ReLU()), chain(nn.MaxPool2d(2), Own()), chain(nn.ReLU()),
    chain(nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()), chain(nn.AvgPool2d(2), nn.ReLU()), MNIST_10K().features,
]  # fmt: skip


@pytest.mark.parametrize("module", TAKEN)
def test_layers_are_taken(module):
    names = [name for name, _ in module.named_parameters()]
    assert len(pool_convolutions(module)) == 1
    assert [name for name, _ in module.named_parameters()] == names


@pytest.mark.parametrize("module", LEFT)
def test_layers_are_left(module):
    assert pool_convolutions(module) == []


@here
@pytest.mark.parametrize("model", [MNIST_500K, MNIST_3M])
def test_network_gives_its_outputs_where_there_is_work_enough(model):
    torch.manual_seed(0)
    plain, images = model(), torch.randn(4, 1, 28, 28)
    with torch.no_grad():
        wanted = plain(images)
        assert len(pool_convolutions(plain)) == 2
        assert not pooled_alike(plain, images, 10, torch.float32)
        assert pooled_alike(plain, images, 4_096, torch.float32)
        made = plain(images)
    assert torch.allclose(made, wanted, rtol=1e-4, atol=1e-5)


@here
def test_other_convolutions_or_other_outputs_speak_against_it(monkeypatch):
    images = torch.randn(2, 16, 8, 8)
    other = nn.Sequential(*chain(), nn.Conv2d(32, 8, 3))
    pool_convolutions(other)
    assert not pooled_alike(other, images, 10**9, torch.float32)
    wrong = chain()
    pool_convolutions(wrong)
    assert pooled_alike(wrong, images, 10**9, torch.float32)
    monkeypatch.setattr(
        pooled, "_filters", lambda weight: torch.zeros(winograd.POINTS**2, 32 // winograd.PAIR, 16, winograd.PAIR)
    )
    assert not pooled_alike(wrong, images, 10**9, torch.float32)


@here
def test_a_run_has_the_same_bits_on_any_number_of_threads_and_nearly_those_of_torch(monkeypatch, caplog):
    def scores(threads: int, examples: int = 16) -> torch.Tensor:
        chosen = ("model=MNIST_500K", "population=6", f"batch_size={examples}", f"threads={threads}", "sampler=antithetic")
        job = build(Options(composed(*chosen)), SingleProcess()).distribution.job
        return torch.from_numpy(job.scorer.scores(job.algo.ask(0), 0, range(6)))

    caplog.set_level(logging.INFO)
    wanted = scores(1)
    assert "in one pass" not in caplog.text
    monkeypatch.setattr(pooled, "ENOUGH", 0)
    scores(1, examples=15)
    assert "in one pass" not in caplog.text
    made = scores(1)
    assert "in one pass" in caplog.text
    assert torch.equal(made, scores(2))
    assert torch.allclose(made, wanted, rtol=1e-5)


@here
def test_half_precision_is_float32_on_rounded_parameters():
    torch.manual_seed(0)
    plain, images = MNIST_500K(), torch.randn(20, 1, 28, 28)
    layout = ParameterLayout(plain)
    made = Candidate(plain, layout, torch.bfloat16, torch.device("cpu"), pooled=True)
    made.flat.copy_(layout.flatten(plain))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(parameter.bfloat16())
        assert torch.allclose(made.ready()(images.bfloat16()), plain(images.bfloat16().float()), rtol=1e-4, atol=1e-5)
