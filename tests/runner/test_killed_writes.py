"""A small language model's run that is killed while it writes resumes to the same bits, and no other file is left."""

import json
from pathlib import Path

import pytest
from support.inside import neuro_in_one_world, neuro_inside, well
from support.killed import killed
from support.tables import rows_of
from support.worlds import needs_mpi

pytestmark = [needs_mpi, pytest.mark.xdist_group("ranks")]

SETTING = (
    "task=reward", "task.count=40", "task.test_size=4", "model.width=8", "model.depth=1", "model.heads=2", "population=4",
    "batch_size=4", "generations=3", "threads=1", "checkpoint.every=1", "checkpoint.keep=1", "evaluate.every=1",
)  # fmt: skip
COLUMNS = ("generation", "fitness_mean", "test_accuracy", "test_reward")


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
    killed(folder, call, name, count, "train", *SETTING, f"hydra.run.dir={run}")
    assert not (folder / run / "summary.json").exists()
    (resumed,) = neuro_in_one_world(("resume", run), cwd=folder, ranks=2)
    well(resumed)
    assert outcome(folder / run) == outcome(folder / "whole")
