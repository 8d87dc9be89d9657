"""Processes that call a reward, so that a call that hangs or crashes costs one score and never the run."""

import json
import logging
import os
import queue
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.process import kill_group, start, stop

log = logging.getLogger(__name__)

START_SECONDS = 120.0  # limit for the import of the user's module
WORKER = "neuro_cli.task.language.reward_worker"


class FailedError(Exception):
    """Failure of a reward, whose text says how."""


class RewardProcess:
    """One process of a reward. Raises ConfigError if the reward cannot be imported."""

    def __init__(self, name: str, options: Mapping[str, Any], seconds: float) -> None:
        self._seconds, self._rest = seconds, b""
        spec = json.dumps({"path": sys.path, "name": name, "options": dict(options)})
        self._process = start([sys.executable, "-P", "-m", WORKER, spec], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            ready = self._line(START_SECONDS)
        except FailedError as error:
            self.end()
            raise ConfigError("task.reward", name, f"its process does not start: {error}") from error
        if "error" in ready:
            self.end()
            raise ConfigError("task.reward", name, f"it cannot be imported: {ready['error']}")

    def reward(self, prompt: str, answer: str, target: str) -> float:
        """Return the reward of an answer. Raises FailedError if the call raises, hangs, crashes or gives no finite number."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([prompt, answer, target]).encode() + b"\n")
            self._process.stdin.flush()
            made = self._line(self._seconds)
        except OSError as error:
            raise FailedError("its process ended") from error
        if "error" in made:
            raise FailedError(made["error"])
        return float(made["reward"])

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def _line(self, seconds: float) -> dict[str, Any]:
        """Return the next message of the process. Raises FailedError after ``seconds`` without one, and ends the process."""
        assert self._process.stdout is not None
        pipe, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(pipe, 2**16) if ready else b""
            if not part:
                self.end()
                raise FailedError("its process ended" if ready else f"no answer within {seconds:g} seconds")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        """Kill the process and its children."""
        kill_group(self._process.pid)
        stop(self._process, patience=5.0, ask=False)


class RewardPool:
    """Pool of processes of a reward, as many as threads that ask at the same time.

    ``seconds``: limit of one call; ``failed``: reward of an answer whose call failed. Raises ConfigError where the reward
    cannot be imported, or fails on the ``trial`` (prompt, answer, target).
    """

    def __init__(self, name: str, options: Mapping[str, Any], seconds: float, failed: float, trial: tuple[str, str, str]) -> None:
        self._make, self._name, self._value = (lambda: RewardProcess(name, options, seconds)), name, failed
        self._free: queue.SimpleQueue[RewardProcess] = queue.SimpleQueue()
        self._said = False
        weakref.finalize(self, _end_all, self._free)
        process = self._make()
        self._free.put(process)
        try:
            process.reward(*trial)
        except FailedError as error:
            prompt, answer, target = (text[:60] for text in trial)
            asked = f"reward({prompt!r}, {answer!r}, {target!r})"
            raise ConfigError("task.reward", name, f"{asked} fails: {error}") from error

    def rewards(self, asked: Sequence[tuple[str, str | None, str]]) -> list[tuple[float, bool]]:
        """Return the reward of each (prompt, answer, target), and whether its call failed. Thread-safe.

        An answer None, whose logits are not numbers, fails without a call.
        """
        try:
            process = self._free.get_nowait()
        except queue.Empty:
            process = self._make()
        rewards = []
        try:
            for prompt, answer, target in asked:
                if not process.alive:
                    process = self._make()
                try:
                    if answer is None:
                        raise FailedError("the logits of the answer are not numbers")
                    rewards.append((process.reward(prompt, answer, target), False))
                except FailedError as error:
                    self._say(error)
                    rewards.append((self._value, True))
        finally:
            self._free.put(process)
        return rewards

    def _say(self, error: FailedError) -> None:
        if not self._said:
            self._said = True
            text = "task.reward=%s: a call failed (%s): its answer gets task.reward_failed=%g"
            log.warning(text, self._name, error, self._value)


def _end_all(processes: "queue.SimpleQueue[RewardProcess]") -> None:
    with suppress(queue.Empty):
        while True:
            processes.get_nowait().end()
