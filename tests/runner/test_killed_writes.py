"""A small language model's run that is killed while it writes resumes to the same bits, and no other file is left."""

import json
import signal
import sys
from pathlib import Path

import pytest
from support.forked import run_forked
from support.inside import neuro_in_one_world, neuro_inside, well
from support.tables import rows_of
from support.worlds import clean_environment, needs_mpi

pytestmark = [needs_mpi, pytest.mark.xdist_group("ranks")]

SETTING = (
    "task=reward", "task.count=40", "task.test_size=4", "model.width=8", "model.depth=1", "model.heads=2", "population=4",
    "batch_size=4", "generations=3", "threads=1", "checkpoint.every=1", "checkpoint.keep=1", "evaluate.every=1",
)  # fmt: skip
COLUMNS = ("generation", "fitness_mean", "test_accuracy", "test_reward")
# a command that kills itself before the last of its calls of os.CALL on a file NAME, by path or by descriptor, or amid save_file
COMMAND = """
import os, signal, sys
from pathlib import Path

import neuro_cli.run_folder.model_file as model_file
from neuro_cli.cli.main import main

call, name, count, *arguments = sys.argv[1:]
left = int(count)

def named(value):
    return os.path.basename(os.readlink(f"/proc/self/fd/{value}") if isinstance(value, int) else os.fspath(value))

def dying(*given, real=getattr(os, call, None), **options):
    global left
    left -= named(given[-1]) == name
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **options)

def torn(tensors, path, metadata=None):  # safetensors writes to a file of a random name, and then renames it
    Path(path).with_name(".tmpaBcDeF").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

if call == "save_file":
    model_file.save_file = torn
else:
    setattr(os, call, dying)
sys.argv = ["neuro", *arguments]
main()
"""


def outcome(run: Path) -> tuple[str, list[tuple[str, ...]], list[str]]:
    """The hash of the final parameters, all metrics but the timings, and the names of all files."""
    rows = [tuple(row[name] for name in COLUMNS) for row in rows_of(run / "metrics.csv")]
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.name not in ("resumed.yaml", "hydra"))
    return json.loads((run / "summary.json").read_text())["parameters_sha256"], rows, names


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("killed")
    well(neuro_inside("train", *SETTING, "hydra.run.dir=whole", cwd=made))
    return made


@pytest.mark.parametrize(
    ("call", "name", "count"),
    [
        ("fsync", "00000002.safetensors.tmp", 1),
        ("replace", "state.json", 3),
        ("unlink", "00000001.safetensors", 1),
        ("unlink", "00000002.safetensors", 1),  # nothing is saved after it
        ("save_file", "-", 0),
        ("replace", "summary.json", 1),
    ],
)
def test_a_run_that_is_killed_at_a_write_resumes_on_other_ranks(folder, call, name, count):
    run = f"{call}-{name}"
    words = [call, name, str(count), "train", *SETTING, f"hydra.run.dir={run}"]
    killed = run_forked([sys.executable, "-c", COMMAND, *words], 300, cwd=folder, env=clean_environment())
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (folder / run / "summary.json").exists()
    (resumed,) = neuro_in_one_world(("resume", run), cwd=folder, ranks=2)
    well(resumed)
    assert outcome(folder / run) == outcome(folder / "whole")
