"""``ranks=N``: start an MPI world of N ranks, with the launcher that there is, and pass signals on to it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import FIX
from neuro_cli.runner import openmpi

# set for what we launch: a rank that does not know itself as one must not launch a world again
STARTED = "NEURO_WORLD_STARTED"


@dataclass(frozen=True)
class Launcher:
    """A program that starts ranks. ``kind``: mpich (and its kin) | openmpi."""

    path: str
    kind: str

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """The command line that runs ``program`` on ``ranks`` ranks. More ranks than cores are allowed: the user asked."""
        options = openmpi.OPTIONS if self.kind == "openmpi" else ()
        return [self.path, *options, "-n", str(ranks), *program]

    def environment(self, ranks: int) -> dict[str, str]:
        """Variables for a world of ``ranks`` ranks. Raises UserError when the launcher would refuse to run."""
        if self.kind != "openmpi":
            return {}
        openmpi.check_root(ranks)
        return openmpi.variables(ranks)

    @property
    def stop_signal(self) -> int | None:
        """What to send for a clean stop in place of SIGTERM and SIGINT; None where the launcher passes these on itself."""
        return openmpi.STOP_SIGNAL if self.kind == "openmpi" else None


def launcher() -> str:
    """Path of mpiexec: beside this Python, else on PATH. Raises UserError when there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise UserError(f"ranks: there is no mpiexec beside {sys.executable} or on PATH: {FIX}")
    return found


@cache
def world_launcher() -> Launcher:
    """The launcher for this machine. Raises UserError when there is none."""
    return launcher_at(launcher())


def launcher_at(path: str) -> Launcher:
    """The launcher ``path``, asked for its kind."""
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
    starts = world_launcher()
    command = starts.command(ranks, [sys.executable, "-m", "neuro_cli", *arguments])
    variables = starts.environment(ranks) | dict(environment or {}) | {STARTED: "1"}
    return wait_for(command, dict(os.environ) | variables, starts.stop_signal)


def wait_for(command: Sequence[str], environment: Mapping[str, str], stop_signal: int | None = None) -> int:
    """Run ``command`` to its end in a session of its own; SIGTERM and SIGINT are passed on. Returns the exit code.

    ``stop_signal``: sent instead for the first of them; a second one is passed on as it is.
    """
    # a session of its own: the terminal's Ctrl-C must reach the ranks once, through us
    process = subprocess.Popen(command, env=environment, start_new_session=True)

    requests = iter([] if stop_signal is None else [stop_signal])

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(next(requests, number))

    before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        return process.wait()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
