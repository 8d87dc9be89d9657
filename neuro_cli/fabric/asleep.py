"""Waits that leave the core to others, for ranks that share cores: MPI's own waits poll."""

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
SOCKET_NAME = 108  # bytes of the longest one, by Linux


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Keep Ctrl-C waiting, as it does in MPI: rank 0 is the one that reports it."""
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
    """Barrier of the ranks of one machine, which sleep in the kernel until the last of them is there.

    It carries no data and only spares polls: a collective that follows is complete once other machines have sent their parts.
    ``peers``: on the first rank, sockets to all others; on another, the one to the first.
    """

    def __init__(self, peers: list[socket.socket], first: bool) -> None:
        self._peers, self._first = peers, first

    def wait(self) -> None:
        """Sleep until every rank of the machine is here, or one has died: MPI's launcher then ends the others."""
        with interrupts_later():
            if not self._first:
                self._tell()
            for peer in self._peers:
                with suppress(OSError):
                    peer.recv(1)
            if self._first:
                self._tell()

    def close(self) -> None:
        """Leave it: whoever waits for this rank, or comes later, does not wait for it."""
        for peer in self._peers:
            peer.close()

    def _tell(self) -> None:
        for peer in self._peers:
            with suppress(OSError):  # it is gone
                peer.send(HERE)


def local_barrier(node: Any) -> LocalBarrier | None:
    """Make the barrier of all ranks of ``node``, an MPI communicator, together. None where they cannot meet, or one is alone.

    They meet in a folder that only this user may enter, and that is removed at once.
    """
    if node.size == 1:
        return None
    first, folder, failure = node.rank == 0, "", ""
    own = socket.socket(socket.AF_UNIX)
    path = np.zeros(SOCKET_NAME, np.uint8)
    try:
        if first:
            folder = tempfile.mkdtemp(prefix="neuro-")
            name = os.path.join(folder, "barrier")
            own.bind(name)
            own.listen(node.size)
            path[: len(os.fsencode(name))] = list(os.fsencode(name))
    except OSError as error:  # nowhere to write, or a folder of temporary files with too long a name
        failure = str(error)
    node.Bcast(path)
    try:
        if not first:
            own.connect(path.tobytes().rstrip(b"\0") or "no socket")
    except OSError as error:  # the first rank could not, or this one sees another file system
        failure = str(error)
    failed = np.empty(node.size, np.uint8)
    node.Allgather(np.array([bool(failure)], np.uint8), failed)
    peers = [own]
    if first:
        peers = [] if failed.any() else [own.accept()[0] for _ in range(node.size - 1)]
        own.close()
        shutil.rmtree(folder, ignore_errors=True)
    if not failed.any():
        return LocalBarrier(peers, first)
    if failure:
        log.warning("ranks that wait for others poll between naps, for they share no socket: %s", failure)
    for peer in peers:
        peer.close()
    return None
