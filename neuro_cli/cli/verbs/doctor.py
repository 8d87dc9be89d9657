"""``neuro doctor``: checks this machine's setup, and names the command that fixes what is missing."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.text import Text

from neuro_cli.cli.arguments import Parser
from neuro_cli.cli.registry import HELP
from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.install import install
from neuro_cli.fabric.mpi import library_name
from neuro_cli.fabric.network import TORCHRUN
from neuro_cli.launch import slurm_job
from neuro_cli.launch.launcher import Launcher, launcher, launcher_at
from neuro_cli.launch.openmpi import ROOT_FIX, refuses_root

PYTHONS = ((3, 11), (3, 13))
TIMEOUT = 180  # seconds, for a machine with much else to do
# packages that tasks of reinforcement learning need in addition to gymnasium
ENVIRONMENTS = {
    "gymnasium": "lunar_lander and others",
    "Box2D": "lunar_lander, bipedal_walker",
    "mujoco": "hopper, half_cheetah, ant",
}
# packages that not every run needs: what for, and neuro's extra that installs them
EXTRAS = {
    "wandb": ("logger=wandb", ""),
    "tensorboard": ("logger=tensorboard", "tensorboard"),
    "mlflow": ("logger=mlflow", "mlflow"),
    "comet_ml": ("logger=comet", "comet"),
    "pandas": ("tables and Result.frame()", "frame"),
    "torchmetrics": ("task.metrics._target_=torchmetrics...", "metrics"),
    "onnxscript": ("neuro export file=NAME.onnx", "onnx"),
    "transformers": ("model=huggingface", "llm"),
    "msgpack": ("neuro evolve", "evolve"),
    "grpc": ("neuro search and task clusters", "search"),
    "optuna": ("hydra/sweeper=optuna", "sweep"),
    "submitit": ("hydra/launcher=slurm", "slurm"),
    "ray": ("hydra/launcher=ray and pool=ray", "ray"),
    **{name: (f"task={tasks}", "rl") for name, tasks in ENVIRONMENTS.items()},
    "pettingzoo": ("task=pettingzoo", "pettingzoo"),
    "envpool": ("task.simulator=envpool", "envpool"),
    "stable_baselines3": ("DDPG of neuro bench reinforcement", "baselines"),
}
MPI_FIX = install("mpi")
# loads the library and starts no world of one process, from which Open MPI leaves files
LIBRARY = """
import os
os.environ["MPI4PY_RC_INITIALIZE"] = "0"
from mpi4py import MPI
print(MPI.Get_library_version())
"""
# rank 0 prints the size of the world; under the launcher of another MPI each process is rank 0 of its own world
MEETING = """
from mpi4py import MPI
import sys
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    sys.stdout.write(f"{MPI.COMM_WORLD.size}\\n")
"""
TORCH_MEETING = """
from neuro_cli.fabric.start import launched_world
world = launched_world()
world.any(False)
if world.rank == 0:
    print(world.size)
"""


@dataclass(frozen=True)
class Finding:
    """Finding of the doctor, one line of the report. ``needed``: ``neuro train`` fails unless it is ``good``."""

    name: str
    good: bool
    text: str
    fix: str = ""
    needed: bool = True


def doctor() -> int:
    """Print the doctor's report. Returns 0 when ``neuro train`` has all that it needs, else 1."""
    console = Console()
    broken = 0
    for check in (python, packages, devices, numba_kernels, folder, mpi, torch_ranks, cluster, extras, data_sets):
        for finding in _findings(check):
            mark, colour = ("ok", "green") if finding.good else ("FAIL", "red") if finding.needed else ("--", "yellow")
            line = Text.assemble((f"{mark:<5}", colour), f"{finding.name:<14} ", finding.text)
            console.print(line, soft_wrap=True)
            if finding.fix:
                console.print(Text(f"{'':<20}fix: {finding.fix}"), soft_wrap=True)  # one line, to be copied
            broken += finding.needed and not finding.good
    verdict = (
        f"neuro train cannot run here: {broken} x FAIL above"
        if broken
        else "neuro train can run here (--: optional and not available)"
    )
    console.print(Text(verdict), soft_wrap=True)
    return 1 if broken else 0


def _findings(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:  # a doctor reports whatever is broken
        yield Finding(check.__name__, False, _one_line(error), f"{install()} --force-reinstall")


def python() -> Iterator[Finding]:
    low, high = (".".join(map(str, bound)) for bound in PYTHONS)
    good = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    fix = "" if good else f"python{high} -m venv .venv && . .venv/bin/activate && {install()}"
    yield Finding("python", good, f"{platform.python_version()} ({sys.executable}); {low} to {high} work", fix)


def packages() -> Iterator[Finding]:
    for name in ("torch", "torchvision"):
        try:
            __import__(name)
            yield Finding(name, True, version(name))
        except (ImportError, OSError, RuntimeError, PackageNotFoundError) as error:
            yield Finding(name, False, _one_line(error), f"pip install --force-reinstall {name}")


def devices() -> Iterator[Finding]:
    import torch

    from neuro_cli.core.machine.processor import cores

    threads = torch.get_num_threads()
    limit = f", OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}" if "OMP_NUM_THREADS" in os.environ else ""
    yield Finding("cpu", True, cores())
    yield Finding("threads", True, f"{threads}, torch's default{limit}; threads=N sets neuro's own number")
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        card = torch.cuda.get_device_properties(index)
        memory = f"{card.total_memory / 2**30:.0f} GiB"
        yield Finding(f"cuda:{index}", True, f"{card.name}, {memory}, compute capability {card.major}.{card.minor}")
    if not torch.cuda.is_available():
        yield Finding("cuda", False, "no CUDA device that torch can use: runs are on the CPU", needed=False)


def numba_kernels() -> Iterator[Finding]:
    fix = "pip install --force-reinstall numba"
    try:
        import torch

        from neuro_cli.core import noise as addressed
        from neuro_cli.core.machine.threads import Threads

        addressed.tier.few = 0  # the compiled loops from the first number on
        noise = addressed.Noise(1, 8, torch.device("cpu"), Threads(1)).draw(0, [0])
        good = bool(noise.isfinite().all()) and bool(noise.std() > 0)
        text = f"{version('numba')}, the noise kernels compile" if good else f"the noise kernels give {noise.tolist()}"
    except Exception as error:  # the compiler, its cache folder and its C libraries each raise their own kind
        good, text = False, f"the noise kernels do not compile: {_one_line(error)}"
        if "locator" in text:  # numba's message without a writable cache folder
            fix = "export NUMBA_CACHE_DIR=$(mktemp -d)"
    yield Finding("numba", good, text, "" if good else fix)


def folder() -> Iterator[Finding]:
    outputs = Path("outputs").absolute()
    nearest = next(path for path in (outputs, *outputs.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
        yield Finding("outputs", True, f"runs are written to {outputs}")
    except OSError as error:
        fix = "cd to a folder that you may write to, or neuro train hydra.run.dir=FOLDER"
        yield Finding("outputs", False, f"cannot write to {nearest}: {error.strerror}", fix)


def mpi() -> Iterator[Finding]:
    answer, problem = _ask([sys.executable, "-P", "-c", LIBRARY])
    if problem:
        yield Finding("mpi", False, f"no MPI library that works ({problem}): one process only", MPI_FIX, needed=False)
        return
    yield Finding("mpi", True, library_name(answer))
    try:
        mpiexec = launcher()
    except UserError:
        yield Finding("mpi launcher", False, "no mpiexec next to this Python or on PATH", MPI_FIX, needed=False)
        return
    starts = launcher_at(mpiexec)
    if starts.kind == "openmpi" and refuses_root():
        yield Finding("mpi launcher", False, f"{mpiexec}: Open MPI's, refuses to run as root", ROOT_FIX, needed=False)
        return
    yield _meeting("mpi launcher", mpiexec, starts, MEETING, MPI_FIX)


def torch_ranks() -> Iterator[Finding]:
    starts = Launcher(sys.executable, TORCHRUN)
    yield _meeting("torchrun", "gloo on this machine, for torchrun and fabric=gloo", starts, TORCH_MEETING)


def _meeting(name: str, what: str, starts: Launcher, program: str, fix: str = "") -> Finding:
    """Let two ranks of ``program`` meet, which print the size of their world."""
    answer, problem = _ask(starts.command(2, [sys.executable, "-P", "-c", program]))
    if not problem and answer.strip() != "2":
        alone = set(answer.split()) <= {"1", "11"}
        problem = "it belongs to another MPI: each rank is alone" if alone else f"2 ranks said {answer.split()}"
    return Finding(name, not problem, f"{what}: {problem or '2 ranks met'}", fix if problem else "", needed=False)


def _ask(command: list[str], keep: tuple[str, ...] = ()) -> tuple[str, str]:
    """Run a command in a process of its own, since a bad MPI ends the process that starts it. Returns (output, problem)."""
    # the process is no rank of a world that a launcher may have started this one in
    launched = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "MPI_LOCAL", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "TORCHELASTIC_")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(launched) or "ALLOW_RUN" in name or name in keep
    }
    try:
        # a launcher among them would read the input of a shell's loop
        ended = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer in {TIMEOUT} s"
    except OSError as error:
        return "", _one_line(error)
    if ended.returncode == 0 and ended.stdout.strip():
        return ended.stdout, ""
    lines = [line.strip() for line in (ended.stderr or ended.stdout).splitlines() if line.strip(" =-")]
    errors = [line for line in lines if "rror" in line]
    return "", (errors[-1:] or lines[-1:] or [f"exit code {ended.returncode}"])[0][:200]


def cluster() -> Iterator[Finding]:
    missing = [name for name in ("sbatch", "srun", "sacct") if shutil.which(name) is None]
    if missing:
        yield Finding("slurm", False, f"no {', '.join(missing)} on PATH: no hydra/launcher=slurm", needed=False)
        return
    state, problem = _ask(["sinfo", "--noheader", "--format=%P %a"], keep=("SLURM_CONF",))
    if problem:
        reason = problem.rpartition(": ")[2]  # SLURM's words without the names of its functions
        yield Finding("slurm", False, f"sinfo reaches no cluster from here ({reason}): no hydra/launcher=slurm", needed=False)
        return
    if importlib.util.find_spec("submitit") is None:
        yield Finding("slurm", False, "submitit is not installed", install("slurm"), needed=False)
        return
    names = ", ".join(line.split()[0] for line in state.splitlines())
    mpi = slurm_job.srun_kind("pmi2")
    ranks = f"srun --mpi={mpi[1]}" if mpi else "mpiexec"
    yield Finding("slurm", True, f"partitions {names}; ranks by {ranks} with MPICH", needed=False)


def extras() -> Iterator[Finding]:
    for name, (use, extra) in EXTRAS.items():
        good, fix = importlib.util.find_spec(name) is not None, install(extra) if extra else f"pip install {name}"
        text = f"installed, for {use}" if good else f"not installed: no {use}"
        yield Finding(name, good, text, "" if good else fix, needed=False)


def data_sets() -> Iterator[Finding]:
    digits = importlib.util.find_spec("sklearn") is not None
    fix = "" if digits else "pip install scikit-learn"
    yield Finding("digits", digits, "bundled with scikit-learn" if digits else "scikit-learn is not installed", fix)
    from neuro_cli.task.cifar10 import CIFAR10
    from neuro_cli.task.fashion_mnist import FashionMNIST
    from neuro_cli.task.mnist import MNIST

    common = ("data", False)
    rest = ("negative_cross_entropy", 500)
    fashion = FashionMNIST(*common, "/usr/share/datasets/fashion-mnist", *rest)
    for task in (MNIST(*common, *rest), fashion, CIFAR10(*common, *rest)):
        place = task.root / task.folder if task.found() else None
        if place is None and task is fashion and all(file.is_file() for file in fashion.packed):
            place = fashion.packed[0].parent
        text = f"in {place}" if place else f"not in {task.root / task.folder}; task.root=FOLDER reads it elsewhere"
        fix = "" if place else f"neuro train task={task.name} task.download=true"
        yield Finding(task.name, place is not None, text, fix, needed=False)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def doctor_verb(arguments: list[str]) -> int:
    Parser("neuro doctor", description=HELP["doctor"]).parse_args(arguments)
    return doctor()
