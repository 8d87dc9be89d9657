"""``ranks=N``: start an MPI world of N ranks, with the launcher that there is, and pass requests to stop on to it."""

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
from neuro_cli.fabric.emulation import PORT
from neuro_cli.fabric.emulation.hosts import address
from neuro_cli.fabric.emulation.kernel import die_with_parent
from neuro_cli.fabric.mpi import FIX
from neuro_cli.fabric.network import Network
from neuro_cli.runner import openmpi

# set for what we launch: a rank that does not know itself as one must not launch a world again
STARTED = "NEURO_WORLD_STARTED"
EMULATION = "neuro_cli.fabric.emulation"


@dataclass(frozen=True)
class Launcher:
    """A program that starts ranks. ``kind``: mpich (and its kin) | openmpi."""

    path: str
    kind: str

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """The command line that runs ``program`` on ``ranks`` ranks. More ranks than cores are allowed: the user asked."""
        options = openmpi.OPTIONS if self.kind == "openmpi" else ()
        return [self.path, *options, "-n", str(ranks), *program]

    def emulated(self, ranks: int, network: Network, program: Sequence[str]) -> list[str]:
        """The command line that runs ``program`` on hosts of their own behind the emulated ``network``."""
        enter = [sys.executable, "-m", f"{EMULATION}.enter"]
        if self.kind == "openmpi":  # its ranks talk to a daemon on their own host
            hosts = [address(host) for host in range(ranks)]
            start = [self.path, *openmpi.on_hosts(hosts, PORT, enter), "-n", str(ranks), *program]
        else:
            start = self.command(ranks, [*enter, *program])
        rate_and_delay = [repr(network.rate), repr(network.latency)]
        return [sys.executable, "-m", f"{EMULATION}.hosts", str(ranks), *rate_and_delay, *start]

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


@dataclass(frozen=True)
class Start:
    """What starts a world. ``stop_signal``: see :class:`Launcher`."""

    command: Sequence[str]
    environment: Mapping[str, str]
    stop_signal: int | None

    def run(self) -> int:
        """Run the world to its end and return the exit code.

        SIGTERM and SIGINT are passed on: the first as a request for a clean stop, a second one as it is.
        """
        # a session of its own: the terminal's Ctrl-C must reach the ranks once, through us
        process = subprocess.Popen(self.command, env=self.environment, start_new_session=True, preexec_fn=self._end_with_us)
        requests = iter([] if self.stop_signal is None else [self.stop_signal])

        def forward(number: int, frame: FrameType | None) -> None:
            process.send_signal(next(requests, number))

        before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
        try:
            return process.wait()
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def _end_with_us(self) -> None:
        """The world is asked to stop when the process that waits for it is killed: no ranks that nobody waits for."""
        if sys.platform == "linux":
            die_with_parent(self.stop_signal or signal.SIGTERM)


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


def launch(ranks: int, arguments: Sequence[str], network: Network) -> int:
    """Run ``neuro ARGUMENTS`` on ``ranks`` ranks on ``network`` and return the exit code.

    Raises UserError where there is no launcher, or the network cannot be emulated here.
    """
    if launched_by_us():
        raise UserError(f"ranks={ranks}: {launcher()} does not tell its processes their ranks; use an MPI that mpi4py supports")
    return world_start(ranks, [sys.executable, "-m", "neuro_cli", *arguments], network).run()


def world_start(ranks: int, program: Sequence[str], network: Network) -> Start:
    """What starts ``program`` on ``ranks`` ranks on ``network``. Raises UserError."""
    network.check_rights()
    found = world_launcher()
    command = found.emulated(ranks, network, program) if network.emulate else found.command(ranks, program)
    variables = found.environment(ranks) | network.variables() | {STARTED: "1"}
    return Start(command, os.environ | variables, found.stop_signal)
