"""``neuro report FOLDER...``: one table over the runs of sweeps, on the terminal and as ``sweep.csv`` in a sweep's folder."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import refuse_link, save_file
from neuro_cli.core.messages.tables import print_table
from neuro_cli.core.metric import Metric
from neuro_cli.launch.slurm_submit import left_on_slurm
from neuro_cli.report.run_state import RunState, read_job
from neuro_cli.run_folder.config import is_run

if TYPE_CHECKING:
    from rich.console import Console

CSV = "sweep.csv"
CANCELLED = ("CANCELLED", "PREEMPTED", "REQUEUED", "PENDING")  # SLURM's words for jobs that did not fail
WORKS = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")  # SLURM's words for jobs that have not ended
COLOURS = {"finished": "green", "running": "cyan", "waiting": "blue", "stopped": "yellow", "failed": "red", "damaged": "magenta"}


def report(folders: Sequence[Path]) -> list[RunState]:
    """Print the table of all runs in ``folders``; write ``sweep.csv`` into each that is a sweep. Raises UserError."""
    listed = []
    for folder in folders:
        jobs = read_jobs(folder, left_on_slurm(folder))
        if not jobs:
            raise UserError(f"{folder}: no run and no sweep of neuro (no .hydra/config.yaml there or below)")
        if not is_run(folder):
            write(folder / CSV, jobs)
        listed += [(folder, job) for job in jobs]
    if len(folders) > 1:
        for folder, job in listed:
            job.name = str(folder / job.name) if not is_run(folder) else str(folder)
    jobs = [job for _, job in listed]
    show(jobs)
    return jobs


def read_jobs(folder: Path, states: Mapping[int, str] | None = None) -> list[RunState]:
    """Read the run in ``folder``, or the runs of the sweep in it, in their order.

    ``states``: the scheduler's word for jobs without a result, by number; a job that left no folder is in the table too.
    """
    if is_run(folder):
        return [read_job(folder, folder.resolve().name)]
    runs = {path.parent.parent for path in folder.glob("**/.hydra/config.yaml")}
    jobs = {str(run.relative_to(folder)): _job_or_damaged(run, str(run.relative_to(folder))) for run in runs}
    for number, state in (states or {}).items():
        job = jobs.setdefault(str(number), RunState(str(number), "failed"))
        if state.startswith(("PENDING", *WORKS)) and job.state != "finished":
            job.state, job.reason = "waiting" if state.startswith("PENDING") else "running", ""
            continue
        if job.state == "stopped" and not state.startswith(CANCELLED):
            job.state = "failed"  # ranks stopped in good order, because SLURM ended what was left of the job
        if job.state == "failed":
            job.reason = "; ".join(part for part in (f"SLURM: {state}", job.reason) if part)
    return [jobs[name] for name in sorted(jobs, key=_natural)]


def _job_or_damaged(run: Path, name: str) -> RunState:
    """Read a run among others; one whose files cannot be read is shown as damaged."""
    try:
        return read_job(run, name)
    except UserError as error:
        return RunState(name, "damaged", reason=str(error))


def show(jobs: Sequence[RunState], console: "Console | None" = None) -> None:
    """Print the table of the report."""
    from rich.markup import escape

    keys, metrics = differing(jobs), headlines(jobs)
    names = short_names(keys)
    costs = ("generations", "wall seconds", "candidates per second", "ranks")
    measured = [escape(metric.label) for metric in metrics]
    reasons = any(job.reason for job in jobs)
    columns = ("run", "state", *measured, *(escape(names[key]) for key in keys), *costs, *["reason"] * reasons)
    rows = []
    for job in jobs:
        state = f"[{COLOURS[job.state]}]{job.state}[/]"
        values = [escape(job.overrides.get(key, "")) for key in keys]
        tested = [metric.text(job.values[metric.name]) if metric.name in job.values else "-" for metric in metrics]
        cost = map(_rounded, (job.generations, job.wall_seconds, job.candidates_per_second, job.ranks))
        rows.append((escape(job.name), state, *tested, *values, *cost, *([escape(job.reason)] if reasons else [])))
    print_table(columns, rows, numbers=(*measured, *costs), console=console)


def write(path: Path, jobs: Sequence[RunState]) -> None:
    """Write the table ``sweep.csv``: numbers in full, empty where there are none. Raises UserError."""
    keys = differing(jobs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(metric.name for metric in headlines(jobs)))
    writer.writerow(["run", *keys, "state", "generations", *names, "wall_seconds", "candidates_per_second", "ranks", "reason"])
    for job in jobs:
        values = [job.overrides.get(key, "") for key in keys]
        tested = [job.values.get(name) for name in names]
        cost = (job.wall_seconds, job.candidates_per_second, job.ranks)
        writer.writerow([job.name, *values, job.state, job.generations, *tested, *cost, job.reason])
    refuse_link(path)
    save_file(path, text.getvalue())


def differing(jobs: Sequence[RunState]) -> list[str]:
    """Return the overridden keys in which the jobs differ, in the order typed."""
    keys = dict.fromkeys(key for job in jobs for key in job.overrides)
    begun = [job for job in jobs if job.overrides]
    return [key for key in keys if len({job.overrides.get(key) for job in begun}) > 1]


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the shortest name of each key in the table, an end that no other has: ``algo.sigma`` is ``sigma``."""
    endings = {key: [key.split(".", skipped)[-1] for skipped in range(key.count("."), -1, -1)] for key in keys}
    counts = Counter(ending for of_key in endings.values() for ending in of_key)
    return {key: next((ending for ending in of_key if counts[ending] == 1), key) for key, of_key in endings.items()}


def headlines(jobs: Sequence[RunState]) -> list[Metric]:
    """Return the headlines of the jobs' tasks, each once, in the jobs' order: those with a value, if there are any."""
    begun = [job for job in jobs if job.metrics]
    valued = [job for job in begun if job.metrics[0].name in job.values]
    return list({job.metrics[0].name: job.metrics[0] for job in valued or begun}.values())


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part]


def _rounded(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
