"""Systems that are measured in turns: processes, one generation each, and the environments of peers."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from rich.console import Console

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.process import exit_text, start, stop

UNCOUNTED = 2  # generations
GONE_SECONDS = 30.0  # patience with a process that should end by itself
NONE: Mapping[str, str] = MappingProxyType({})


class BenchProcess:
    """System in a process of its own, with its own peak memory and threads; it runs one generation per line that it reads.

    ``command`` writes one JSON object a generation, with ``seconds``; its standard error goes to ``log``.
    """

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, threads: int, variables: Mapping[str, str] = NONE
    ) -> None:
        self.name, self._log = name, log
        self.rows: list[dict[str, float]] = []
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)} | dict(variables)
        with log.open("w") as words:
            pipe = subprocess.PIPE
            self._process = start(
                [str(word) for word in command], stdin=pipe, stdout=pipe, stderr=words, text=True, env=environment
            )

    def generation(self, counted: bool) -> None:
        """Run one generation. Raises UserError when the process ended, or refused its setting."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            (code,) = stop(self._process, patience=GONE_SECONDS, ask=False)
            raise UserError(f"bench: the process of {self.name} ended with {exit_text(code)}; what it said is in {self._log}")
        row = json.loads(answer)
        if "refused" in row:
            raise UserError(row["refused"])
        if counted:
            self.rows.append(row)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # a line that it did not read any more
                self._process.stdin.close()  # asks for its end
        stop(self._process, patience=GONE_SECONDS, ask=False)

    def median(self, key: str) -> float:
        """Return the median of a column over the counted generations."""
        return statistics.median(row[key] for row in self.rows)

    def ratios(self, other: "BenchProcess", key: str = "seconds") -> list[float]:
        """Return the ratios of a column over the pairs of generations, in increasing order."""
        return sorted(a[key] / b[key] for a, b in zip(self.rows, other.rows, strict=True))

    def ratio_to(self, other: "BenchProcess") -> str:
        """Return a line with the median ratio of the pairs of generations, and their minimum and maximum."""
        pairs = self.ratios(other)
        return f"{self.name} / {other.name}: {statistics.median(pairs):.3f} (pairs {pairs[0]:.3f} to {pairs[-1]:.3f})"


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help lists the options")


def integer_from(low: int, even: bool = False) -> Callable[[str], int]:
    """Return a parser of integers >= ``low``."""

    def parse(text: str) -> int:
        value = int(text) if text.isdecimal() else -1
        if value < low or (even and value % 2):
            raise argparse.ArgumentTypeError(f"{text}: must be an {'even ' if even else ''}integer >= {low}")
        return value

    return parse


def keep_to_cores(threads: int | None) -> int:
    """Bind this process and its children to ``threads`` cores: jax takes as many threads. Raises UserError."""
    usable = sorted(os.sched_getaffinity(0))
    if threads is None:
        return len(usable)
    if threads > len(usable):
        raise UserError(f"--threads {threads}: {len(usable)} cores are usable here")
    os.sched_setaffinity(0, usable[:threads])
    return threads


def environment_python(name: str, requirements: Sequence[str], folder: Path, console: Console) -> Path:
    """Return the Python of a peer's environment, which is created unless it exists. Raises UserError."""
    home = (folder / name).absolute()
    python, ready = home / "bin" / "python", home / "ready.json"
    wanted = json.dumps(requirements)
    if ready.is_file() and ready.read_text() == wanted:
        return python
    console.print(f"{name}: creating its environment in {home} (minutes)")
    ready.unlink(missing_ok=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--upgrade", *requirements]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise UserError(f"{name}: its environment cannot be created: {last}")
    ready.write_text(wanted)
    return python


def installed(python: Path) -> dict[str, str]:
    """Return the version of every package in an environment."""
    program = "import json, importlib.metadata as m; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    return json.loads(subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True).stdout)


def make_folder(output: Path) -> None:
    """Create the folder of the results, so that a wrong path is known before the measurement. Raises UserError."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise UserError(f"--output {output}: {error.strerror}") from error


def measure(workers: list[BenchProcess], repeats: int) -> None:
    """Run one generation of each in turn: a machine that drifts drifts for all of them. Raises UserError."""
    for repeat in range(UNCOUNTED + repeats):
        for worker in workers:
            worker.generation(counted=repeat >= UNCOUNTED)
