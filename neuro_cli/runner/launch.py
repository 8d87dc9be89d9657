"""``ranks=N``: start an MPI world of N ranks, with the launcher that there is, and pass signals on to it.

In a SLURM job the launcher is srun, which knows the job's nodes and ends with it; elsewhere mpiexec.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import FIX
from neuro_cli.runner import slurm
from neuro_cli.runner.stop import hear, heard

# set for what we launch: a rank that does not know itself as one must not launch a world again
STARTED = "NEURO_WORLD_STARTED"


@dataclass(frozen=True)
class Launcher:
    """A program that starts ranks. ``kind``: mpich (and its kin) | openmpi | srun; ``mpi``: srun's ``--mpi``."""

    path: str
    kind: str
    mpi: str = ""

    def passed_on(self, number: int) -> int:
        """The signal that asks the world for what ``number`` asks this process: srun kills its ranks on SIGTERM and SIGINT."""
        if self.kind == "srun":
            return signal.SIGUSR2
        return signal.SIGTERM if number == signal.SIGUSR2 else number

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """The command line that runs ``program`` on ``ranks`` ranks. More ranks than cores are allowed: the user asked."""
        if self.kind == "srun":
            # unbound: a rank takes the job's cores on its node over the ranks there
            options = ["--overlap", "--overcommit", "--cpu-bind=none", "--kill-on-bad-exit=1", "--quiet"]
            cpus = os.environ.get("SLURM_CPUS_PER_TASK")
            options += [f"--cpus-per-task={cpus}"] if cpus else []
            return [self.path, f"--mpi={self.mpi}", *options, "-n", str(ranks), *program]
        if self.kind == "openmpi":
            return [self.path, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *program]
        return [self.path, "-n", str(ranks), *program]


def launcher() -> str:
    """Path of mpiexec: beside this Python, else on PATH. Raises UserError when there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise UserError(f"ranks: there is no mpiexec beside {sys.executable} or on PATH: {FIX}")
    return found


def world_launcher() -> Launcher:
    """The launcher for this machine and job. Raises UserError when there is none."""
    mpiexec = mpiexec_launcher()
    if not slurm.in_job():
        return mpiexec
    found = slurm.srun_kind("pmix" if mpiexec.kind == "openmpi" else "pmi2")
    return mpiexec if found is None else Launcher(found[0], "srun", found[1])


@cache
def mpiexec_launcher() -> Launcher:
    """mpiexec and its kind. Raises UserError when there is none."""
    path = launcher()
    asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    return Launcher(path, "openmpi" if "Open MPI" in asked.stdout + asked.stderr else "mpich")


def launched_by_us() -> bool:
    """Whether ``ranks=N`` started this process."""
    return bool(os.environ.get(STARTED))


def launch(ranks: int, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run ``neuro ARGUMENTS`` on ``ranks`` ranks and return the exit code; SIGTERM and SIGINT are passed on.

    ``environment``: more variables for the ranks.
    """
    if launched_by_us():
        raise UserError(f"ranks={ranks}: {launcher()} does not tell its processes their ranks; use an MPI that mpi4py supports")
    chosen = world_launcher()
    command = chosen.command(ranks, [sys.executable, "-m", "neuro_cli", *arguments])
    base = slurm.job_environment(os.environ) if slurm.in_job() else dict(os.environ)
    if chosen.kind == "srun" and slurm.restarts():
        slurm.clear_segments(chosen.path)
    return wait_for(command, base | dict(environment or {}) | {STARTED: "1"}, chosen.passed_on)


def wait_for(command: Sequence[str], environment: Mapping[str, str], passed_on: Callable[[int], int]) -> int:
    """Run ``command`` to its end in a session of its own and return the exit code.

    SIGTERM, SIGINT and SIGUSR2 are noted and passed on as ``passed_on`` says.
    """
    # a session of its own: the terminal's Ctrl-C must reach the ranks once, through us
    process = subprocess.Popen(command, env=environment, start_new_session=True)

    def forward(number: int, frame: FrameType | None) -> None:
        hear(number)
        process.send_signal(passed_on(number))

    before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)}
    try:
        if heard():  # before there was somebody to pass it on to
            process.send_signal(passed_on(signal.SIGTERM))
        return process.wait()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
