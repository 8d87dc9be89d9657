"""Worlds of torch.distributed, gloo on loopback: their bits are those of one process and of MPI; a lost rank ends them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import neuro_inside, well
from support.torch_ranks import by_variables, rank_of, run_torchrun, torchrun
from support.worlds import _run, clean_environment, needs_mpi, neuro, wait_for_rows

pytestmark = pytest.mark.waits

HERE = Path(__file__).parent
TRAIN = (
    "population=10",
    "batch_size=16",
    "threads=1",
    "model=MNIST_10K",
    "generations=30",
    "checkpoint.every=3",
    "evaluate.every=100",
)
CHROMOSOMES = (*TRAIN, "distribution=chromosome_updates")


def parameters(run: Path) -> str:
    return str(json.loads((run / "summary.json").read_text())["parameters_sha256"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("alone")
    well(neuro_inside("train", *CHROMOSOMES, "hydra.run.dir=run", cwd=folder))
    return parameters(folder / "run")


# two programs, then neuro, by the same ranks: their start is what costs
ALL = """
import runpy
import sys

runpy.run_path(sys.argv.pop(1), run_name="__main__")
runpy.run_path(sys.argv.pop(1), run_name="__main__")
runpy.run_module("neuro_cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_ranks_of_torchrun_exchange_messages_and_train_the_parameters_of_one_process(alone, ranks, tmp_path):
    (tmp_path / "all.py").write_text(ALL)
    programs = (str(HERE / "collectives_program.py"), str(HERE / "device_program.py"))
    program = ("all.py", *programs, "train", *CHROMOSOMES, "hydra.run.dir=run")
    done = well(run_torchrun(ranks, *program, cwd=tmp_path, NEURO_SHARE_CORES="0"))
    assert done.stdout.count("all well") == ranks
    assert parameters(tmp_path / "run") == alone
    assert f"{ranks} ranks of 1 thread" in done.stdout


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize(
    "method",
    [
        *("distribution=replicated", "distribution=semi_updates", "distribution=data_parallel"),
        *("distribution=chromosome_updates distribution.overlap=true", "distribution=chromosome_updates distribution.wire=int8"),
    ],
)
def test_every_method_has_the_bits_of_mpi(method, tmp_path):
    """On two ranks also where sums are MPI's own: a sum of two has one order."""
    words = (*TRAIN, "generations=4", *method.split())
    assert neuro("train", *words, "hydra.run.dir=mpi", cwd=tmp_path, ranks=2).returncode == 0
    well(run_torchrun(2, "-m", "neuro_cli", "train", *words, "hydra.run.dir=torch", cwd=tmp_path))
    assert parameters(tmp_path / "torch") == parameters(tmp_path / "mpi")


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        *("distribution=chromosome_updates", "distribution=semi_updates"),
        "distribution=chromosome_updates distribution.wire=bfloat16 distribution.overlap=true",
        *(f"distribution={name} distribution.wire=int8 model=MNIST_30K" for name in ("chromosome_updates", "semi_updates")),
    ],
)
def test_sums_that_stay_on_their_device_have_the_bits_of_the_host(method, tmp_path):
    """By the code of GPUs, with gloo in place of NCCL."""
    (tmp_path / "all.py").write_text(ALL.replace('runpy.run_path(sys.argv.pop(1), run_name="__main__")\n', "", 1))
    words = ("train", *TRAIN, "generations=4", *method.split())
    well(run_torchrun(3, "-m", "neuro_cli", *words, "hydra.run.dir=host", cwd=tmp_path))
    program = ("all.py", str(HERE / "device_program.py"), *words, "hydra.run.dir=device")
    done = well(run_torchrun(3, *program, cwd=tmp_path, TRAIN_ON_DEVICE="1"))
    assert done.stdout.count("long sums True, long copies 0") == 3
    assert parameters(tmp_path / "device") == parameters(tmp_path / "host")


@pytest.mark.slow
def test_a_rank_that_is_killed_is_started_again_by_torchrun_and_resumes(alone, tmp_path):
    command = torchrun(2, "-m", "neuro_cli", "train", *CHROMOSOMES, "hydra.run.dir=run", options=("--max-restarts=1",))
    process = subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for_rows(tmp_path / "run", 5, process)
    pid = rank_of(process.pid, 1)
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert said.count("neuro: error: ") == 1
    assert "RankLostError: rank 1 of 2 ended before the others" in said
    assert "torchrun started the ranks again (1): it resumes from generation" in (tmp_path / "run" / "log.txt").read_text()
    assert parameters(tmp_path / "run") == alone
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 31


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_rank_is_one_line_and_the_run_resumes_elsewhere(alone, lost, tmp_path):
    ranks = by_variables(3, "-m", "neuro_cli", "train", *CHROMOSOMES, "hydra.run.dir=run", cwd=tmp_path)
    wait_for_rows(tmp_path / "run", 7, ranks[0])
    ranks[lost].kill()
    said = [process.communicate(timeout=240) for process in ranks]
    assert [process.returncode for process in ranks] == [-signal.SIGKILL if rank == lost else 1 for rank in range(3)]
    lines = [line for _, text in said for line in text.splitlines() if line.startswith("neuro: error: ")]
    assert len(lines) == 1
    assert f"rank {lost} of 3 ended before the others" in lines[0]
    well(neuro_inside("resume", "run", cwd=tmp_path))  # alone, where three ranks began
    assert parameters(tmp_path / "run") == alone


@pytest.mark.slow
@pytest.mark.parametrize("own_group", [False, True])
def test_a_script_around_evolution_has_the_bits_of_one_process(own_group, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    one = _run([sys.executable, "script.py", ""], tmp_path, 240, {})
    done = well(run_torchrun(2, "script.py", "own" if own_group else "", cwd=tmp_path))
    assert one.stdout.split()[0] == "1"
    assert done.stdout.split() == ["2", one.stdout.split()[1]] * 2
    assert done.stderr.count(f"groups at the end: {own_group}") == 2  # torch may end a rank by SIGABRT for one of ours


SCRIPT = """
import atexit
import hashlib
import sys
import torch
import torch.distributed
import neuro_cli as neuro

atexit.register(lambda: sys.stderr.write(f"groups at the end: {torch.distributed.is_initialized()}\\n"))

if sys.argv[1]:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(3)
module = torch.nn.Linear(8, 3)
inputs = torch.randn(16, 8)
evolution = neuro.Evolution(module, population=12, sigma=0.1, threads=1)
for _ in range(3):
    evolution.step(lambda member: -float(member(inputs).square().mean()))
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()
sys.stdout.write(f"{evolution.world.size} {digest}\\n")
"""


@pytest.mark.slow
def test_scripts_that_save_their_states_resume_when_torchrun_starts_them_again(tmp_path):
    """A rank kills itself at the fifth step of its first start."""
    (tmp_path / "script.py").write_text(RESTARTED)
    one = _run([sys.executable, "script.py", "alone"], tmp_path, 240, {})
    done = well(_run(torchrun(2, "script.py", "ranks", options=("--max-restarts=1",)), tmp_path, 300, {}))
    assert one.stdout.split()[:2] == ["0", "0"]
    assert done.stdout.split() == ["1", "4", one.stdout.split()[2]]


RESTARTED = """
import hashlib
import os
import signal
import sys
import torch
import torch.nn.functional as F
from torch import nn
import neuro_cli as neuro

path = sys.argv[1] + ".pt"
starts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
torch.manual_seed(3)
inputs, targets = torch.randn(20, 8), torch.randint(3, (20,))
model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
estimate = neuro.ForwardGradient(model, correction="always", threads=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
other = nn.Linear(8, 3)
evolution = neuro.Evolution(other, population=8, threads=1)
parts = {"model": model, "estimate": estimate, "optimizer": optimizer, "evolution": evolution}
first = 0
if os.path.exists(path):
    states = torch.load(path, weights_only=True)
    first = states.pop("step")
    for name, state in states.items():
        parts[name].load_state_dict(state)
for step in range(first, 8):
    if step == 4 and estimate.rank == 1 and starts == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    estimate.backward(lambda out, classes: F.cross_entropy(out, classes, reduction="none"), inputs, targets)
    optimizer.step()
    evolution.step(lambda member: -F.cross_entropy(member(inputs), targets))
    if estimate.rank == 0:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, path + ".new")
        os.replace(path + ".new", path)
if estimate.rank == 0:
    numbers = [*model.parameters(), *other.parameters()]
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in numbers)).hexdigest()
    sys.stdout.write(f"{starts} {first} {digest}\\n")
"""
