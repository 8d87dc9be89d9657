"""What a command imports before it has something to do: the heavy packages wait until they are needed."""

import subprocess
import sys

from support.worlds import clean_environment

HEAVY = ["torch", "numba", "torchvision", "grpc", "gymnasium", "matplotlib", "scipy", "sklearn", "wandb", "mpi4py.MPI"]
# what a run needs at its end, on a terminal, for other files or on a graphics card; none of it before there is a generation
LATER = ["rich", "PIL", "matplotlib", "sklearn", "scipy", "torchvision", "numba", "triton", "torch._inductor", "torch._dynamo"]
# packages of other options; a training on the bundled digits does without
OTHERS = ["wandb", "torchvision", "mpi4py", "tensorboard", "lightning", "optuna", "submitit", "grpc", "gymnasium", "pandas"]
COMMANDS = f"""
import sys
from neuro_cli.cli.main import main

for words in ("--help", "report --help", "train --cfg job", "train population=abc", "evaluate nowhere", "predict nowhere x.png"):
    sys.argv = ["neuro", *words.split()]
    try:
        main()
    except SystemExit as ended:
        print("imported:", ended.code, *[name for name in ("hydra", *{HEAVY}) if name in sys.modules])
"""
FIRST_GENERATION = f"""
import sys
sys.argv = ["neuro", "train", "hydra.run.dir=run", "population=4", "batch_size=8", "generations=1", "threads=1"]
from neuro_cli.cli.main import main
from neuro_cli.runner import options
import neuro_cli.distribution.base as base

usual = base.Distribution.step

def step(self, generation):
    print("imported:", *[name for name in ("torch", *{LATER}) if name in sys.modules], flush=True)
    return usual(self, generation)

base.Distribution.step = step
try:
    main()
finally:
    print("imported:", *[name for name in ("numpy", *{OTHERS}) if name in sys.modules])
"""


def imported(program: str, cwd) -> list[str]:
    """Return what a program says that it has imported."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=240)
    return [line.removeprefix("imported: ") for line in done.stdout.splitlines() if line.startswith("imported: ")]


def test_a_command_that_trains_nothing_imports_nothing_heavy(tmp_path):
    assert imported(COMMANDS, tmp_path) == ["0", "0 hydra", "0 hydra", *["2 hydra"] * 3]


def test_the_first_generation_begins_without_what_only_later_ones_need(tmp_path):
    """``torch`` and ``numpy`` show that what is imported would be seen."""
    assert imported(FIRST_GENERATION, tmp_path) == ["torch", "numpy"]
