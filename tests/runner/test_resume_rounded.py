"""Runs whose sums are rounded on the wire: what was kept back is in the checkpoint, on any number of ranks."""

import json
import shutil
from pathlib import Path

import pytest
from worlds import needs_mpi, neuro

from neuro_cli.runner.checkpoint import Checkpoint, CheckpointStore

pytestmark = needs_mpi

GENERATIONS = 8
CHROMOSOME = ("distribution=chromosome_updates", "distribution.wire=int8", "distribution.overlap=true")
SEMI = ("distribution=semi_updates", "distribution.wire=int8")
SETTING = ("algo=snes", "sampler=iid", "population=10", "batch_size=16", "threads=1", f"generations={GENERATIONS}")


def train(folder: Path, name: str, ranks: int, *options: str) -> Path:
    """A run with a checkpoint in every generation."""
    done = neuro(
        "train", *SETTING, "checkpoint.every=1", "checkpoint.keep=20", f"hydra.run.dir={name}", *options, cwd=folder, ranks=ranks
    )
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """``chromosome`` on 2 ranks and ``semi`` on 3, to their end."""
    folder = tmp_path_factory.mktemp("rounded")
    train(folder, "chromosome", 2, *CHROMOSOME)
    train(folder, "semi", 3, *SEMI)
    return folder


@pytest.fixture
def folder(runs, tmp_path) -> Path:
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def sha(run: Path) -> str:
    return str(json.loads((run / "summary.json").read_text())["parameters_sha256"])


@pytest.mark.parametrize(("name", "ranks"), [("chromosome", 1), ("chromosome", 3), ("semi", 3)])
def test_it_resumes_to_the_same_bits(folder, name, ranks):
    whole = sha(folder / name)
    (folder / name / "summary.json").unlink()
    done = neuro("resume", name, "checkpoint=3", cwd=folder, ranks=ranks)
    assert (done.returncode, done.stderr) == (0, "")
    assert sha(folder / name) == whole


def test_what_was_kept_back_matters(folder):
    """Resumed without it the run would end elsewhere."""
    whole = sha(folder / "chromosome")
    store = CheckpointStore(folder / "chromosome", 20)
    at = store.load(3)
    kept = {name: tensor for name, tensor in at.tensors.items() if name.startswith("distribution.")}
    assert kept.keys() == {"distribution.unsent"}
    without = {name: tensor for name, tensor in at.tensors.items() if name not in kept}
    store.save(3, without, at.scalars)
    assert neuro("resume", "chromosome", "checkpoint=3", cwd=folder, ranks=2).returncode == 0
    assert sha(folder / "chromosome") != whole


@pytest.mark.parametrize("change", [(), CHROMOSOME[:2]], ids=["fewer ranks", "another method"])
def test_semi_updates_on_other_ranks_go_on_and_say_so(folder, change):
    done = neuro("resume", "semi", "checkpoint=3", *change, cwd=folder, ranks=2)
    line = "what the rounding of 3 ranks kept back goes on as one sum: the run's numbers depend on this change"
    assert done.returncode == 0, done.stderr
    assert line in done.stderr
    assert line in (folder / "semi" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("change", "now"),
    [
        (("distribution=local",), "float32"),
        (("distribution=chromosome_updates",), "float32"),
        (("distribution=chromosome_updates", "distribution.wire=bfloat16"), "bfloat16"),
        (("distribution.wire=bfloat16",), "bfloat16"),
    ],
)
def test_another_wire_is_another_run(folder, change, now):
    done = neuro("resume", "chromosome", "checkpoint=3", *change, cwd=folder)
    assert done.returncode == 2
    line = f"distribution.wire={now}: the run's checkpoint has distribution.wire=int8; resume keeps it"
    assert done.stderr.startswith(f"neuro: error: {line}")
    assert done.stderr.count("\n") == 1


def test_overlap_may_be_changed(folder):
    whole = sha(folder / "chromosome")
    done = neuro("resume", "chromosome", "checkpoint=3", "distribution.overlap=false", cwd=folder, ranks=2)
    assert done.returncode == 0, done.stderr
    assert sha(folder / "chromosome") == whole


def test_a_checkpoint_of_an_earlier_version_is_read(folder):
    """It says nothing of a distribution."""
    run = train(folder, "old", 2, "distribution=chromosome_updates")
    whole, store = sha(run), CheckpointStore(run, 20)
    at: Checkpoint = store.load(3)
    assert at.scalars.pop("distribution") == {}
    store.save(3, at.tensors, at.scalars)
    assert neuro("resume", "old", "checkpoint=3", cwd=folder, ranks=2).returncode == 0
    assert sha(run) == whole
