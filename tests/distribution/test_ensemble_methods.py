"""Joint training over ranks is training in one graph, whatever the exchange; real MPI ranks in tests/mpi."""

import copy
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configs import composed
from support.pairwise import each_pair
from support.thread_ranks import on_ranks

from neuro_cli.algo.ensemble import joint_outcome
from neuro_cli.core.errors import CandidateError
from neuro_cli.distribution.ensemble.wire import ENCODINGS, LARGEST, wire_of
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.runner.ensemble.training import build_ensemble
from neuro_cli.runner.options import Options

SETTING = (
    "algo=ensemble", "algo.size=4", "batch_size=24", "threads=1", "algo.dtype=float64", "model._target_=support.tiny_heads.Tiny",
)  # fmt: skip
ITERATIONS = 6
BROKEN = "algo.members=[{model:{_target_:support.tiny_heads.Broken}}]"
EQUAL = ("logits_allreduce", "logits_tree", "logits_microbatches", "single_graph", "batch_parallel")


def train(config: dict[str, Any], world: World, iterations: int = ITERATIONS) -> list[float]:
    work = build_ensemble(Options(copy.deepcopy(config)), world)
    try:
        return [work.step(iteration)["train_loss"] for iteration in range(iterations)]
    finally:
        work.close()


def losses(ranks: int, *overrides: str, iterations: int = ITERATIONS) -> list[float]:
    """Losses of all iterations, which are the same on all ranks. (Hydra composes for one thread at a time.)"""
    config = composed(*SETTING, *overrides)
    if ranks == 1:
        return train(config, SingleProcess(), iterations)
    found = on_ranks(ranks, lambda world: train(config, world, iterations))
    assert all(theirs == found[0] for theirs in found)
    return found[0]


@cache  # a dozen tests compare with the same few
def reference(*overrides: str, delay: int = 0) -> list[float]:
    """The same training as a plain loop over one float64 graph with its own SGD; gradients ``delay`` updates old."""
    config = composed(*SETTING, *overrides)
    work = build_ensemble(Options(config), SingleProcess())
    modules = [work._job.members[number].module for number in sorted(work._job.members)]
    rate, momentum = config["algo"]["optimizer"]["lr"], config["algo"]["optimizer"]["momentum"]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    velocity = [torch.zeros_like(parameter) for parameter in parameters]
    history = [[parameter.detach().clone() for parameter in parameters]]
    found = []
    for iteration in range(ITERATIONS):
        live = history[-1]
        with torch.no_grad():
            for parameter, old in zip(parameters, history[max(0, len(history) - 1 - delay)], strict=True):
                parameter.copy_(old)
        batch = work._job.batch(iteration)
        mean = sum(module(batch.inputs) for module in modules) / len(modules)
        loss = F.cross_entropy(mean, batch.targets)
        gradients = torch.autograd.grad(loss, parameters)
        velocity = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        history.append([p - rate * v for p, v in zip(live, velocity, strict=True)])
        found.append(float(loss.detach()))
    work.close()
    return found


@pytest.mark.parametrize("distribution", EQUAL)
def test_one_process_gives_the_losses_of_a_plain_loop(distribution):
    assert losses(1, f"distribution={distribution}") == pytest.approx(reference(), abs=1e-10)


@each_pair(distribution=["logits_allreduce", "logits_tree", "logits_microbatches"], encoding=list(ENCODINGS), ranks=[2, 3, 4])
def test_ranks_give_the_losses_of_a_plain_loop(distribution, encoding, ranks):
    found = losses(ranks, f"distribution={distribution}", f"distribution.encoding={encoding}")
    assert found == pytest.approx(reference(), abs=1e-5 if encoding == "float32" else 1e-10)


def test_batch_parallel_is_the_same_training():
    assert losses(3, "distribution=batch_parallel") == pytest.approx(reference(), abs=1e-10)


@pytest.mark.parametrize("staleness", [1, 2])
def test_pipelining_is_training_with_old_gradients(staleness):
    """What staleness is: the gradient of the parameters before the last ``staleness`` updates, exactly."""
    overrides = ("distribution=logits_pipelined", f"distribution.staleness={staleness}", "algo.optimizer.lr=0.05")
    found = losses(2, *overrides)
    assert found == pytest.approx(reference("algo.optimizer.lr=0.05", delay=staleness), abs=1e-10)
    assert found != pytest.approx(reference("algo.optimizer.lr=0.05"), abs=1e-4)


@pytest.mark.parametrize("distribution", ["logits_allreduce", "logits_pipelined"])
def test_threads_change_no_bit(distribution):
    overrides = (f"distribution={distribution}", "model._target_=support.tiny_heads.Dropped")
    assert losses(1, *overrides, "threads=3") == losses(1, *overrides)


def test_dropout_is_addressed():
    """The same draws on any number of ranks, others in every iteration."""
    overrides = ("distribution=logits_allreduce", "model._target_=support.tiny_heads.Dropped")
    alone = losses(1, *overrides)
    assert losses(2, *overrides) == alone
    assert alone != losses(1, "distribution=logits_allreduce", "model._target_=support.tiny_heads.Undropped")


@pytest.mark.parametrize("distribution", ["logits_allreduce", "logits_tree", "logits_pipelined", "logits_microbatches"])
def test_bytes_are_batch_times_classes(distribution):
    """Each way, per rank: 24 x 10 numbers of 8 bytes, whatever the network; a tree's root of 3 ranks sends to two children."""

    config = composed(*SETTING, f"distribution={distribution}")

    def moved(world: World) -> tuple[int, int]:
        train(config, world, iterations=5)
        return world.traffic.sent, world.traffic.received

    counted = on_ranks(3, moved)
    iterations = 6 if distribution == "logits_pipelined" else 5  # one is in flight at the end
    values = iterations * 24 * 10 * 8
    times = [2, 1, 1] if distribution == "logits_tree" else [1, 1, 1]
    assert [sent for sent, _ in counted] == [values * factor for factor in times]
    assert [received for _, received in counted] == [values * factor for factor in times]


def test_batch_parallel_sends_every_parameter():
    config = composed(*SETTING, "distribution=batch_parallel", "algo.size=1")

    def moved(world: World) -> int:
        train(config, world, iterations=1)
        return world.traffic.sent

    parameters, fingerprint = 1 * 28 * 28 * 10 + 10, 1  # of what the network was built with
    assert on_ranks(2, moved) == [(parameters + 2 + fingerprint) * 8] * 2


@pytest.mark.parametrize(
    ("distribution", "ranks"),
    [("logits_allreduce", 1), ("logits_tree", 2), ("logits_pipelined", 2), ("logits_microbatches", 2), ("batch_parallel", 2)],
)
def test_a_logit_that_is_no_number_is_refused_by_all_ranks_naming_the_member(distribution, ranks):
    config = composed(*SETTING, f"distribution={distribution}", BROKEN, "algo.size=2")

    def run(world: World) -> str:
        with pytest.raises(CandidateError) as caught:
            train(config, world)
        return str(caught.value)

    messages = on_ranks(ranks, run) if ranks > 1 else [run(SingleProcess())]
    assert all(message.startswith("member 2 of the ensemble gives a logit of nan in iteration 1 ") for message in messages)


def test_single_graph_refuses_too():
    with pytest.raises(CandidateError, match=r"^member 4 of the ensemble gives a logit of nan"):
        losses(1, "distribution=single_graph", BROKEN)


@settings(max_examples=60, deadline=None)
@given(encoding=st.sampled_from(ENCODINGS), members=st.integers(1, 40), size=st.floats(1e-3, 1000), seed=st.integers(0, 2**32))
def test_encodings_give_the_mean(encoding, members, size, seed):
    generator = np.random.default_rng(seed)
    logits = [torch.from_numpy(generator.normal(0, size, (3, 5)).clip(-LARGEST, LARGEST)) for _ in range(members)]
    wire = wire_of(encoding, members)
    cut = members // 2
    messages = [wire.encode(part) for part in (logits[:cut], logits[cut:]) if part]
    mean = wire.decode(sum(messages), (3, 5), torch.float64)
    exact = torch.stack(logits).mean(0)
    tolerance = {"fixed": 1e-9, "float64": 1e-11, "float32": 1e-4}[encoding]
    assert mean is not None
    assert float((mean - exact).abs().max()) <= tolerance * max(1.0, size)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_one_bad_logit_spoils_the_sum(encoding):
    wire, right = wire_of(encoding, 3), torch.full((2, 2), LARGEST)
    for bad, broken in product((float("nan"), float("inf"), -2 * LARGEST), (1, 2, 3)):
        wrong = right.clone()
        wrong[1, 0] = bad
        total = sum(wire.encode([wrong if member < broken else right]) for member in range(3))
        assert wire.decode(total, (2, 2), torch.float32) is None, (bad, broken)


def test_the_gradient_is_that_of_autograd():
    torch.manual_seed(1)
    logits = [torch.randn(7, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    targets = torch.randint(4, (7,))
    loss = F.cross_entropy(sum(logits) / 3, targets)
    loss.backward()
    outcome = joint_outcome((sum(logits) / 3).detach(), targets, 3)
    assert outcome.loss == pytest.approx(float(loss.detach()), abs=1e-14)
    for own in logits:
        assert torch.allclose(own.grad, outcome.gradient, atol=1e-15)


@pytest.mark.parametrize(("momentum", "factor"), [(0.9, 38), (0.0, 2)])
def test_what_a_delay_of_one_costs_in_stability(momentum, factor):
    """Figures of the page about ensembles: the largest stable rate on a quadratic of curvature 1, by the recursion's roots."""

    def largest_stable(delay: int) -> float:
        # theta[k+1] = theta[k] + momentum (theta[k] - theta[k-1]) - rate theta[k - delay]
        for rate in np.geomspace(1e-3, 8, 6000):
            recursion = np.zeros(delay + 3)
            recursion[:3] = 1, -(1 + momentum), momentum
            recursion[1 + delay] += rate
            if np.abs(np.roots(recursion)).max() > 1 + 1e-9:
                return float(rate)
        raise AssertionError("no rate is too large")

    assert largest_stable(0) / largest_stable(1) == pytest.approx(factor, rel=0.01)
