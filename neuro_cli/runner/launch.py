"""``ranks=N``: start the MPI world of N ranks for a run folder that already holds its config."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import FIX

# set for what we launch: a rank that does not know itself as one must not launch a world again
STARTED = "NEURO_WORLD_STARTED"


def launcher() -> str:
    """Path of mpiexec: beside this Python, else on PATH. Raises UserError when there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise UserError(f"ranks: there is no mpiexec beside {sys.executable} or on PATH: {FIX}")
    return found


def launched_by_us() -> bool:
    """Whether ``ranks=N`` started this process."""
    return bool(os.environ.get(STARTED))


def launch(ranks: int, arguments: list[str]) -> int:
    """Run ``neuro ARGUMENTS`` on ``ranks`` ranks and return the exit code; SIGTERM and SIGINT are passed on."""
    if launched_by_us():
        raise UserError(f"ranks={ranks}: {launcher()} does not tell its processes their ranks; use an MPI that mpi4py supports")
    command = [launcher(), "-n", str(ranks), sys.executable, "-m", "neuro_cli", *arguments]
    # a session of its own: the terminal's Ctrl-C must reach the ranks once, through us
    process = subprocess.Popen(command, env=os.environ | {STARTED: "1"}, start_new_session=True)

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        return process.wait()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
