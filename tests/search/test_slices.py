"""Gradients of a batch in slices: of the whole batch's value, and of the same bits on any number of ranks."""

import json

import pytest
import torch
from support.configs import composed
from support.thread_ranks import on_ranks
from support.worlds import needs_mpi
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.seeds import seeded
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.factory.instantiate import make
from neuro_cli.pool.embedded import EmbeddedPool
from neuro_cli.search import candidate
from neuro_cli.search.candidate import task_of, train_candidate
from neuro_cli.search.command import check, completed
from neuro_cli.search.slices import SlicedBatch
from neuro_cli.task.classification import Classification

BATCH = 21


def taken() -> Classification:
    """The digits, ready for batches of ``BATCH``."""
    task: Classification = make(composed(verb="search"), "task", Classification)
    task.take(task.read(None), input_shape=None, device=torch.device("cpu"), seed=1, batch_size=BATCH)
    return task


def network(norm: bool) -> nn.Sequential:
    with seeded(1):
        middle = [nn.BatchNorm2d(3)] if norm else []
        return nn.Sequential(nn.Conv2d(1, 3, 3), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))


def stepped(world: World, slices: int, norm: bool, steps: int = 3) -> tuple[dict[str, Tensor], list[float]]:
    """State and losses of a network after a few steps."""
    model, task = network(norm), taken()
    batch = SlicedBatch(model, task, slices, world)
    losses = []
    for step in range(steps):
        losses.append(batch.backward(step, BATCH).item())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return model.state_dict(), losses


def test_slices_sum_to_the_whole_batch():
    """In shares that are not all of one size."""
    whole, sliced = network(False), network(False)
    for model, slices in ((whole, 1), (sliced, 4)):
        SlicedBatch(model, taken(), slices, SingleProcess()).backward(0, BATCH)
    for one, other in zip(whole.parameters(), sliced.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-7)
    assert stepped(SingleProcess(), 1, False)[1] == pytest.approx(stepped(SingleProcess(), 4, False)[1])


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_ranks_that_share_slices_change_no_bit(ranks):
    state, losses = stepped(SingleProcess(), 4, True)
    for rank, (theirs, told) in enumerate(on_ranks(ranks, lambda world: stepped(world, 4, True))):
        assert told == losses
        # a rank without a slice has not counted the steps, which is for rank 0 to report
        names = [name for name in state if rank < 4 or not name.endswith("num_batches_tracked")]
        assert all(torch.equal(state[name], theirs[name]) for name in names)
    assert state["1.num_batches_tracked"] == 3


def payload(*overrides: str) -> dict:
    config = completed(check(composed("training.epochs=1", "model.filters=2", *overrides, verb="search")))
    return task_of(config, ("3x3",), "test").payload


def test_another_number_of_slices_is_another_training():
    one, three = (train_candidate(payload(*more)) for more in ((), ("training.slices=3", "model.batch_norm=true")))
    assert one["train_loss"] != three["train_loss"]
    with pytest.raises(ConfigError, match=r"^training.slices=65: must be an integer from 1 to 64$"):
        payload("training.slices=65")
    before = payload()
    del before["training"]["slices"]  # of a search that was saved before there were any
    assert {**train_candidate(before), "seconds": 0} == {**one, "seconds": 0}


def test_a_rank_without_memory_fails_for_others_may_wait_for_it(monkeypatch):
    """Its result would be one line of error, as of a candidate that one process trains, and the others' wait without an end."""
    wanted = payload("training.slices=2")
    wanted["model"] |= {"filters": 10**7, "module": ["1x1"]}
    assert train_candidate(wanted)["error"].startswith("it does not fit in memory: ")
    monkeypatch.setattr(candidate, "world_of_task", OneOfTwo)
    with pytest.raises(UserError, match=r"^it does not fit in memory: "):
        train_candidate(wanted)


class OneOfTwo(SingleProcess):
    size = 2


@pytest.mark.slow
@needs_mpi
def test_a_candidate_is_trained_by_the_ranks_of_a_worker_with_the_bits_of_one_process():
    wanted = payload("training.slices=2", "training.epochs=2")
    alone = train_candidate(json.loads(json.dumps(wanted)))
    pool = EmbeddedPool(workers=1, ranks=2)
    try:
        unit = task_of(completed(check(composed(verb="search"))), ("3x3",), "test")
        pool.submit([type(unit)("one", "candidate", wanted)])
        found = []
        while not found:
            found = pool.results(1.0)
    finally:
        pool.close()
    assert found[0].error == ""
    assert {**found[0].payload, "seconds": 0} == {**alone, "seconds": 0}
