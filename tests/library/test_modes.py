"""Modes of the calling thread: the user's function is called in them on every thread, and nothing of ours depends on them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.configs import SAMPLERS
from support.pairwise import each_pair
from support.thread_ranks import on_ranks
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli import Evolution
from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Modes
from neuro_cli.core.seeds import seeded

INPUTS = torch.linspace(-1, 1, 48).view(8, 6)
TARGETS = torch.arange(8) % 2


def net() -> nn.Module:
    with seeded(5):
        return nn.Sequential(nn.Linear(6, 8, dtype=torch.float32), nn.Tanh(), nn.Linear(8, 2, dtype=torch.float32))


def closure(member: nn.Module) -> Tensor:
    return -F.cross_entropy(member(INPUTS), TARGETS)


def of_examples(member: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(member(inputs), targets, reduction="none")


def stepped(es: Evolution) -> None:
    es.step(closure)


def by_batch(es: Evolution) -> None:
    es.step(of_examples, INPUTS, TARGETS)


def told(es: Evolution) -> None:
    es.tell([float(closure(member)) for member in es.ask()])


@contextmanager
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def trained(
    around: Callable[[], AbstractContextManager[Any]], step: Callable[[Evolution], None], made_inside: bool = True, **options: Any
) -> Tensor:
    """Centre after four generations; the context is left and entered again, and a state is loaded, between them."""
    module = net()
    with around():
        es = Evolution(net() if made_inside else module, population=8, threads=2, **options)
        step(es)
    with es:
        step(es)
        state = es.state_dict()
        with around():
            step(es)
            es.load_state_dict(state)
            step(es)
        step(es)
        return es.centre


MODES = {
    "float64": float64,
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "a device": lambda: torch.device("meta"),
}


@each_pair(mode=list(MODES), step=[stepped, by_batch, told], sampler=["antithetic", "sign_flip", "low_rank"])
def test_modes_of_the_caller_change_no_bit(mode, step, sampler):
    wanted = trained(nullcontext, step, sampler=sampler)
    for made_inside in (True, False) if mode != "a device" else (False,):  # a net made there has no numbers
        assert torch.equal(trained(MODES[mode], step, made_inside, sampler=sampler), wanted)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_sampler_depends_on_the_default_type(sampler):
    chosen = {"noise_table": lambda: neuro.sampler.NoiseTable(size=100_000)}.get(sampler, lambda: sampler)
    for layout in ("shared_batch", "per_example"):
        wanted = trained(nullcontext, by_batch, sampler=chosen(), layout=layout)
        assert torch.equal(trained(float64, by_batch, sampler=chosen(), layout=layout), wanted)


@pytest.mark.parametrize("wire", ["float32", "int8"])
def test_no_method_depends_on_the_default_type(wire):
    def run(world: Any) -> Tensor:
        method = neuro.distribution.SemiUpdates(wire=wire)
        with Evolution(net(), population=8, threads=1, world=world, distribution=method) as es:
            for _ in range(2):
                es.step(closure)
            return es.centre

    wanted = on_ranks(2, run)
    with float64():
        found = on_ranks(2, run)
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


def test_the_function_is_called_in_the_callers_modes_on_every_thread():
    met: list[tuple[str, Modes]] = []

    def noted(member: nn.Module) -> float:
        met.append((threading.current_thread().name, Modes.present()))
        time.sleep(0.01)
        return 0.0

    with Evolution(net(), population=8, threads=2) as es:
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16), torch.device("meta"):
            while len({name for name, _ in met}) < 2:  # the other thread may come late
                es.step(noted)
            wanted = Modes.present()
        assert Modes.present() == Modes()
    assert all((modes.inference, modes.autocast, modes.device) == (True, wanted.autocast, wanted.device) for _, modes in met)
    assert wanted == Modes(False, True, {"cpu": torch.float16}, torch.device("meta"))


@pytest.mark.parametrize("step", [stepped, by_batch])
def test_autocast_counts_for_each_member_and_on_every_thread(step):
    """Not with the weights of another member, of which autocast keeps copies."""
    with Evolution(net(), population=8, threads=1) as es:
        es.ask()  # bound
        candidates = es.ask()
        with torch.no_grad():
            plain = [float(closure(member)) for member in candidates]
            with torch.autocast("cpu", cache_enabled=False):
                rounded = [float(closure(member)) for member in candidates]
    assert plain != rounded
    for threads in (1, 2):
        with Evolution(net(), population=8, threads=threads) as es, torch.autocast("cpu"):
            report = es.step(closure) if step is stepped else es.step(of_examples, INPUTS, TARGETS)
            assert report.fitness_mean == pytest.approx(sum(rounded) / 8, rel=1e-6)
            assert report.fitness_best == pytest.approx(max(rounded), rel=1e-6)


def test_a_run_does_not_depend_on_the_callers_modes(tmp_path):
    def run(name: str) -> str:
        task = neuro.task.Dataset(train=(INPUTS, TARGETS), test=(INPUTS, TARGETS))
        made = neuro.train(
            model=net(), task=task, population=4, batch_size=8, generations=2, threads=2, folder=tmp_path / name, algo="sgd"
        )
        return str(made.summary["parameters_sha256"])

    wanted = run("plain")
    with torch.inference_mode(), torch.autocast("cpu"):
        assert run("modes") == wanted


def test_a_module_that_cannot_be_loaded_counts_no_generation(monkeypatch):
    with Evolution(net(), population=4, threads=1) as es:
        es.step(closure)

        def refuse(*_: Any) -> None:
            raise UserError("no")

        monkeypatch.setattr(ParameterLayout, "load", refuse)
        with pytest.raises(UserError):
            es.step(closure)
        assert es.generation == 1
