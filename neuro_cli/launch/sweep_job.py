"""Task kind `hydra_job`: one job of a sweep, run as a command of its own in the folder that the sweep gives it.

A job's overrides come over a network. A worker runs such jobs where its owner named the kind (worker.kinds); their classes must
belong to neuro, torch or the packages of worker.trust, their folders must lie below worker.folders.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from neuro_cli.broker.worker.kinds import OWNER_VARIABLE, RESULT_VARIABLE
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.current_folder import JOB_VARIABLE
from neuro_cli.launch.lock import LOCK
from neuro_cli.launch.quoting import quoted
from neuro_cli.run_folder.log import is_written

VERBS = ("train", "bench", "scale")
GONE_SECONDS = 10.0
TEXT = 2000  # characters of a failed job's last output
ERROR = "neuro: error: "
MOST_OVERRIDES = 10_000


def run_job(payload: dict[str, Any]) -> dict[str, Any]:
    """Run ``neuro VERB OVERRIDES``. ``payload``: ``verb``, ``overrides``, ``folder`` of the run, ``cwd``, ``number`` of the job.

    A job is resumed where its folder has a checkpoint, because its first worker was lost.
    Raises UserError with the line by which the command failed, or for what this worker's owner does not allow.
    """
    trust, folders = _owner()
    verb, overrides, number = payload.get("verb"), payload.get("overrides"), payload.get("number")
    if verb not in VERBS:
        raise UserError(f"verb={verb}: a job of a sweep is one of {', '.join(VERBS)}")
    if not isinstance(number, int) or not isinstance(overrides, list) or len(overrides) > MOST_OVERRIDES:
        raise UserError("a job of a sweep has a number and a list of overrides")
    folder, cwd = (_allowed(name, payload.get(name), folders) for name in ("folder", "cwd"))
    if not cwd.is_dir():
        raise UserError(f"{cwd}: there is no such folder on this worker's machine; the machines of a sweep share their files")
    for override in overrides:
        _check_override(override, cwd, folders)
    begin = [verb, *overrides, f"hydra.run.dir={quoted(str(folder))}", f"hydra.job.num={number}"]
    command = [sys.executable, "-P", "-m", "neuro_cli", *_left(folder, begin, trust)]
    done = subprocess.run(command, cwd=cwd, env=_environment(trust), capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        said = next((line.removeprefix(ERROR) for line in reversed(lines) if line.startswith(ERROR)), " ".join(lines))
        raise UserError(said[-TEXT:])
    return {"folder": str(folder)}


def _owner() -> tuple[list[str], list[str]]:
    """Packages and folders that the worker's owner allows; none by default."""
    given = json.loads(os.environ.get(OWNER_VARIABLE, "{}"))
    return given.get("trust", []), given.get("folders", [])


def _check_override(override: Any, cwd: Path, folders: list[str]) -> None:
    """Refuse overrides that would name code before the config can be checked; `job_trust` checks the rest in the job."""
    if not isinstance(override, str) or "\0" in override or override.lstrip().startswith("-"):
        raise UserError(f"{str(override)[:80]}: not an override of a job")
    key, _, value = override.partition("=")
    if "hydra" in key:
        raise UserError(f"{override[:80]}: a job sets no key of hydra; its sweep does")
    if re.search(r"\$\{\s*oc\.env", value):
        raise UserError(f"{override[:80]}: a job does not read the worker's environment")
    for name in value.split(","):
        if name.endswith(".yaml"):
            _check_file(str(cwd / name), folders)


def _check_file(name: str, folders: list[str]) -> None:
    """Check an option's file: it lies where a job may work, and chooses no other options, not even of hydra."""
    path = _allowed("file", name, folders)
    try:
        node = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{name}: it cannot be read ({' '.join(str(error).split())[:160]})") from error
    if not isinstance(node, dict) or "defaults" in node:
        raise UserError(f"{name}: an option of a job is a file of keys, without a defaults list")


def _allowed(name: str, value: Any, folders: list[str]) -> Path:
    """Resolve a folder of the payload. Raises UserError where the worker's owner does not allow it."""
    if not isinstance(value, str) or "\0" in value or not Path(value).is_absolute():
        raise UserError(f"{name}={value}: must be an absolute path")
    path = Path(value).resolve()
    if not any(path.is_relative_to(folder) for folder in folders):
        raise UserError(
            f"{name}={value}: it is not below {', '.join(folders) or 'a folder'} that the worker allows (worker.folders)"
        )
    return path


def _environment(trust: list[str]) -> dict[str, str]:
    """Environment of the job, which imports what its worker can, and from its own folder only if the owner trusts packages."""
    # an empty entry means the folder in which Python starts, which is the job's
    ours = [str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    home = str(Path(__file__).parents[2])  # of the package itself, which a worker finds where it was started
    if home not in (*ours, *sys.path[1:]):
        ours.append(home)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", OWNER_VARIABLE, RESULT_VARIABLE)}
    return kept | {
        JOB_VARIABLE: json.dumps({"trust": trust}),
        "PYTHONSAFEPATH": "1",
        **({"PYTHONPATH": os.pathsep.join(ours)} if ours else {}),
    }


def _left(folder: Path, begin: list[str], trust: list[str]) -> list[str]:
    """Arguments of the command, given the files that an earlier attempt left in the folder."""
    if not folder.exists():
        return begin
    deadline = time.monotonic() + GONE_SECONDS
    while is_written(folder) and time.monotonic() < deadline:  # the job of a worker that was killed ends with it
        time.sleep(0.2)
    if is_written(folder):
        raise UserError(f"{folder}: an earlier attempt of this job still runs")
    if any((folder / "checkpoints").glob("*")):
        return ["resume", str(folder), *([f"trust=[{','.join(trust)}]"] if trust else [])]
    # what a message names is removed only where it was a run, or nothing
    if not (folder / ".hydra").is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise UserError(f"{folder}: already there, and not a neuro run")
    shutil.rmtree(folder)
    return begin
