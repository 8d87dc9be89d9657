"""What a command imports before it has something to do: the heavy packages wait until they are needed."""

import subprocess
import sys

import pytest
from support.worlds import clean_environment

HEAVY = (
    "torch",
    "numba",
    "torchvision",
    "grpc",
    "gymnasium",
    "matplotlib",
    "scipy",
    "sklearn",
    "wandb",
    "bokeh",
    "mpi4py.MPI",
)
PROGRAM = """
import sys
sys.argv = ["neuro", *sys.argv[2:]]
from neuro_cli.cli.main import main
try:
    main()
finally:
    print("imported:", *[name for name in {among!r} if name in sys.modules])
"""


def imported(*arguments: str, cwd, among: tuple[str, ...] = HEAVY) -> str:
    """The packages ``among`` those given that a command imports, as one line."""
    program = PROGRAM.format(among=among)
    done = subprocess.run(
        [sys.executable, "-c", program, "-", *arguments],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].strip()


@pytest.mark.parametrize("arguments", [("--help",), ("report", "--help")], ids=" ".join)
def test_a_command_that_trains_nothing_imports_nothing_heavy(arguments, tmp_path):
    assert imported(*arguments, cwd=tmp_path) == "imported:"


def test_a_command_that_composes_imports_hydra_alone(tmp_path):
    assert imported("train", "--cfg", "job", cwd=tmp_path, among=("hydra", *HEAVY)) == "imported: hydra"


# what a run needs at its end, on a terminal, for other files or on a graphics card; none of it before there is a generation
LATER = ("rich", "PIL", "matplotlib", "sklearn", "scipy", "torchvision", "numba", "triton", "torch._inductor", "torch._dynamo")
# what another option would use; a whole training on the bundled digits does without
OTHERS = (
    "wandb",
    "torchvision",
    "mpi4py",
    "tensorboard",
    "lightning",
    "optuna",
    "submitit",
    "grpc",
    "gymnasium",
    "pandas",
    "bokeh",
)
FIRST_GENERATION = """
import sys
sys.argv = ["neuro", "train", "hydra.run.dir=run", "population=4", "batch_size=8", "generations=1", "threads=1"]
from neuro_cli.cli.main import main
from neuro_cli.runner import options
import neuro_cli.distribution.base as base

usual = base.Distribution.step

def step(self, generation):
    print("imported:", *[name for name in {among!r} if name in sys.modules], flush=True)
    return usual(self, generation)

base.Distribution.step = step
try:
    main()
finally:
    print("in all:", *[name for name in {others!r} if name in sys.modules])
"""


def test_the_first_generation_begins_without_what_only_later_ones_need(tmp_path):
    """``torch`` among the names shows that what is imported would be seen."""
    program = FIRST_GENERATION.format(among=("torch", *LATER), others=("numpy", *OTHERS))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=240
    )
    lines = done.stdout.splitlines()
    assert "imported: torch" in lines, done.stdout + done.stderr
    assert lines[-1] == "in all: numpy", done.stdout + done.stderr
