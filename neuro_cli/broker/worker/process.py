"""Process of tasks, seen from its owner: started when needed, killed when a task takes too much time or memory."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from neuro_cli.broker.proto.broker_pb2 import Task
from neuro_cli.broker.worker.attempt import Attempt, Ending, FrameError, attempt_of, failed, framed, next_frame
from neuro_cli.broker.worker.kinds import RESULT_VARIABLE
from neuro_cli.core.machine.process import ended_with_us, exit_text, kill_group, resident_bytes

TAIL_SECONDS = 1.0  # seconds for the last output of an ended process; one that a task left behind may keep the pipe open
MEMORY_SECONDS = 0.1  # seconds between two measurements of a task's memory
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


TAIL_BYTES = 4096


class Tail(asyncio.Protocol):
    """Tail of a task process's pipe of errors, its last bytes: ``text``, complete when ``ended`` is set.

    The pipe is not one of asyncio's process, which counts as running while a process that a task left behind keeps the pipe open.
    """

    def __init__(self) -> None:
        self.text = b""
        self.ended = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> int:
        """Open the pipe of a task process's errors. Returns its end to write to, which the caller closes. Raises OSError."""
        reading, writing = os.pipe()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, os.fdopen(reading, "rb", 0))
        return writing

    def data_received(self, data: bytes) -> None:
        self.text = (self.text + data)[-TAIL_BYTES:]

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()

    def close(self) -> None:
        """Close our end of the pipe, even where a process still writes to it."""
        if self._transport is not None:
            self._transport.close()


class TaskProcess:
    """Process that runs one task at a time, and ends with its owner.

    ``memory``: resident MiB of a task and the processes that it starts, None for no limit. ``threads``: those of its numerical
    libraries. ``ranks``: size of its MPI job, 1 for a plain process.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        payload_limit: int,
        memory: int | None,
        threads: int = 1,
        ranks: int = 1,
    ) -> None:
        self._settings = json.dumps({"kinds": dict(kinds), "payload_limit": payload_limit, "ranks": ranks})
        self._line_ends = 0 if ranks == 1 else 1  # bytes that follow a message through a launcher
        self._program = ["neuro_cli.broker.worker.child"] if ranks == 1 else ["neuro_cli.launch.task_world", str(ranks)]
        self._payload_limit, self._memory, self._threads = payload_limit, memory, threads
        self._process: asyncio.subprocess.Process | None = None
        self._tail = Tail()
        self._watch: asyncio.Task[None] | None = None
        self._verdict: tuple[Ending | None, str] | None = None
        self.task: Task | None = None
        self._began = 0.0

    async def run(self, task: Task) -> Attempt | None:
        """Run a task. Returns the attempt even where the process ended; None where :meth:`abandon` ended it."""
        self._began, self._verdict = time.perf_counter(), None
        self.task = task
        try:
            return await self._attempt(task)
        finally:
            self.task = None

    async def _attempt(self, task: Task) -> Attempt | None:
        answer = await self._answer(task)
        if self._verdict is None:
            return answer or failed(Ending.CRASHED, await self._obituary(), self.elapsed)
        ending, text = self._verdict
        await self.close()
        if ending is None:
            return None
        return answer or failed(ending, text, self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds that the present task has taken; 0 without one."""
        return 0.0 if self.task is None else time.perf_counter() - self._began

    @property
    def pid(self) -> int | None:
        """Id of the process of tasks; None while none exists."""
        return None if self._process is None else self._process.pid

    def abandon(self) -> None:
        """End the present task, whose result nobody wants any more."""
        self._end(None, "")

    async def close(self) -> None:
        """Kill the process of tasks and all processes that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        kill_group(process.pid)
        await process.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._tail.ended.wait(), TAIL_SECONDS)
        self._tail.close()
        if self._watch is not None:
            self._watch.cancel()

    async def _answer(self, task: Task) -> Attempt | None:
        """Send the task to the process. Returns its answer, None where it ended or was ended."""
        try:
            process = await self._alive()
        except OSError as error:
            self._verdict = Ending.CRASHED, f"no process could be started for the task: {error}"
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(framed({"kind": task.kind}, task.payload))
            async with asyncio.timeout(task.timeout_seconds or None):
                await process.stdin.drain()
                frame = await next_frame(process.stdout, self._payload_limit)
                await process.stdout.readexactly(self._line_ends)
                return attempt_of(frame)
        except TimeoutError:
            self._end(Ending.TIMED_OUT, f"the task took longer than its {task.timeout_seconds:g} s")
        except (OSError, asyncio.IncompleteReadError):
            pass  # the process has ended
        except FrameError:
            self._end(Ending.CRASHED, "the task wrote into the pipe of its worker")
        return None

    async def _alive(self) -> asyncio.subprocess.Process:
        """Return the process, and start it where none exists. Raises OSError."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self.close()
        command = [sys.executable, "-P", "-m", *self._program, self._settings]
        threads = {name: str(self._threads) for name in THREADS}
        environment = os.environ | threads | {RESULT_VARIABLE: str(self._payload_limit)}
        pipe = asyncio.subprocess.PIPE
        self._tail = Tail()
        errors = await self._tail.open()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *ended_with_us(command, signal.SIGKILL),
                stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True, env=environment,
            )  # fmt: skip
        finally:
            os.close(errors)
        if self._memory is not None:
            self._watch = asyncio.create_task(self._watch_memory(self._process, self._memory))
        return self._process

    async def _watch_memory(self, process: asyncio.subprocess.Process, limit: int) -> None:
        # resident bytes, and no RLIMIT of the child: that would count reserved memory that is never used, each process alone, and
        # fail at an arbitrary allocation
        while process.returncode is None:
            await asyncio.sleep(MEMORY_SECONDS)
            if self.task is not None and resident_bytes(process.pid) > limit * 2**20:
                self._end(Ending.OUT_OF_MEMORY, f"the task needed more than worker.memory={limit} MiB")

    def _end(self, ending: Ending | None, text: str) -> None:
        self._verdict = ending, text
        if self._process is not None:
            kill_group(self._process.pid)

    async def _obituary(self) -> str:
        """Close the process, and describe how it ended."""
        process = self._process
        assert process is not None
        await self.close()
        code = process.returncode or 0
        how = exit_text(code) + (" (perhaps the machine was out of memory)" if code == -signal.SIGKILL else "")
        last = self._tail.text.decode(errors="replace").strip()
        return f"the task's process ended with {how}" + (f"; it last wrote: {last}" if last else "")
