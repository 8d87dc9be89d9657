"""Ranks of a machine that wait in the kernel; here threads are the ranks."""

import logging
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from neuro_cli.fabric.asleep import local_barrier

RANKS = 3


class Node:
    """Communicator of threads, with what :func:`local_barrier` asks of one of MPI."""

    def __init__(self, rank, shared, gate):
        self.rank, self.size, self._shared, self._gate = rank, RANKS, shared, gate

    def Allgather(self, own, gathered):  # noqa: N802 (the names of mpi4py)
        self._shared[self.rank] = own.copy()
        self._gate.wait()
        gathered[:] = np.concatenate([self._shared[rank] for rank in range(RANKS)])
        self._gate.wait()

    def Bcast(self, values):  # noqa: N802
        table = np.empty(RANKS * values.size, values.dtype)
        self.Allgather(values, table)
        values[:] = table[: values.size]


def on_all(run):
    """Return the results of ``run`` for each rank's communicator."""
    shared, gate, outcomes = {}, threading.Barrier(RANKS, timeout=30), {}
    ranks = [threading.Thread(target=lambda n=n: outcomes.update({n: run(Node(n, shared, gate))})) for n in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(30)
    return [outcomes[n] for n in range(RANKS)]


@pytest.fixture
def folder(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="n") as short:  # the name of a socket has at most 108 bytes
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield short


@pytest.mark.parametrize("last", range(RANKS))
def test_nobody_passes_before_the_last_is_there(folder, last):
    def run(node):
        barrier = local_barrier(node)
        passed = []
        for _ in range(3):
            if node.rank == last:
                time.sleep(0.1)
            begun = time.monotonic()
            barrier.wait()
            passed.append((begun, time.monotonic()))
        return passed

    for ranks in zip(*on_all(run), strict=True):
        assert min(passed for _, passed in ranks) >= max(begun for begun, _ in ranks)


def test_leaves_no_file(folder):
    assert all(on_all(local_barrier))
    assert list(Path(folder).iterdir()) == []


def test_one_that_is_gone_holds_up_nobody(folder):
    barriers = on_all(local_barrier)
    barriers[1].close()
    waits = [threading.Thread(target=barriers[n].wait) for n in (0, 2)]
    for wait in waits:
        wait.start()
    for wait in waits:
        wait.join(10)
    assert not any(wait.is_alive() for wait in waits)


def test_ranks_that_cannot_meet_do_without_and_say_so(monkeypatch, tmp_path, caplog):
    deep = tmp_path / ("n" * 108)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with caplog.at_level(logging.WARNING):
        assert on_all(local_barrier) == [None] * RANKS
    assert "poll between naps" in caplog.text
    assert list(deep.iterdir()) == []
