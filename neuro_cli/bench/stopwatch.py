"""A command under a stopwatch: it trains, writes ``metrics.csv``, and is ended when a look reaches the goal or time is up.

The clock is that of the watching process and begins with the command, so start, imports, compilation and the looks
themselves are in it, whatever the command.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from neuro_cli.core.errors import UserError
from neuro_cli.core.metric import Metric
from neuro_cli.core.process import die_with_parent
from neuro_cli.run_folder.metrics import MetricsTail

POLL = 0.1  # seconds between two glances at metrics.csv: what times can be wrong by
PATIENCE = 90.0  # seconds to end after being asked: the generation under way, a last look, a checkpoint
TERMINAL = "terminal.txt"


@dataclass(frozen=True)
class Evaluation:
    """A row of ``metrics.csv`` with a value of the metric; ``steps``: of the environments up to it, by the whole command."""

    minutes: float
    value: float
    steps: float


@dataclass
class Timed:
    """What was seen of a command. ``ended``: goal | budget | itself; ``minutes``: until it was over or asked to end."""

    looks: list[Evaluation] = field(default_factory=list)
    steps: float = 0.0
    minutes: float = 0.0
    ended: str = "itself"


def timed(command: Sequence[str], folder: Path, metric: Metric, goal: float, budget: float) -> Timed:
    """Run ``command``, which writes ``folder``/metrics.csv, until ``metric`` is at ``goal`` or for ``budget`` seconds.

    Raises UserError with its last words when it fails.
    """
    seen, rows = Timed(), MetricsTail(folder / "metrics.csv")
    terminal = folder.with_name(f"{folder.name}.{TERMINAL}")  # beside the run folder, which the command makes itself
    terminal.parent.mkdir(parents=True, exist_ok=True)
    with terminal.open("wb") as output:
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
    try:
        while seen.ended == "itself":
            over = process.poll() is not None  # before the rows are read: none can come after that
            seen.minutes = (time.monotonic() - begun) / 60
            _note(seen, rows, metric, goal)
            if over:
                break
            if seen.ended == "itself" and seen.minutes * 60 >= budget:
                seen.ended = "budget"
            time.sleep(POLL)
    finally:
        asked = _end(process, PATIENCE if seen.ended == "goal" else 0.0)
    if process.returncode and not asked:
        said = terminal.read_text(errors="replace").strip().splitlines()
        raise UserError(f"{' '.join(command[1:])}: exit code {process.returncode}: {said[-1] if said else 'it said nothing'}")
    return seen


def _note(seen: Timed, rows: MetricsTail, metric: Metric, goal: float) -> None:
    """Add the rows that came; nothing counts after the goal."""
    for row in rows.new():
        seen.steps += float(row.get("environment_steps") or 0)
        if row.get(metric.name):
            seen.looks.append(Evaluation(seen.minutes, float(row[metric.name]), seen.steps))
            if metric.reached(seen.looks[-1].value, goal):
                seen.ended = "goal"
                return


def _end(process: subprocess.Popen[bytes], patience: float) -> bool:
    """Wait ``patience`` seconds for the end, which the goal brings by itself; then ask for it, then enforce it.

    Returns whether it had to be asked.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
        return False
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its own session, so its group and no other
        process.wait()
    return True
