"""Sums of batch norm over many values, and variances of group norm, are accurate: such images are contiguous."""

import copy
import json
import shutil
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.inside import neuro_inside, well
from torch import nn

import neuro_cli as neuro
from neuro_cli.core.module.memory_formats import FORMATS, SUMMED, formats_of, values_of_channel
from neuro_cli.library import fitness as library_fitness
from neuro_cli.task import base as task_base


def network(size: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(size), nn.Flatten(), nn.Linear(2, 3))


def images(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images far from zero, where sums lose digits, and classes."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 2, size, size, generator=generator) + 100
    return inputs, torch.arange(count) % 3


def exact_loss(size: int, inputs: torch.Tensor, classes: torch.Tensor) -> float:
    with torch.no_grad():
        return float(F.cross_entropy(network(size).double()(inputs.double()), classes))


def test_formats_are_those_whose_sums_are_exact():
    norm, pooled = network(8), nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU())
    assert formats_of(norm, SUMMED) == FORMATS
    assert formats_of(norm, SUMMED + 1) == FORMATS[1:]
    assert formats_of(pooled, SUMMED + 1) == FORMATS
    assert formats_of(norm.eval(), SUMMED + 1) == FORMATS  # it has statistics
    assert formats_of(nn.BatchNorm2d(2, track_running_stats=False).eval(), SUMMED + 1) == FORMATS[1:]
    assert formats_of(nn.Sequential(nn.Conv2d(2, 2, 1), nn.GroupNorm(1, 2)), 1) == FORMATS[1:]
    assert values_of_channel(torch.zeros(4, 3, 5, 6)) == 4 * 5 * 6
    assert values_of_channel(torch.zeros(4)) == values_of_channel(torch.zeros(0, 3)) == 0


@pytest.mark.parametrize("of_a_batch", [True, False])
def test_fitnesses_of_large_images_are_those_of_float64(of_a_batch):
    size = 192
    inputs, classes = images(32, size)
    es = neuro.Evolution(network(size), population=4, sigma=1e-8, seed=1, threads=1)
    if of_a_batch:
        report = es.step(lambda module, x, y: -F.cross_entropy(module(x), y, reduction="none"), inputs, classes)
    else:
        report = es.step(lambda module: -F.cross_entropy(module(inputs), classes))
    assert -report.fitness_mean == pytest.approx(exact_loss(size, inputs, classes), abs=2e-5)


def test_losses_of_large_images_are_those_of_float64():
    size = 192
    inputs, classes = images(32, size)
    model = network(size)
    loss = neuro.ForwardGradient(model, draws=1, threads=1).backward(nn.CrossEntropyLoss(reduction="none"), inputs, classes)
    assert float(loss) == pytest.approx(exact_loss(size, inputs, classes), abs=2e-5)


NORMS = {
    "module": lambda: nn.GroupNorm(2, 4),
    "scripted": lambda: torch.jit.script(nn.GroupNorm(2, 4)),
    "traced": lambda: torch.jit.trace(nn.Sequential(nn.GroupNorm(2, 4)), torch.zeros(2, 4, 6, 6)),
    "function": lambda: lambda x: F.group_norm(x, 2),
    "native": lambda: lambda x: torch.native_group_norm(x, None, None, len(x), 4, x[0, 0].numel(), 2, 1e-5)[0],
    "operator": lambda: lambda x: torch.ops.aten.group_norm(x, 2),
}


class Seen(nn.Module):
    """A convolution before a norm; ``contiguous``: memory orders of what the norm gets."""

    def __init__(self, norm: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.norm, self.contiguous = nn.Conv2d(2, 4, 3), nn.Linear(4, 3), norm, [True]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        self.contiguous[0] = x.is_contiguous()
        made: torch.Tensor = self.last(self.norm(x).mean((2, 3)))
        return made


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS.keys())
def test_group_norm_of_any_form_gets_contiguous_images(norm):
    seen = []

    def fitness(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = -F.cross_entropy(module(x), y, reduction="none")
        seen.append(module.contiguous[0])
        return made

    neuro.Evolution(Seen(norm()), population=4, seed=1, threads=1).step(fitness, *images(4, 6))
    assert seen[-1]


class Older:
    """Stands in for the search for group norm in versions without it."""

    seen = False

    def __enter__(self) -> "Older":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("sampler", ["antithetic", "activation"])
def test_a_run_of_an_older_version_keeps_its_memory_format(sampler):
    """Its vectors have that order: with another one weights would change places."""
    inputs, classes = images(8, 6)

    def evolution() -> neuro.Evolution:
        torch.manual_seed(1)
        module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3))
        return neuro.Evolution(module, population=8, sampler=sampler, seed=1, threads=1)

    def step(es: neuro.Evolution) -> float:
        return es.step(lambda module, x, y: -F.cross_entropy(module(x), y, reduction="none"), inputs, classes).fitness_mean

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_fitness, "formats_of", lambda *_: FORMATS)
        patch.setattr(library_fitness, "GroupNorms", Older)
        old = evolution()
        step(old)
        state = copy.deepcopy(old.state_dict())
        wanted = [step(old), step(old)]
    assert state["scalars"]["channels_last"]
    resumed = evolution()
    resumed.load_state_dict(state)
    assert [step(resumed), step(resumed)] == wanted
    for mine, other in zip(resumed.module.parameters(), old.module.parameters(), strict=True):
        assert torch.equal(mine, other)


class Grouped(nn.Module):
    """A network whose group norm is a module or, ``functional``, a call."""

    def __init__(self, functional: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)
        self.norm = None if functional else nn.GroupNorm(4, 4, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = F.group_norm(x, 4) if self.norm is None else self.norm(x)
        made: torch.Tensor = self.last(x.square().amax((2, 3)))
        return made


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("way", ["batch", "closure", "gradient"])
def test_losses_of_flat_images_by_group_norm_are_those_of_float64(way, functional):
    """Images of one value but for an edge, as drawings and masks are."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.full((32, 2, 16, 16), 50.0)
    inputs[:, :, 0] += 0.1 * torch.randn(32, 2, 16, generator=generator)
    classes = torch.arange(32) % 3
    with torch.no_grad():
        right = float(F.cross_entropy(Grouped(functional).double()(inputs.double()), classes))
        last = inputs.contiguous(memory_format=torch.channels_last)
        off = float(F.cross_entropy(Grouped(functional).to(memory_format=torch.channels_last)(last), classes)) - right
    assert abs(off) > 1e-2  # what torch gives in channels_last
    if way == "gradient":
        estimate = neuro.ForwardGradient(Grouped(functional), draws=1, threads=1)
        loss = float(estimate.backward(nn.CrossEntropyLoss(reduction="none"), inputs, classes))
    else:
        es = neuro.Evolution(Grouped(functional), population=4, sigma=1e-8, seed=1, threads=1)
        if way == "batch":
            report = es.step(lambda module, x, y: -F.cross_entropy(module(x), y, reduction="none"), inputs, classes)
        else:
            report = es.step(lambda module: -F.cross_entropy(module(inputs), classes))
        loss = -report.fitness_mean
    assert loss == pytest.approx(right, rel=2e-3)


NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.mark.parametrize("sampler", ["antithetic", "activation"])
def test_a_resumed_command_keeps_the_memory_format_of_its_checkpoint(tmp_path, sampler):
    (tmp_path / "grouped_net.py").write_text(NET)
    options = ["model._target_=grouped_net.Net", "task=digits", "batch_size=16", "threads=1", f"sampler={sampler}"]
    options += ["algo=forward_gradient"] if sampler == "activation" else ["population=8"]
    more = ("generations=3", "trust=grouped_net")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_base, "formats_of", lambda *_: FORMATS)
        patch.setattr(task_base, "GroupNorms", Older)
        well(neuro_inside("train", *options, "generations=2", "hydra.run.dir=older", cwd=tmp_path))
        shutil.copytree(tmp_path / "older", tmp_path / "newer")
        well(neuro_inside("resume", "older", *more, cwd=tmp_path))
    well(neuro_inside("resume", "newer", *more, cwd=tmp_path))
    made = [json.loads((tmp_path / name / "summary.json").read_text())["parameters_sha256"] for name in ("older", "newer")]
    assert made[0] == made[1]
