"""A world of ranks that serves many tests, because a start costs seconds per rank."""

import atexit
import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from support.worlds import Mpi

TESTS = Path(__file__).parents[1]


class SharedWorld:
    """``ranks`` processes of ``mpi`` that take requests of :mod:`world_program` until :meth:`end`."""

    def __init__(self, mpi: Mpi, ranks: int) -> None:
        self.ranks, self._output = ranks, TemporaryFile()  # noqa: SIM115 (open as long as the world)
        command, environment = mpi.forking(ranks, "-m", "support.world_program", str(ranks))
        self._process = subprocess.Popen(
            command, cwd=TESTS, env=environment, stdin=subprocess.PIPE, stdout=self._output, stderr=self._output, text=True
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, cwd: Path, results: Path, timeout: float, **work: Any) -> list[Any]:
        """Return the results of a request's commands. Raises AssertionError with the last output of the ranks."""
        results.unlink(missing_ok=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"cwd": str(cwd), "results": str(results), **work}) + "\n")
        self._process.stdin.flush()
        deadline = time.monotonic() + timeout
        while not results.exists():
            if not self.alive or time.monotonic() > deadline:
                self.end(at_once=True)
                self._output.seek(0)
                text = self._output.read().decode(errors="replace")
                raise AssertionError(f"the world left no {results} within {timeout:.0f} s: {text[-3000:]}")
            time.sleep(0.02)
        return json.loads(results.read_text())

    def end(self, at_once: bool = False) -> None:
        if at_once:
            self._process.kill()
        else:
            with suppress(BrokenPipeError):  # an empty request: Open MPI's launcher passes no end of file on
                self._process.stdin.write("\n")  # type: ignore[union-attr]
                self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_worlds: dict[str, SharedWorld] = {}


def shared_world(mpi: Mpi, ranks: int) -> SharedWorld:
    """Return this process's world of at least ``ranks``, and of 3 where fewer would do; a smaller one ends first."""
    # the group of tests that one worker runs: every other worker would start a world of its own, 10 s of a core each
    if "PYTEST_XDIST_WORKER" in os.environ and "PYTEST_CURRENT_TEST" in os.environ:
        assert "@ranks " in os.environ["PYTEST_CURRENT_TEST"], 'mark the test with xdist_group("ranks")'
    world = _worlds.get(mpi.name)
    if world is not None and world.alive and world.ranks >= ranks:
        return world
    if world is not None and world.alive:
        world.end()
    _worlds[mpi.name] = SharedWorld(mpi, max(ranks, 3))  # the next test may want them, and a start costs seconds per rank
    return _worlds[mpi.name]


def end_worlds() -> None:
    for world in _worlds.values():
        if world.alive:
            world.end()
    _worlds.clear()


def program_in_world(path: Path, *arguments: str, cwd: Path, ranks: int, mpi: Mpi, timeout: float = 600) -> None:
    """Run a Python program on all ranks of a world of at least ``ranks``. Raises AssertionError where it fails."""
    shared_world(mpi, ranks).ask(cwd, cwd / "program.done", timeout, program=[str(path), *arguments])


def commands_in_world(lines: Sequence[tuple[int, Sequence[str]]], cwd: Path, mpi: Mpi) -> list[Any]:
    """Run ``neuro LINE`` for each (ranks, line). Returns exit code, output and errors of each."""
    world = shared_world(mpi, max(ranks for ranks, _ in lines))
    return world.ask(cwd, cwd / "commands.json", 300, lines=[(ranks, list(line)) for ranks, line in lines])


atexit.register(end_worlds)
