"""What must hold on a CUDA device: the noise's bits, the sums, the scores and whole runs."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.configs import composed
from torch import Tensor, nn

from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import FACTOR_STREAM, Noise, random_permutation
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Sampler
from neuro_cli.task.base import Batch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

SAMPLERS = ["iid", "antithetic", "noise_table", "sign_flip", "permutation", "low_rank"]
SIZE = 5000


def pair_of_noises(size: int = SIZE) -> list[Noise]:
    return [Noise(2**63 + 5, size, torch.device(name), Threads(1)) for name in ("cpu", "cuda")]


def test_gpu_kernels_are_in_use_here():
    assert gpu.noise_kernels("cuda") is not None


@pytest.mark.parametrize("directions", [range(3, 9), [7], [5, 2, 2**32 - 1]], ids=str)
def test_noise_on_cuda_has_the_bits_of_the_cpu(directions):
    here, there = pair_of_noises()
    for start, stop in ((0, SIZE), (1000, 1030), (1024, 2048)):
        assert torch.equal(there.draw(3, directions, start, stop).cpu(), here.draw(3, directions, start, stop))
    words = [made.words(3, directions, 70, FACTOR_STREAM).cpu().to(torch.int64) for made in (here, there)]
    assert torch.equal(*words)
    assert torch.equal(there.draw_whole(4, 2, FACTOR_STREAM).cpu(), here.draw_whole(4, 2, FACTOR_STREAM))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_noise_in_half_precision_is_that_of_the_cpu_rounded(dtype):
    here, there = pair_of_noises()
    assert torch.equal(there.draw(3, range(4), 10, 4000, dtype=dtype).cpu(), here.draw(3, range(4), 10, 4000).to(dtype))


def test_sums_of_noise_on_cuda_are_those_of_the_cpu():
    here, there = pair_of_noises()
    weights = np.random.default_rng(1).standard_normal((2, 40))
    made = [noise.combine(weights, (1, 2), 3, range(40), 7, 4500).cpu() for noise in (here, there)]
    torch.testing.assert_close(made[1], made[0], rtol=1e-6, atol=1e-6)


def test_order_of_examples_on_cuda_is_that_of_the_cpu():
    for epoch in range(3):
        assert torch.equal(random_permutation(7, epoch, 6000, torch.device("cuda")).cpu(), random_permutation(7, epoch, 6000))


@pytest.mark.parametrize("name", SAMPLERS)
def test_members_and_sums_of_every_sampler_on_cuda_are_those_of_the_cpu(name):
    module = nn.Sequential(nn.Conv2d(3, 40, 3), nn.Flatten(), nn.Linear(40 * 16, 33))
    layout, made = ParameterLayout(module), []
    for device in ("cpu", "cuda"):
        options = ["sampler.size=2000000"] if name == "noise_table" else []
        sampler: Sampler = make(composed(f"sampler={name}", *options), "sampler", Sampler)
        sampler.bind(Noise(7, layout.size, torch.device(device), Threads(1)), 64, layout)
        weights = np.random.default_rng(1).standard_normal((1, 64))
        made.append((sampler.explicit(2, 5).cpu(), sampler.combine(weights, (1,), 2, range(64), 0, layout.size).cpu()))
    torch.testing.assert_close(made[1][0], made[0][0], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(made[1][1], made[0][1], rtol=1e-4, atol=1e-4)


def a_run(device: str, *overrides: str) -> tuple[np.ndarray, torch.Tensor]:
    """Scores of the first generation, and the centre after three."""
    parts = build(Options(composed(f"device={device}", "seed=3", *overrides)), SingleProcess())
    job = parts.distribution.job
    scores = job.scorer.scores(parts.algo.ask(0), 0, range(parts.config.population))
    for generation in range(3):
        parts.distribution.step(generation)
    return scores, parts.algo.centre.cpu()


@pytest.mark.parametrize("layout", ["shared_batch", "per_example"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_runs_on_cuda_score_as_the_cpu_and_repeat_to_the_bit(name, layout):
    overrides = [f"sampler={name}", f"layout={layout}", "model=MNIST_10K", "population=32", "batch_size=64"]
    overrides += ["sampler.size=2000000"] if name == "noise_table" else []
    scores, centre = a_run("cuda", *overrides)
    again, same = a_run("cuda", *overrides)
    assert np.array_equal(scores, again)
    assert torch.equal(centre, same)
    expected, _ = a_run("cpu", *overrides)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("predicted", [False, True], ids=["plain", "control_variates"])
@pytest.mark.parametrize("space", ["outputs", "auto"])
def test_noise_on_activations_on_cuda_scores_as_the_cpu_and_repeats_its_scores(space, predicted):
    overrides = ["model=MNIST_10K", "algo=forward_gradient", "algo.sigma=0.1"]
    overrides += ["sampler=activation", f"sampler.space={space}", f"sampler.control_variates={predicted}".lower()]
    overrides += ["sampler.correction=always", "batch_size=32"]
    # Not the centre: after three generations it differed on an H200; docs/results/gpu.md says what is known of the cause.
    (scores, _), (again, _) = a_run("cuda", *overrides), a_run("cuda", *overrides)
    assert np.array_equal(scores, again)
    expected, _ = a_run("cpu", *overrides)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("layout", ["shared_batch", "per_example"])
@pytest.mark.parametrize("name", ["iid", "antithetic", "low_rank"])
def test_passes_by_graphs_have_the_bits_of_passes_one_by_one(name, layout, caplog):
    overrides = [f"sampler={name}", f"layout={layout}", "model=MNIST_10K", "population=32", "batch_size=64"]
    ends = []
    for graphs in ("false", "true"):
        parts = build(Options(composed("device=cuda", f"cuda_graphs={graphs}", *overrides)), SingleProcess())
        with caplog.at_level("INFO"):
            for generation in range(6):
                parts.distribution.step(generation)
        ends.append(parts.algo.centre.cpu())
    assert torch.equal(*ends)
    assert "forward passes: one CUDA graph" in caplog.text
    assert ("sums over directions: one CUDA graph" in caplog.text) == (name == "low_rank")
    assert "one by one" not in caplog.text


def test_a_pass_for_which_the_host_waits_goes_on_without_a_graph(monkeypatch, caplog):
    options = ["device=cuda", "sampler=low_rank", "model=MNIST_10K", "population=32", "batch_size=64"]
    ends = []
    for graphs in ("false", "true"):
        parts = build(Options(composed(f"cuda_graphs={graphs}", *options)), SingleProcess())
        scores = parts.task.example_scores

        def waiting(module: nn.Module, batch: Batch, scores: Callable[..., Tensor] = scores) -> Tensor:
            made = scores(module, batch)
            return made if made.sum().item() < 0 else made * 1.0

        monkeypatch.setattr(parts.task, "example_scores", waiting)
        for generation in range(5):
            parts.distribution.step(generation)
        ends.append(parts.algo.centre.cpu())
    assert torch.equal(*ends)
    assert caplog.text.count("launched one by one") == 1
