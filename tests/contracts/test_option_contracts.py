"""Runs of every algorithm, task, distribution method and logger: exact resume, the same bits on any ranks, finite numbers.

The options are listed from ``conf/``: a new one is tested the moment its YAML exists.
"""

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from option_runs import CASES, EXTRAS, GENERATIONS, KILLED, TWINS, curve, killed, network, resumed, setting, state, trained
from support.configs import ALGOS
from support.made_data import cifar_files, idx_files, write_image
from support.thread_ranks import on_ranks

import neuro_cli as neuro
from neuro_cli.core.errors import UserError
from neuro_cli.task.reinforcement.pettingzoo import ParallelFactory, World

RANKS = 3
# options whose ranks add numbers in another order; every other one has the same bits on any number of ranks
ROUNDED = {("algo", "sgd"), *(("distribution", name) for name in ("batch_parallel", "data_parallel", "semi_updates"))}
ALONE = {("distribution", "local"), ("distribution", "single_graph")}  # methods that refuse ranks


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A folder with made-up files of every data set that a task reads."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("MNIST", "FashionMNIST"):
        (folder / name / "raw").mkdir(parents=True)
        for file, content in idx_files().items():
            (folder / name / "raw" / file).write_bytes(content)
    for number in range(12):
        write_image(
            folder / "images" / ("test" if number > 7 else "train") / ("cat", "dog")[number % 2] / f"{number}.png", seed=number
        )
    (folder / "text.txt").write_text("a text of a few words, which is read again and again. " * 20)
    with pytest.MonkeyPatch.context() as patch:
        cifar_files(folder, patch)
        yield folder


@pytest.fixture(
    scope="session",
    params=[pytest.param(case, id="-".join(case), marks=[pytest.mark.slow] if case in TWINS else []) for case in CASES],
)
def case(request) -> tuple[str, str]:
    group, option = request.param
    for package in EXTRAS.get(option, ()) if group == "logger" else ("mpe2",) if option == "pettingzoo" else ():
        pytest.importorskip(package)
    return group, option


@pytest.fixture(scope="session")
def overrides(case, data) -> tuple[str, ...]:
    return setting(*case, data)


@pytest.fixture(scope="session")
def run(case, overrides, tmp_path_factory) -> Path:
    """The folder of a run on one rank that nothing interrupted."""
    return trained(overrides, tmp_path_factory.mktemp("-".join(case)) / "run")


def test_a_killed_run_resumes_to_the_bits_of_one_that_was_not(overrides, run):
    """The kill comes between two checkpoints, so a generation is run again."""
    left = killed(run)
    assert [int(row["generation"]) for row in curve(left)] == list(range(1, KILLED + 1))
    assert not (left / "summary.json").exists()
    resumed(overrides, left)
    assert curve(left) == curve(run)
    assert network(left).keys() == network(run).keys()
    assert all(torch.equal(tensor, network(run)[name]) for name, tensor in network(left).items())


def one_at_a_time(patch: pytest.MonkeyPatch, owner: type, name: str, lock: AbstractContextManager) -> None:
    """Let one thread at a time call a method."""
    method = getattr(owner, name)

    def locked(*arguments):
        with lock:
            return method(*arguments)

    patch.setattr(owner, name, locked)


def test_ranks_train_the_network_of_one(case, overrides, run, tmp_path, monkeypatch):
    if case == ("task", "pettingzoo"):  # mpe2 starts and ends pygame, whose fonts crash in threads; ranks here are threads
        lock = threading.RLock()
        one_at_a_time(monkeypatch, ParallelFactory, "make", lock)
        one_at_a_time(monkeypatch, World, "close", lock)

    def on_a_rank(world) -> None:
        trained(overrides, tmp_path, world)

    if case[0] == "logger":
        pytest.skip("rank 0 alone has loggers")
    if case in ALONE:
        with pytest.raises(UserError, match=f"distribution={case[1]}"):
            on_ranks(RANKS, on_a_rank)
        return
    on_ranks(RANKS, on_a_rank)
    for name, tensor in network(tmp_path).items():
        alone = network(run)[name]
        if case in ROUNDED:
            torch.testing.assert_close(tensor, alone, rtol=1e-4, atol=1e-5)
        else:
            assert torch.equal(tensor, alone), name


def test_all_that_a_run_writes_is_finite_and_the_network_has_learnt(run):
    rows = curve(run)
    assert [int(row["generation"]) for row in rows] == list(range(1, GENERATIONS + 1))
    numbers = [float(value) for row in rows for value in row.values() if value]
    assert torch.tensor(numbers).isfinite().all()
    for row in rows:
        best, mean = float(row["fitness_best"]), float(row["fitness_mean"])
        assert best >= mean - 1e-9 * abs(mean)  # the mean of equal fitnesses is rounded
    assert all(tensor.isfinite().all() for tensor in network(run).values() if tensor.is_floating_point())
    ended = state(run, GENERATIONS)
    assert any(not torch.equal(tensor, ended[name]) for name, tensor in state(run, 0).items())


@pytest.mark.parametrize("algo", [algo for algo in ALGOS if algo != "random_vote"])  # its centre stays
def test_an_algorithm_climbs_a_landscape(algo):
    """A quadratic in eight dimensions, by ask and tell."""
    goal = torch.linspace(-1, 1, 8)
    with neuro.Evolution(torch.zeros(8), algo=algo, population=16, sampler="antithetic", threads=1, seed=3) as es:
        for _ in range(40):
            es.tell(-((es.ask().vectors - goal) ** 2).sum(1))
        assert es.centre.isfinite().all()
        assert (es.centre - goal).norm() < 0.95 * goal.norm()
