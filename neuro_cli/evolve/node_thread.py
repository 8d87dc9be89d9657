"""Thread of a node, and the calls of the worker on the main thread.

The node reports back by :attr:`neuro_cli.evolve.node.Node.events`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from neuro_cli.evolve.collector import ScoreReport
from neuro_cli.evolve.node import Failed, Node

log = logging.getLogger(__name__)

STOP_SECONDS = 15.0  # seconds for the thread to end after a request


class NodeThread:
    """Thread, a daemon, that runs ``node`` from :meth:`start` to :meth:`stop`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._thread = threading.Thread(target=self._main, name="neuro-network", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def await_entry(self, stopped: Callable[[], bool]) -> None:
        """Wait until the node takes part in a cluster, or ``stopped()``. Raises the error that has ended the thread."""
        while not (self.node.entered.wait(0.05) or self.node.failure is not None or stopped()):
            pass
        if self.node.failure is not None:
            raise self.node.failure

    def submit(self, report: ScoreReport) -> None:
        """Report to the leader repeatedly, until the iteration is committed."""
        self._call(self.node.reporter.submit, report)

    def work_on(self, iteration: int) -> None:
        """Report that the worker has applied everything before ``iteration``."""
        self._call(self.node.work_on, iteration)

    def mark_ledger(self) -> None:
        """Flush the ledger to the disk, and count its records in the header of the file."""
        # the executor keeps the loop free: a disk may take longer than an election waits
        self._call(lambda: self.node.loop.run_in_executor(None, self.node.peer_ledger.marker()))

    def compact(self, iteration: int) -> None:
        """Drop the records before ``iteration``, which a snapshot replaces."""
        self._call(self.node.peer_ledger.compact, iteration)

    def stop(self, leave: bool) -> None:
        """End the thread; ``leave``: leave the cluster first, so that it does not wait for this peer."""
        self._call(self._begin_to_stop, leave)
        self._thread.join(STOP_SECONDS)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        if self.node.running:
            with suppress(RuntimeError):  # the loop has just ended; an event says why
                self.node.loop.call_soon_threadsafe(function, *arguments)

    # calls on the thread

    def _main(self) -> None:
        node = self.node
        try:
            asyncio.run(node.serve())
        except Exception as error:
            log.debug("", exc_info=error)
            node.failure = error
            node.events.put(Failed(error))
        finally:
            node.running = False

    def _begin_to_stop(self, leave: bool) -> None:
        self._stopping = self.node.loop.create_task(self.node.stop(leave), name="stop")
