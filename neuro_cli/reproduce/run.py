"""Run of an entry: one command in its own run folder, kept once it has finished.

    ENTRY/runs/NAME.json    its outcome; ENTRY/runs/NAME, NAME_2, ...: its run folders, the last one counts
    ENTRY/runs/NAME.kept    results that a command collects over its starts; ENTRY/runs/NAME.txt: its output

An interrupted training or search is resumed; other commands begin again, in the next folder.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.process import last_line, start, stop
from neuro_cli.launch.quoting import quoted
from neuro_cli.report.run_state import read_job
from neuro_cli.reproduce.entry import AS_TYPED, RunSetting
from neuro_cli.reproduce.requirements import has_gpu
from neuro_cli.run_folder.checkpoint import write_atomically
from neuro_cli.run_folder.log import is_written
from neuro_cli.run_folder.state_file import STATE
from neuro_cli.run_folder.summary import git_revision
from neuro_cli.runner.stop_signals import StopRequest

PATIENCE = 90.0  # seconds to end after a request
POLL = 0.1
RESUMED = ("train", "search")  # verbs with interrupted runs that `neuro resume` continues
TRAINS = (*RESUMED, "resume")  # verbs with runs that may end before their goal


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run. ``command``: without its run folder; ``folder``: name of that; ``line``: why it failed."""

    command: str
    folder: str
    finished: bool
    line: str
    seconds: float
    date: str
    machine: str
    git_revision: str | None
    gpu: bool


class EntryRun:
    """Run of an entry in ``folder``. ``root``: folder of data sets; ``of``: the run that it works on."""

    def __init__(self, run: RunSetting, folder: Path, root: Path, of: "EntryRun | None" = None) -> None:
        self.run, self.folder, self.of = run, folder, of
        self.kept = folder / f"{run.name}.kept"
        self._path = folder / f"{run.name}.json"
        gpu = run.gpu if run.gpu and has_gpu() else ()
        places = {"root": str(root), "kept": str(self.kept)}
        self.overrides = tuple(_placed(text, places, run.verb in AS_TYPED) for text in (*run.overrides, *gpu))

    @property
    def command(self) -> str:
        """Command as a user would type it, without a run folder."""
        return shlex.join(["neuro", self.run.verb, *([self.run.of] if self.of else []), *self.overrides])

    def record(self) -> RunOutcome | None:
        """Read the outcome so far, None before the first one. Raises UserError if it is of another command."""
        try:
            record = RunOutcome(**json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{self._path}: not the record of a run: {error}") from error
        if record.command != self.command:
            raise UserError(f"folder={self.folder.parent}: {self._path.name} is of another command; choose a new folder")
        return record

    def play(self) -> RunOutcome:
        """Run it unless it has finished, or cannot because the run that it works on failed. Raises StoppedError."""
        record = self.record()
        if record is not None and record.finished:
            return record
        if self.of is not None and not self.of.finished:
            return self._outcome("", f"{self.of.run.name} did not finish", 0.0)
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(str(self.kept) in text for text in self.overrides):
            self.kept.mkdir(exist_ok=True)
        arguments, run = self._next(failed=record is not None)
        begun = time.monotonic()
        print(f"  {shlex.join(['neuro', *arguments])}", flush=True)
        code = run_command(arguments, self._terminal)
        record = self._ended(run, code, time.monotonic() - begun)
        write_atomically(self._path, (json.dumps(asdict(record), indent=1) + "\n").encode())
        return record

    def folders(self, record: RunOutcome) -> list[Path]:
        """Return the folders with the files of its rows and its pictures."""
        return [self.folder / record.folder, self.kept]

    @property
    def finished(self) -> bool:
        """True once the run of an entry has come to its end."""
        record = self.record()
        return record is not None and record.finished

    def _next(self, failed: bool) -> tuple[list[str], Path]:
        """Return arguments of ``neuro`` and the run folder: the last one where it can be resumed, else a new one."""
        other = self.of.record() if self.of else None
        if other is not None:
            return [self.run.verb, str(self.folder / other.folder), *self.overrides], self.folder / other.folder
        folders = [path for path in self.folder.glob(f"{self.run.name}*") if _number(path, self.run.name)]
        last = max(folders, key=lambda path: _number(path, self.run.name), default=None)
        if last is not None and not failed and self.run.verb in RESUMED:
            _wait_for(last)
            if (last / "checkpoints" / STATE).exists():
                return ["resume", str(last)], last
        number = 0 if last is None else _number(last, self.run.name)
        run = self.folder / (f"{self.run.name}_{number + 1}" if number else self.run.name)
        return [self.run.verb, *self.overrides, f"hydra.run.dir={quoted(str(run))}"], run

    @property
    def _terminal(self) -> Path:
        return self.folder / f"{self.run.name}.txt"

    def _ended(self, run: Path, code: int, seconds: float) -> RunOutcome:
        line = ""
        if code:
            line = f"exit code {code}: {last_words(self._terminal)}"
        elif self.run.verb in TRAINS:
            job = read_job(run, run.name)
            line = "" if job.state == "finished" else job.reason or job.state
        return self._outcome(run.name, line, seconds)

    def _outcome(self, folder: str, line: str, seconds: float) -> RunOutcome:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        gpu = has_gpu()
        return RunOutcome(self.command, folder, not line, line, round(seconds, 1), now, machine_words(gpu), git_revision(), gpu)


def machine_words(gpu: bool) -> str:
    """Describe the machine, the libraries and the load of the last minute; threads and ranks are in the command."""
    from neuro_cli.bench.table import machine
    from neuro_cli.core.kernels.gpu import card

    return f"{machine(None, card() if gpu else 'no GPU')}, load {os.getloadavg()[0]:.1f}"


def _placed(override: str, places: Mapping[str, str], as_typed: bool) -> str:
    """Replace ``$root`` and ``$kept`` in ``override``; ``as_typed``: without quotes, also in a file's name alone."""
    if as_typed:
        return Template(override).substitute(places)
    key, equals, value = override.partition("=")
    return f"{key}{equals}{quoted(Template(value).substitute(places))}" if "$" in value else override


def _number(path: Path, name: str) -> int:
    """Return the number of a run folder: 1 for NAME, n for NAME_n, 0 for others."""
    match = re.fullmatch(rf"{re.escape(name)}(?:_(\d+))?", path.name)
    return int(match[1] or 1) if match and path.is_dir() else 0


def _wait_for(run: Path) -> None:
    """Wait while a command whose parent was killed writes its last checkpoint. Raises UserError if it does not end."""
    deadline = time.monotonic() + PATIENCE
    while is_written(run):
        if time.monotonic() > deadline:
            raise UserError(f"{run}: another process works on this run")
        time.sleep(POLL)


def all_of(runs: Sequence[RunSetting], folder: Path, root: Path) -> Mapping[str, EntryRun]:
    """Return the runs of a reproduced entry by name."""
    cells: dict[str, EntryRun] = {}
    for run in runs:
        cells[run.name] = EntryRun(run, folder / "runs", root, cells.get(run.of))
    return cells


class StoppedError(Exception):
    """Request to stop a command; finished work is kept."""


def run_command(arguments: Sequence[str], terminal: Path) -> int:
    """Run ``neuro ARGUMENTS`` with its output added to ``terminal``. Returns the exit code.

    Raises StoppedError when this process is asked to stop meanwhile.
    """
    with StopRequest(None) as request, terminal.open("ab") as output:
        command = [sys.executable, "-P", "-m", "neuro_cli", *arguments]
        process = start(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while process.poll() is None and not request.wanted():
                time.sleep(POLL)
        finally:
            (code,) = stop(process, patience=PATIENCE)
        if request.wanted():
            raise StoppedError
        return code


def last_words(terminal: Path) -> str:
    """Return the last line that a command printed."""
    return last_line(terminal).removeprefix("neuro: error: ") or "no output"
