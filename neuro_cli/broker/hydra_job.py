"""The task kind `hydra_job`: one job of a sweep, as a command of its own in the folder that the sweep gives it.

What a job may name, its overrides may name: a worker that serves strangers leaves this kind out (worker.kinds).
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from neuro_cli.broker.kinds import JOB_VARIABLE
from neuro_cli.core.errors import UserError
from neuro_cli.core.quote import quoted
from neuro_cli.runner.lock import LOCK
from neuro_cli.runner.logs import is_written

VERBS = ("train", "bench", "scale")
GONE_SECONDS = 10.0
TEXT = 2000  # characters of what a failed job said last
ERROR = "neuro: error: "


def run_job(payload: dict[str, Any]) -> dict[str, Any]:
    """Run ``neuro VERB OVERRIDES``. ``payload``: ``verb``, ``overrides``, ``folder`` of the run, ``cwd``, ``number`` of the job.

    A job whose folder has a checkpoint, because its first worker was lost, is resumed.
    Raises UserError with the line by which the command failed.
    """
    verb, folder, cwd = payload["verb"], Path(payload["folder"]), Path(payload["cwd"])
    if verb not in VERBS:
        raise UserError(f"verb={verb}: a job of a sweep is one of {', '.join(VERBS)}")
    if not cwd.is_dir():
        raise UserError(f"{cwd}: there is no such folder on this worker's machine; the machines of a sweep share their files")
    begin = [verb, *payload["overrides"], f"hydra.run.dir={quoted(str(folder))}", f"hydra.job.num={payload['number']}"]
    command = [sys.executable, "-P", "-m", "neuro_cli", *_left(folder, begin)]
    done = subprocess.run(command, cwd=cwd, env=os.environ | {JOB_VARIABLE: "1"}, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        said = next((line.removeprefix(ERROR) for line in reversed(lines) if line.startswith(ERROR)), " ".join(lines))
        raise UserError(said[-TEXT:])
    return {"folder": str(folder)}


def _left(folder: Path, begin: list[str]) -> list[str]:
    """The command's arguments, in view of what an earlier attempt left in the folder."""
    if not folder.exists():
        return begin
    deadline = time.monotonic() + GONE_SECONDS
    while is_written(folder) and time.monotonic() < deadline:  # the job of a worker that was killed ends with it
        time.sleep(0.2)
    if is_written(folder):
        raise UserError(f"{folder}: an earlier attempt of this job still runs")
    if any((folder / "checkpoints").glob("*")):
        return ["resume", str(folder)]
    # what a message names is removed only where it was a run, or nothing
    if not (folder / ".hydra").is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise UserError(f"{folder}: it is there already, and no run of neuro")
    shutil.rmtree(folder)
    return begin
