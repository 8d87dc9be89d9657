"""Launches the MPI world of ``ranks=N`` with this machine's launcher, and forwards requests to stop to it.

In a SLURM job the launcher is srun, which knows the job's nodes and ends with it; elsewhere mpiexec.
"""

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

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.process import start
from neuro_cli.fabric.emulation import PORT
from neuro_cli.fabric.emulation.hosts import MOST, address
from neuro_cli.fabric.mpi import FIX
from neuro_cli.fabric.network import MPI, TORCHRUN, Network
from neuro_cli.launch import dev_shm, openmpi, slurm_job
from neuro_cli.launch.lock import STARTED, launched_by_us
from neuro_cli.launch.torch_agent import ForkedAgent, may_fork
from neuro_cli.runner.stop_signals import hear, heard

EMULATION = "neuro_cli.fabric.emulation"
AGENT = "neuro_cli.launch.torch_agent"


@dataclass(frozen=True)
class Launcher:
    """Program that starts ranks. ``kind``: mpich (and its kin) | openmpi | srun | torchrun; ``mpi``: srun's ``--mpi``."""

    path: str
    kind: str
    mpi: str = ""

    def passed_on(self, number: int) -> int:
        """Return the signal to send to the launcher for signal ``number``: most launchers kill ranks on the usual ones."""
        if self.kind in ("mpich", TORCHRUN):
            return signal.SIGTERM if number == signal.SIGUSR2 else number
        return signal.SIGUSR2 if self.kind == "srun" else openmpi.STOP_SIGNAL

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """Return the command line that runs ``program`` on ``ranks`` ranks, which may be more than the cores."""
        if self.kind == "srun":
            return [self.path, f"--mpi={self.mpi}", *slurm_job.step_options(), "-n", str(ranks), *program]
        if self.kind == TORCHRUN:
            return [self.path, "-P", "-m", AGENT, str(ranks), *program]
        options = openmpi.OPTIONS if self.kind == "openmpi" else ()
        return [self.path, *options, "-n", str(ranks), *program]

    def emulated(self, ranks: int, network: Network, program: Sequence[str]) -> list[str]:
        """Return the command line that runs ``program`` with each rank on a host of its own in the emulated ``network``."""
        enter = [sys.executable, "-P", "-m", f"{EMULATION}.enter_host"]
        if self.kind == "openmpi":  # ranks talk to a daemon on their own host
            hosts = [address(host) for host in range(ranks)]
            start = [self.path, *openmpi.on_hosts(hosts, PORT, enter), "-n", str(ranks), *program]
        else:
            start = self.command(ranks, [*enter, *program])
        rate_and_delay = [repr(network.rate), repr(network.latency)]
        return [sys.executable, "-P", "-m", f"{EMULATION}.hosts", str(ranks), *rate_and_delay, *start]

    def environment(self, ranks: int) -> dict[str, str]:
        """Return the environment of a world of ``ranks`` ranks. Raises UserError if the launcher would refuse to run."""
        if self.kind == "openmpi":
            openmpi.check_root(ranks)
        mine = openmpi.variables(ranks) if self.kind == "openmpi" else {}
        if self.kind == TORCHRUN:
            mine = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}  # torchrun's own choice, without its lines
        inherited = slurm_job.job_environment(os.environ) if slurm_job.in_job() else dict(os.environ)
        return inherited | mine | {STARTED: "1"}


@dataclass(frozen=True)
class Start:
    """Start of a world by a launcher: command and environment. ``agent``: words for torch's agent, which we can fork too."""

    launcher: Launcher
    command: Sequence[str]
    environment: Mapping[str, str]
    agent: Sequence[str] = ()

    def run(self) -> int:
        """Run the world that the launcher starts to its end and return the exit code."""
        on_slurm = self.launcher.kind == "srun"
        if on_slurm and slurm_job.restarts():
            slurm_job.clear_segments(self.launcher.path)
        code = self._run()
        if on_slurm and code and not heard():
            slurm_job.clear_segments(self.launcher.path)  # killed ranks leave some
        return code

    def _run(self) -> int:
        """Start the world, forward signals, wait.

        SIGTERM, SIGINT and SIGUSR2 are noted and forwarded as the request for a clean stop that the launcher knows; a
        second SIGTERM or SIGINT is forwarded unchanged.
        """
        # a kill of this process asks the world to stop: no ranks continue for a command that is gone
        # launchers read their input for rank 0, which wants none: it may be the list of a shell's loop
        process = self._process(self.launcher.passed_on(signal.SIGTERM))

        def forward(number: int, frame: FrameType | None) -> None:
            again = heard() and number != signal.SIGUSR2
            hear(number)
            process.send_signal(number if again else self.launcher.passed_on(number))

        before = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)}
        try:
            if heard():  # a signal came before the world was started
                process.send_signal(self.launcher.passed_on(signal.SIGTERM))
            return process.wait()
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def _process(self, number: int) -> "subprocess.Popen[bytes] | ForkedAgent":
        """Start the launcher, which gets signal ``number`` when this process ends."""
        if self.agent and may_fork():
            return ForkedAgent(self.agent, self.environment, number)
        return start(self.command, number, env=self.environment, stdin=subprocess.DEVNULL)


def launcher() -> str:
    """Return the path of mpiexec: next to this Python, else on PATH. Raises UserError without one."""
    sibling = Path(sys.executable).parent / "mpiexec"
    path = str(sibling) if sibling.exists() else shutil.which("mpiexec")
    if path is None:
        raise UserError(f"ranks: no mpiexec next to {sys.executable} or on PATH: {FIX}")
    return path


def world_launcher() -> Launcher:
    """Return the launcher for this machine and job. Raises UserError without one."""
    mpiexec = mpiexec_launcher()
    if not slurm_job.in_job():
        return mpiexec
    srun = slurm_job.srun_kind("pmix" if mpiexec.kind == "openmpi" else "pmi2")
    return mpiexec if srun is None else Launcher(srun[0], "srun", srun[1])


def torch_launcher() -> Launcher:
    """Return the launcher of torch.distributed's ranks on this machine. Raises UserError in a SLURM job."""
    if slurm_job.in_job():
        raise ConfigError(
            "fabric.launcher", TORCHRUN, "starts ranks on one machine; in a SLURM job use srun, or fabric.launcher=mpi"
        )
    return Launcher(sys.executable, TORCHRUN)


@cache
def mpiexec_launcher() -> Launcher:
    """Return the launcher mpiexec with its kind. Raises UserError without one."""
    return launcher_at(launcher())


def launcher_at(path: str) -> Launcher:
    """Return the launcher at the mpiexec ``path``, which is asked for its kind."""
    asked = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return Launcher(path, "openmpi" if "Open MPI" in asked.stdout + asked.stderr else "mpich")


def launch(ranks: int, arguments: Sequence[str], network: Network) -> int:
    """Run ``neuro ARGUMENTS`` on ``ranks`` ranks on ``network`` and return the exit code.

    Raises UserError without a launcher, and where the network cannot be emulated.
    """
    if launched_by_us():
        raise UserError(f"ranks={ranks}: {launcher()} does not tell its processes their ranks; use an MPI that mpi4py supports")
    return world_start(ranks, [sys.executable, "-P", "-m", "neuro_cli", *arguments], network).run()


def world_start(ranks: int, program: Sequence[str], network: Network) -> Start:
    """Return command and environment that start ``program`` on ``ranks`` ranks on ``network``. Raises UserError."""
    network.check_rights()
    if network.emulate and ranks > MOST:
        raise ConfigError("ranks", ranks, f"at most {MOST} hosts can be emulated")
    # emulated hosts are on this machine, also in a SLURM job
    starts = mpiexec_launcher() if network.emulate else world_launcher() if network.launcher == MPI else torch_launcher()
    command = starts.emulated(ranks, network, program) if network.emulate else starts.command(ranks, program)
    small = dev_shm.variables(starts.kind, ranks)
    agent = [str(ranks), *program] if starts.kind == TORCHRUN else []
    return Start(starts, command, small | starts.environment(ranks) | network.variables(), agent)
