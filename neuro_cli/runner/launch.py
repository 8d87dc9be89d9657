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
from neuro_cli.fabric.emulation import PORT
from neuro_cli.fabric.emulation.hosts import address
from neuro_cli.fabric.emulation.kernel import die_with_parent
from neuro_cli.fabric.mpi import FIX
from neuro_cli.fabric.network import Network

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
        if self.kind == "openmpi":
            return [self.path, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *program]
        return [self.path, "-n", str(ranks), *program]

    def emulated(self, ranks: int, network: Network, program: Sequence[str]) -> list[str]:
        """The command line that runs ``program`` on hosts of their own behind the emulated ``network``."""
        enter = [sys.executable, "-m", f"{EMULATION}.enter"]
        if self.kind == "openmpi":  # its ranks talk to a daemon on their own host
            hosts = ",".join(f"{address(host)}:1" for host in range(ranks))
            agent = ["--prtemca", "plm_ssh_agent", " ".join(enter), "--prtemca", "plm_ssh_no_tree_spawn", "1"]
            names = ["--prtemca", "oob_tcp_if_include", PORT, "--prtemca", "prte_keep_fqdn_hostnames", "1"]
            start = [self.path, "--host", hosts, "-n", str(ranks), *agent, *names, *program]
        else:
            start = self.command(ranks, [*enter, *program])
        rate_and_delay = [repr(network.rate), repr(network.latency)]
        return [sys.executable, "-m", f"{EMULATION}.hosts", str(ranks), *rate_and_delay, *start]


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
    path = launcher()
    asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    return Launcher(path, "openmpi" if "Open MPI" in asked.stdout + asked.stderr else "mpich")


def launched_by_us() -> bool:
    """Whether ``ranks=N`` started this process."""
    return bool(os.environ.get(STARTED))


def launch(ranks: int, arguments: Sequence[str], network: Network) -> int:
    """Run ``neuro ARGUMENTS`` on ``ranks`` ranks on ``network``; SIGTERM and SIGINT are passed on. Returns the exit code.

    Raises UserError where there is no launcher, or the network cannot be emulated here.
    """
    if launched_by_us():
        raise UserError(f"ranks={ranks}: {launcher()} does not tell its processes their ranks; use an MPI that mpi4py supports")
    command, environment = world_command(ranks, [sys.executable, "-m", "neuro_cli", *arguments], network)
    return wait_for(command, environment)


def world_command(ranks: int, program: Sequence[str], network: Network) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that start ``program`` on ``ranks`` ranks on ``network``. Raises UserError."""
    network.check_rights()
    found = world_launcher()
    command = found.emulated(ranks, network, program) if network.emulate else found.command(ranks, program)
    return command, os.environ | network.variables() | {STARTED: "1"}


def wait_for(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run ``command`` to its end in a session of its own; SIGTERM and SIGINT are passed on. Returns the exit code."""
    # a session of its own: the terminal's Ctrl-C must reach the ranks once, through us
    process = subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=_end_with_us)

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        return process.wait()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _end_with_us() -> None:
    """The world gets SIGTERM when the process that waits for it is killed: no ranks that nobody waits for."""
    if sys.platform == "linux":
        die_with_parent(signal.SIGTERM)
