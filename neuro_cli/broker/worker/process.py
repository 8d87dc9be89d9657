"""A worker's handle of the process in which its tasks run: made when needed, killed when a task takes too much of anything."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.worker.frames import LENGTH, framed
from neuro_cli.broker.worker.kinds import OWNER_VARIABLE

TAIL_BYTES = 4096  # of what it wrote last to its standard error
PAGE = os.sysconf("SC_PAGE_SIZE")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class TaskProcess:
    """Runs one task at a time. ``memory``: MiB that it and the processes it starts may take, None for no limit.

    ``allows``: what its owner allows a `hydra_job`.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        payload_limit: int,
        memory: int | None,
        threads: int,
        allows: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._told = json.dumps({"kinds": dict(kinds), "payload_limit": payload_limit})
        self._allows = json.dumps({name: list(values) for name, values in (allows or {}).items()})
        self._memory, self._threads = memory, threads
        self._process: asyncio.subprocess.Process | None = None
        self._tail = b""
        self._drain: asyncio.Task[None] | None = None
        self._verdict: tuple[messages.Outcome, str] | None = None
        self.task: messages.Task | None = None
        self._began = 0.0

    async def run(self, task: messages.Task) -> messages.Result | None:
        """The task's result, whatever becomes of the process; None if :meth:`abandon` ended it."""
        self._began, self._verdict = time.perf_counter(), None
        self.task = task
        try:
            return await self._outcome(task)
        finally:
            self.task = None

    async def _outcome(self, task: messages.Task) -> messages.Result | None:
        result = await self._answer(task)
        if self._verdict is not None:
            await self.close()
        if self._verdict is not None and self._verdict[0] == messages.OUTCOME_UNSPECIFIED:
            return None
        if result is None:
            outcome, text = self._verdict or (messages.CRASHED, await self._obituary())
            result = messages.Result(run=task.run, id=task.id, outcome=outcome, error=text, seconds=self.elapsed)
        return result

    @property
    def elapsed(self) -> float:
        """Seconds that the present task has taken; 0 without one."""
        return 0.0 if self.task is None else time.perf_counter() - self._began

    def abandon(self) -> None:
        """End the present task: nobody wants its result."""
        self._end(messages.OUTCOME_UNSPECIFIED, "")

    def check_memory(self) -> None:
        """End the present task if it has grown too large. A few times a second."""
        if self._memory is None or self._process is None or self.task is None:
            return
        if resident_bytes(self._process.pid) > self._memory * 2**20:
            self._end(messages.OUT_OF_MEMORY, f"the task needed more than worker.memory={self._memory} MiB")

    async def close(self) -> None:
        """Kill the process, and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._drain is not None:
            await self._drain

    async def _answer(self, task: messages.Task) -> messages.Result | None:
        """What the process answers; None if it ended or was ended."""
        try:
            process = await self._alive()
        except OSError as error:
            self._verdict = messages.CRASHED, f"no process could be started for the task: {error}"
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(framed(task.SerializeToString()))
            async with asyncio.timeout(task.timeout_seconds or None):
                await process.stdin.drain()
                (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                return messages.Result.FromString(await process.stdout.readexactly(length))
        except TimeoutError:
            self._end(messages.TIMED_OUT, f"the task took longer than its {task.timeout_seconds:g} s")
        except (OSError, asyncio.IncompleteReadError):
            pass  # it has ended
        except DecodeError:
            self._end(messages.CRASHED, "the task wrote into the pipe of its worker")
        return None

    async def _alive(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self.close()
        environment = os.environ | {name: str(self._threads) for name in THREADS} | {OWNER_VARIABLE: self._allows}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "neuro_cli.broker.worker.child", self._told,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True, env=environment,
        )  # fmt: skip
        self._tail = b""
        self._drain = asyncio.create_task(self._keep_tail(self._process))
        return self._process

    def _end(self, outcome: messages.Outcome, text: str) -> None:
        self._verdict = outcome, text
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _keep_tail(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(65536):
            self._tail = (self._tail + chunk)[-TAIL_BYTES:]

    async def _obituary(self) -> str:
        """How the process ended, in words."""
        process = self._process
        assert process is not None
        await self.close()
        code = process.returncode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += " (perhaps the machine was out of memory)"
        last = self._tail.decode(errors="replace").strip()
        return f"the task's process ended with {how}" + (f"; it last wrote: {last}" if last else "")


def resident_bytes(pid: int) -> int:
    """Memory of a process and its descendants; 0 where /proc does not tell."""
    total = 0
    try:
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(resident_bytes(int(child)) for child in children.read_text().split())
    except (OSError, IndexError, ValueError):
        pass  # it has ended meanwhile
    return total
