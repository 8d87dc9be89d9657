"""Waits without polling, for ranks that share cores; MPI's own waits poll."""

import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

log = logging.getLogger(__name__)

ALERT = 1e-4  # seconds of waiting without sleep
HERE = b"\0"
SOCKET_NAME = 108  # bytes of the longest name of a socket on Linux


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, as MPI does: rank 0 reports it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_asleep(request: Any, nap: float) -> None:
    """Wait for an MPI request with sleeps up to ``nap`` seconds, at most an eighth of the wait."""
    begun = time.perf_counter()
    with interrupts_later():
        while not request.Test():
            waited = time.perf_counter() - begun
            if waited < ALERT:
                os.sched_yield()
            else:
                time.sleep(min(waited / 8, nap))


class LocalBarrier:
    """Barrier of the ranks of one machine, which sleep in the kernel until the last one arrives.

    It carries no data and only spares polls: the collective after it waits for other machines alone. ``peers``: sockets to all
    other ranks on the first rank, one to the first rank on the others.
    """

    def __init__(self, peers: list[socket.socket], first: bool) -> None:
        self._peers, self._first = peers, first

    def wait(self) -> None:
        """Sleep until every rank of the machine arrives, or one dies: MPI's launcher then ends the others."""
        with interrupts_later():
            if not self._first:
                self._signal()
            # the first rank hears from all others, then releases them; a closed socket ends recv at once
            for peer in self._peers:
                with suppress(OSError):
                    peer.recv(1)
            if self._first:
                self._signal()

    def close(self) -> None:
        """Leave the barrier: no rank waits for this one any more."""
        for peer in self._peers:
            peer.close()

    def _signal(self) -> None:
        for peer in self._peers:
            with suppress(OSError):  # the other rank has ended
                peer.send(HERE)


def local_barrier(node: Any) -> LocalBarrier | None:
    """Make the barrier of ``node``, an MPI communicator; all its ranks call this. None where they cannot meet, or for one rank.

    The sockets lie in a folder that only this user may enter and that is removed at once.
    """
    if node.size == 1:
        return None
    first, folder, failure = node.rank == 0, "", ""
    local = socket.socket(socket.AF_UNIX)
    path = np.zeros(SOCKET_NAME, np.uint8)
    try:
        if first:
            folder = tempfile.mkdtemp(prefix="neuro-")
            name = os.path.join(folder, "barrier")
            local.bind(name)
            local.listen(node.size)
            path[: len(os.fsencode(name))] = list(os.fsencode(name))
    except OSError as error:  # no place to write, or too long a path of temporary files
        failure = str(error)
    node.Bcast(path)
    try:
        if not first:
            local.connect(path.tobytes().rstrip(b"\0") or "no socket")
    except OSError as error:  # the first rank failed, or this one sees another file system
        failure = str(error)
    failed = np.empty(node.size, np.uint8)
    node.Allgather(np.array([bool(failure)], np.uint8), failed)
    peers = [local]
    if first:
        peers = [] if failed.any() else [local.accept()[0] for _ in range(node.size - 1)]
        local.close()
        shutil.rmtree(folder, ignore_errors=True)
    if not failed.any():
        return LocalBarrier(peers, first)
    if failure:
        log.warning("ranks that wait for others poll between naps, for they share no socket: %s", failure)
    for peer in peers:
        peer.close()
    return None
