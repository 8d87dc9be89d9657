"""Tasks in child processes of this one: no network, and nothing outlives the process that owns them.

A child does one task at a time and lives as long as the pool. One that dies takes its task with it: that is tried once more, in a
new child, and then has an error for a result.
"""

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from neuro_cli.core.checks import integer, number
from neuro_cli.pool.base import Pool, WorkResult, WorkUnit

log = logging.getLogger(__name__)

TRIES = 2
GONE_SECONDS = 5.0  # for a child to end when it is asked to
BLOCK = 1 << 16


@dataclass
class Child:
    """A child process, what it does, and what it has written since its last whole line."""

    name: str
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]
    task: WorkUnit | None = None
    begun: float = 0.0
    written: bytearray = field(default_factory=bytearray)

    def last_words(self) -> str:
        """The last line that it wrote to its standard error."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class LocalPool(Pool):
    """``workers``: child processes (None: the usable cores). ``memory``: GB that each may take (None: no limit)."""

    def __init__(self, workers: int | None, memory: float | None) -> None:
        self.workers = len(os.sched_getaffinity(0)) if workers is None else integer("pool.workers", workers, 1, 1024)
        self.memory = None if memory is None else number("pool.memory", memory, above=0.0)
        self._waiting: deque[WorkUnit] = deque()
        self._submitted: set[str] = set()
        self._tries: dict[str, int] = {}
        self._children: list[Child] = []
        self._ready: list[WorkResult] = []
        self._selector = selectors.DefaultSelector()
        self._started = 0

    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        for task in tasks:
            if task.id not in self._submitted:
                self._submitted.add(task.id)
                self._waiting.append(task)
        self._dispatch()

    def results(self, timeout: float) -> list[WorkResult]:
        deadline = time.monotonic() + timeout
        while not self._ready:
            left = deadline - time.monotonic()
            if left < 0 and timeout > 0:
                break
            for key, _ in self._selector.select(max(0.0, left)):
                self._read(key.data)
            self._dispatch()
            if timeout <= 0:
                break
        ready, self._ready = self._ready, []
        return ready

    def facts(self) -> dict[str, Any]:
        busy = {child.name: child.task.id for child in self._children if child.task is not None}
        return {"workers": self.workers, "waiting": len(self._waiting), "running": len(busy), "tasks": busy}

    def close(self) -> None:
        for child in self._children:
            child.process.terminate()
        for child in self._children:
            self._bury(child)
            child.errors.close()
        self._children = []
        self._waiting.clear()
        self._selector.close()

    def _dispatch(self) -> None:
        """Hand waiting tasks to idle children; start children while there are fewer than workers."""
        while self._waiting:
            child = next((child for child in self._children if child.task is None), None)
            if child is None:
                if len(self._children) >= self.workers:
                    return
                child = self._start()
            self._hand(child, self._waiting.popleft())

    def _hand(self, child: Child, task: WorkUnit) -> None:
        child.task, child.begun = task, time.monotonic()
        self._tries[task.id] = self._tries.get(task.id, 0) + 1
        line = json.dumps({"id": task.id, "kind": task.kind, "payload": task.payload}) + "\n"
        assert child.process.stdin is not None
        try:
            child.process.stdin.write(line.encode())
            child.process.stdin.flush()
        except BrokenPipeError:
            self._lost(child)

    def _start(self) -> Child:
        self._started += 1
        command = [sys.executable, "-P", "-m", "neuro_cli.pool.child", str(os.getpid())]
        command += [str(int(self.memory * 1e9))] if self.memory is not None else []
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        # a thread an operator: the workers share the cores
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
        child = Child(f"local-{self._started}", process, errors)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, child)
        self._children.append(child)
        return child

    def _read(self, child: Child) -> None:
        assert child.process.stdout is not None
        piece = os.read(child.process.stdout.fileno(), BLOCK)
        if not piece:
            self._lost(child)
            return
        child.written += piece
        while b"\n" in child.written:
            line, _, rest = bytes(child.written).partition(b"\n")
            child.written = bytearray(rest)
            fields = json.loads(line)
            self._ready.append(WorkResult(fields["id"], fields["payload"], fields["error"], child.name, fields["seconds"]))
            child.task = None

    def _lost(self, child: Child) -> None:
        """A child has ended by itself: its task is queued again, or has failed."""
        self._children.remove(child)
        code = self._bury(child)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = child.last_words()
        reason = f"its worker process ended with {how}" + (f": {words}" if words else "")
        task = child.task
        if task is None:
            log.warning("an idle worker process ended with %s", how)
        elif self._tries[task.id] < TRIES:
            log.warning("task %s is tried again: %s", task.id, reason)
            self._waiting.appendleft(task)
        else:
            self._ready.append(WorkResult(task.id, {}, reason, child.name, time.monotonic() - child.begun))
        child.errors.close()

    def _bury(self, child: Child) -> int:
        """Wait for a child that has ended or was told to, and let go of its pipes. Returns its exit code."""
        assert child.process.stdin is not None
        assert child.process.stdout is not None
        self._selector.unregister(child.process.stdout)
        try:
            code = child.process.wait(GONE_SECONDS)
        except subprocess.TimeoutExpired:
            child.process.kill()
            code = child.process.wait()
        with suppress(BrokenPipeError):  # of what it did not read any more
            child.process.stdin.close()
        child.process.stdout.close()
        return code
