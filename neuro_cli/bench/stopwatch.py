"""Stopwatch for a command that trains and writes ``metrics.csv``, ended when an evaluation reaches the goal or time is up.

The clock is that of the watching process and begins with the command, so it includes start, imports, compilation and the
evaluations themselves, for every command.
"""

import csv
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neuro_cli.core.errors import UserError
from neuro_cli.core.process import last_line, start, stop

POLL = 0.1  # seconds between two reads of metrics.csv, the resolution of the times
PATIENCE = 90.0  # seconds to end after being asked: the generation under way, a last evaluation, a checkpoint
TERMINAL = "terminal.txt"


@dataclass(frozen=True)
class Evaluation:
    """Row of ``metrics.csv`` with a ``mean_return``; ``steps``: of the environments up to it, by the whole command."""

    minutes: float
    mean_return: float
    steps: float


@dataclass
class Timed:
    """Timing of a command. ``ended``: goal | budget | itself; ``minutes``: until it was over or asked to end."""

    evaluations: list[Evaluation] = field(default_factory=list)
    steps: float = 0.0
    minutes: float = 0.0
    ended: str = "itself"


def timed(command: Sequence[str], folder: Path, goal: float, budget: float) -> Timed:
    """Run ``command``, which writes ``folder``/metrics.csv, until an evaluation reaches ``goal`` or for ``budget`` seconds.

    Raises UserError with its last words when it fails.
    """
    seen, rows = Timed(), MetricsTail(folder / "metrics.csv")
    terminal = folder.with_name(f"{folder.name}.{TERMINAL}")  # beside the run folder, which the command makes itself
    terminal.parent.mkdir(parents=True, exist_ok=True)
    with terminal.open("wb") as output:
        begun = time.monotonic()
        process = start(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        while seen.ended == "itself":
            over = process.poll() is not None  # before the rows are read: none can come after that
            seen.minutes = (time.monotonic() - begun) / 60
            _note(seen, rows, goal)
            if over:
                break
            if seen.ended == "itself" and seen.minutes * 60 >= budget:
                seen.ended = "budget"
            time.sleep(POLL)
    finally:
        asked = _end(process, PATIENCE if seen.ended == "goal" else 0.0)
    if process.returncode and not asked:
        said = last_line(terminal) or "it said nothing"
        raise UserError(f"{' '.join(command[1:])}: exit code {process.returncode}: {said}")
    return seen


def _note(seen: Timed, rows: "MetricsTail", goal: float) -> None:
    """Add new rows; those after the goal do not count."""
    for row in rows.new():
        seen.steps += float(row.get("environment_steps") or 0)
        if row.get("mean_return"):
            seen.evaluations.append(Evaluation(seen.minutes, float(row["mean_return"]), seen.steps))
            if seen.evaluations[-1].mean_return >= goal:
                seen.ended = "goal"
                return


def _end(process: subprocess.Popen[bytes], patience: float) -> bool:
    """Wait ``patience`` seconds for the end, which the goal brings by itself; then stop it. Returns whether that was needed."""
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        stop(process, patience=PATIENCE)
        return True
    return False


class MetricsTail:
    """Reads the rows of a CSV file that another process writes, each once; a line counts when its end is there."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._head = path, 0, list[str]()

    def new(self) -> Iterator[dict[str, str]]:
        """Rows added since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in csv.reader(whole.decode().splitlines()):
            if self._head:
                yield dict(zip(self._head, line, strict=True))
            else:
                self._head = line
