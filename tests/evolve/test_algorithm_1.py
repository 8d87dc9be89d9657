"""Algorithm 1 of "Distributed Evolution" against a second writing of it: real peers, the same parameters."""

import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from node_lab import wait
from support.configs import composed
from torch.nn.functional import cross_entropy

from neuro_cli.evolve.config import ClusterConfig
from neuro_cli.evolve.ledger.file import read_ledger
from neuro_cli.evolve.ledger.record import decoded
from neuro_cli.evolve.peer import Peer
from neuro_cli.evolve.training.model import apply, first_member, steps_of, stride
from neuro_cli.evolve.training.replay import restore_run
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.centre_evaluation import centre_module
from neuro_cli.runner.config import section
from neuro_cli.runner.options import Options

ITERATIONS, TRIES = 4, 6
ONE_ROUND = [pytest.param(count, 1, marks=pytest.mark.slow) for count in (1, 3)]
SECRET, NEVER = "a secret for the tests", SimpleNamespace(wanted=lambda: False, reason="")  # never stopped
SMALL = ("experiment=distributed_evolution", f"generations={ITERATIONS}", f"population={TRIES}", "batch_size=16", "threads=1")


def entering(folder, address: str | None, *overrides: str) -> tuple[Peer, str]:
    """Return a peer of this process that will join ``address``, or found a cluster, and its own address."""
    server = socket.create_server(("127.0.0.1", 0))
    here = f"127.0.0.1:{server.getsockname()[1]}"
    folder.mkdir(parents=True)
    join = [f"cluster.join={address}"] if address else []
    config = composed(*SMALL, "cluster.local_peers=1", "cluster.deadline=300", *join, *overrides, verb="evolve")
    settings = section(ClusterConfig, config["cluster"], "cluster.")
    return Peer(Options(config), settings, folder, server, here, SECRET, quiet=True), here


def working(*peers: Peer) -> list[threading.Thread]:
    """Let each peer work to its end, in a thread of its own."""
    threads = [threading.Thread(target=peer.work, args=(NEVER, "", SECRET)) for peer in peers]
    for thread in threads:
        thread.start()
    return threads


def ended(threads: list[threading.Thread], *peers: Peer) -> None:
    for thread in threads:
        thread.join(240)
    for peer in peers:
        peer.parts.threads.close()


def cluster(folder, count: int, *overrides: str) -> tuple[list[str], list[Peer]]:
    """Return names and peers of a cluster of ``count`` workers that has worked to its end."""
    peers: list[Peer] = []
    address = None
    for number in range(count):
        peer, here = entering(folder / str(number), address, *overrides)
        address = address or here
        if not peers:
            state = peer._network.node.state
            state.settings = replace(state.settings, local_peers=count)  # all of them are there from the first iteration on
        peers.append(peer)
        peer.enter(NEVER)
    ended(working(*peers), *peers)
    return [peer._network.node.me for peer in peers], peers


def algorithm_1(parts, workers: list[str], local_iterations: int) -> list[torch.Tensor]:
    """Parameters after every iteration. ``gen`` is the addressed noise of neuro; everything else is the paper's pseudocode."""
    sigma, sampler = steps_of(parts).sigma, parts.distribution.job.sampler
    model = steps_of(parts).centre.clone()  # 1: the same at each worker

    def gen(iteration: int, seed: int) -> torch.Tensor:
        return sigma * sampler.explicit(iteration, seed)  # "M * gen(seed)" is read as a perturbation: M + sigma * noise

    @torch.no_grad()
    def f(parameters: torch.Tensor, iteration: int) -> float:
        batch = parts.task.batch(iteration, 0, 16)
        return -float(cross_entropy(centre_module(parts, parameters, iteration)(batch.inputs), batch.targets))

    found = []
    for iteration in range(ITERATIONS):  # 3
        fitness_tuples = []  # 4
        for worker in workers:  # 5
            mine, trail = model, []
            for local in range(local_iterations):
                first = first_member(worker, iteration, parts) + local * stride(parts)
                try_seeds = range(first, first + TRIES)  # 8
                tuples = [(seed, f(mine + gen(iteration, seed), iteration)) for seed in try_seeds]  # 10 to 13
                best = max(tuples, key=lambda one: one[1])  # 14
                mine, trail = mine + gen(iteration, best[0]), [*trail, best[0]]
            fitness_tuples.append((trail, best[1]))  # 15
        for seed in max(fitness_tuples, key=lambda one: one[1])[0]:  # 16
            model = model + gen(iteration, seed)  # 17, 7
        found.append(model)
    return found


@pytest.mark.parametrize(("workers", "local_iterations"), [*ONE_ROUND, (2, 3)])
def test_a_cluster_does_what_algorithm_1_says(tmp_path, workers, local_iterations):
    pytest.importorskip("msgpack")
    more = f"cluster.local_iterations={local_iterations}"
    names, peers = cluster(tmp_path, workers, more)
    ends = {peer._network.node.ledger.head for peer in peers}
    assert len(ends) == 1
    parts = build(Options(composed(*SMALL, more, verb="evolve")), SingleProcess())
    expected = algorithm_1(parts, names, local_iterations)
    ledger = read_ledger(tmp_path / "0")
    assert ledger.next == ITERATIONS
    for content, model in zip(ledger.records, expected, strict=True):
        record = decoded(content)
        assert (record.peers, record.members, len(record.steps)) == (
            workers, workers * TRIES * local_iterations, local_iterations,
        )  # fmt: skip
        apply(parts, record, b"")
        torch.testing.assert_close(steps_of(parts).centre, model, rtol=0, atol=1e-6)
    for peer in peers:
        assert torch.equal(steps_of(peer.parts).centre, steps_of(parts).centre)
        assert peer._network.node.state.traffic.sent < 4 * steps_of(parts).centre.numel()  # seeds, not parameters
    again = build(Options(composed(*SMALL, more, verb="evolve")), SingleProcess())
    start = ledger.head_at(0)
    assert restore_run(again, tmp_path / "0", start, from_start=True).head == ledger.head  # a run goes on from its folder
    assert torch.equal(steps_of(again).centre, steps_of(parts).centre)
    for made in (parts, again):
        made.threads.close()


def test_a_newcomer_begins_with_a_snapshot_of_the_founders_checkpoint(tmp_path, caplog):
    caplog.set_level("INFO")
    more = ("generations=80", "cluster.compact_every=3", "evaluate.every=1000")
    founder, address = entering(tmp_path / "founder", None, *more)
    newcomer, _ = entering(tmp_path / "newcomer", address, *more)
    founder.enter(NEVER)
    threads = working(founder)
    wait(lambda: founder._network.node.ledger.base >= 3)
    newcomer.enter(NEVER)
    ended([*threads, *working(newcomer)], founder, newcomer)
    first = read_ledger(tmp_path / "newcomer")
    assert first.base >= 3
    assert first.head == read_ledger(tmp_path / "founder").head
    assert torch.equal(steps_of(founder.parts).centre, steps_of(newcomer.parts).centre)
    assert "begins with a snapshot of iteration" in caplog.text
