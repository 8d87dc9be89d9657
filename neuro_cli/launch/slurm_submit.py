"""Jobs of a sweep on SLURM, as the command that submitted them sees them: waits for them, cancels or leaves them.

submitit stops waiting at the first job that failed. The others continue, so they are waited for or cancelled here.
"""

import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.install import install
from neuro_cli.fabric.start import launched
from neuro_cli.run_folder.sweep_record import read_record

log = logging.getLogger(__name__)

LAUNCHER = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
FOLDER = ".submitit"  # folder of job scripts and logs in a sweep's folder
GONE_SECONDS = 120.0  # seconds that cancelled jobs may take to end; SLURM kills after KillWait, 30 s by default


def check(multirun: bool) -> None:
    """Refuse ``hydra/launcher=slurm`` where it cannot work. Raises ConfigError."""
    key, value = "hydra/launcher", "slurm"
    if not multirun:
        raise ConfigError(key, value, "it starts the jobs of a sweep, so it needs -m (one job: neuro train -m seed=1)")
    if find_spec("submitit") is None or find_spec("hydra_plugins.hydra_submitit_launcher") is None:
        raise ConfigError(key, value, f"submitit is not installed: {install('slurm')}")
    if launched():
        raise ConfigError(key, value, "start the sweep without an MPI launcher; ranks=N gives each job its ranks")
    missing = [program for program in ("sbatch", "srun", "squeue", "scancel", "sacct") if shutil.which(program) is None]
    if missing:
        raise ConfigError(key, value, f"there is no {' and no '.join(missing)} on PATH: is this a machine of the cluster?")
    answer = subprocess.run(["sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", "1"], capture_output=True, text=True)
    if answer.returncode:
        reason = " ".join(answer.stderr.split())[:200]
        raise ConfigError(
            key,
            value,
            f"a killed job would never be noticed, since sacct does not answer ({reason}); scripts/sacct_stand_in.py helps",
        )


class DetachedError(Exception):
    """End of a command whose jobs are submitted and continue by themselves."""


def submit(launcher: Any, jobs: Sequence[Sequence[str]], first: int, state: Any) -> None:
    """Submit ``jobs``, numbered from ``first``, with Hydra's ``state``, and do not wait for them as the plugin does."""
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf  # type: ignore[import-untyped]
    from submitit import AutoExecutor

    common = {field.name for field in fields(BaseQueueConf)}  # the keys that submitit has for every kind of queue
    keys = dict(launcher.params)
    folder, restarts = keys.pop("submitit_folder"), keys.pop("max_num_timeout")
    executor = AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=restarts)
    executor.update_parameters(**{name if name in common else f"slurm_{name}": value for name, value in keys.items()})
    work = [(list(texts), "hydra.sweep.dir", number, f"job_id_for_{number}", state) for number, texts in enumerate(jobs, first)]
    executor.map_array(launcher, *zip(*work, strict=True))


def refusal(error: BaseException) -> UserError | None:
    """Return the message of sbatch if it refused the jobs, None for another ``error``."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    if not isinstance(error, FailedJobError | FailedSubmissionError):
        return None
    lines = [line.strip() for line in str(error).splitlines() if "error" in line]
    return UserError(f"hydra/launcher=slurm: {lines[0]}") if lines else None


def put_aside(sweep: Path) -> None:
    """Rename the folder of logs of an earlier command, so that its jobs are not taken for new ones."""
    folder = sweep / FOLDER
    if folder.is_dir():
        free = (sweep / f"{FOLDER}.{number}" for number in count(1))
        folder.rename(next(path for path in free if not path.exists()))


def left_on_slurm(sweep: Path) -> dict[int, str]:
    """Return the state in SLURM of each unfinished job of a detached sweep by its number, nothing for another folder."""
    record = read_record(sweep)
    if record is None or not record.comment or not record.submitted or find_spec("submitit") is None:
        return {}
    jobs = SubmittedJobs(sweep, record.comment, record.submitted)
    return jobs.states() if jobs.waited_for() else {}


class SubmittedJobs:
    """Jobs of the sweep in ``folder``, identified by the comment that ``conf/hydra/launcher/slurm.yaml`` gives them.

    ``numbers``: those of the jobs in the sweep, in the order of submission.
    """

    def __init__(self, folder: Path, comment: str, numbers: Sequence[int] = ()) -> None:
        self.folder, self.comment, self.numbers = folder, comment, list(numbers)

    def names(self) -> list[str]:
        """Return the names that submitit gives the jobs, ``12_0`` in an array, in the order of the sweep."""
        names = [path.name for path in (self.folder / FOLDER).glob("*") if re.fullmatch(r"\d+(_\d+)?", path.name)]
        arrays = {name.split("_")[0] for name in names if "_" in name}  # an array has a folder of its own too
        return sorted(set(names) - arrays, key=lambda name: [int(part) for part in name.split("_")])

    def wait(self) -> None:
        """Wait for all jobs of the sweep on SLURM."""
        from submitit import SlurmJob

        for name in self.waited_for():
            SlurmJob(folder=self.folder / FOLDER / "%j", job_id=name).wait()

    def states(self) -> dict[int, str]:
        """Return the state in SLURM of each job that left no result, by its number in the sweep."""
        from submitit import SlurmJob

        states = {}
        for number, name in zip(self.numbers, self.names(), strict=False):
            job: SlurmJob[object] = SlurmJob(folder=self.folder / FOLDER / "%j", job_id=name)
            if not job.paths.result_pickle.exists():
                states[number] = job.get_info().get("State") or "UNKNOWN"
        return states

    def refuse_alive(self) -> None:
        """Raise UserError while jobs of an earlier command wait or run: they would be trained twice."""
        if alive := self._alive():
            raise UserError(
                f"{self.folder}: {len(alive)} of its jobs wait or run on SLURM; neuro report shows them, scancel ends them"
            )

    def cancel(self) -> None:
        """Cancel waiting and running jobs, and wait until they have ended."""
        deadline = time.monotonic() + GONE_SECONDS
        while alive := self._alive():
            subprocess.run(["scancel", *alive], capture_output=True, text=True)
            if time.monotonic() > deadline:
                log.warning("jobs %s do not end; see: squeue", " ".join(sorted(alive)))
                return
            time.sleep(1.0)

    def tidy(self) -> None:
        """Remove submitit's pickles, which are not read again; its logs stay."""
        for path in (self.folder / FOLDER).rglob("*.pkl"):
            path.unlink(missing_ok=True)

    def waited_for(self) -> list[str]:
        """Return the names of jobs with submitit's files, which the command that waits for them removes at their end."""
        return [name for name in self.names() if any((self.folder / FOLDER / name).glob("*_submitted.pkl"))]

    def _alive(self) -> set[str]:
        asked = subprocess.run(
            ["squeue", "--noheader", f"--user={os.getuid()}", "--states=all", "--format=%A %T %k"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        jobs = [line.split(" ", 2) for line in asked.stdout.splitlines()]
        ending = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "STOPPED")
        return {job[0] for job in jobs if len(job) == 3 and job[1] in ending and job[2].strip() == self.comment}
