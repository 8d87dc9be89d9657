"""Runs whose sums are rounded on the wire: what was kept back is in the checkpoint, on any number of ranks."""

import shutil
from pathlib import Path

import pytest
from support.inside import Done, neuro_in_one_world, neuro_inside
from support.tables import sha_of
from support.worlds import needs_mpi

from neuro_cli.run_folder.checkpoint import CheckpointStore

pytestmark = [needs_mpi, pytest.mark.xdist_group("ranks")]

GENERATIONS = 6
CHROMOSOME = ("distribution=chromosome_updates", "distribution.wire=int8", "distribution.overlap=true")
RUNS = {  # trained on 3 ranks
    "chromosome": CHROMOSOME,
    "semi": ("distribution=semi_updates", "distribution.wire=int8"),
}
SETTING = ("algo=snes", "sampler=iid", "population=10", "batch_size=16", "threads=1", f"generations={GENERATIONS}")
# name: (the run that is copied, the ranks that resume the copy, what they change)
RESUMED = {
    "on fewer": ("chromosome", 2, ("distribution.overlap=false",)),
    "semi on fewer": ("semi", 2, ()),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The runs to their end, with a checkpoint in every generation."""
    folder = tmp_path_factory.mktemp("rounded")
    every = ("checkpoint.every=1", "checkpoint.keep=20")
    lines = [("train", *SETTING, *every, f"hydra.run.dir={name}", *options) for name, options in RUNS.items()]
    for done in neuro_in_one_world(*lines, cwd=folder, ranks=3):
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def resumed(runs, tmp_path_factory) -> tuple[Path, dict[str, Done]]:
    """Copies of the runs, resumed from generation 3 as ``RESUMED`` says."""
    folder = tmp_path_factory.mktemp("resumed")
    for name, (source, _, _) in RESUMED.items():
        shutil.copytree(runs / source, folder / name)
        (folder / name / "summary.json").unlink()
    lines = [("resume", name, "checkpoint=3", *change) for name, (_, _, change) in RESUMED.items()]
    left = neuro_in_one_world(*lines, cwd=folder, ranks=[on for _, on, _ in RESUMED.values()])
    return folder, dict(zip(RESUMED, left, strict=True))


def test_it_resumes_to_the_same_bits(runs, resumed):
    """What rounding kept back is in the checkpoint; that it matters is shown by tests/distribution/test_error_feedback.py."""
    folder, left = resumed
    assert CheckpointStore(runs / "chromosome", 20).load(3).tensors["distribution.unsent"].any()
    assert (left["on fewer"].returncode, left["on fewer"].stderr) == (0, "")
    assert sha_of(folder / "on fewer") == sha_of(runs / "chromosome")


def test_semi_updates_on_other_ranks_go_on_and_say_so(resumed):
    folder, left = resumed
    line = "the rounding errors of 3 ranks continue as one sum: the run's numbers depend on this change"
    assert left["semi on fewer"].returncode == 0, left["semi on fewer"].stderr
    assert line in left["semi on fewer"].stderr
    assert line in (folder / "semi on fewer" / "log.txt").read_text()


@pytest.mark.parametrize(("change", "now"), [(("distribution=local",), "float32"), (("distribution.wire=bfloat16",), "bfloat16")])
def test_another_wire_is_another_run(runs, tmp_path, change, now):
    shutil.copytree(runs / "chromosome", tmp_path / "run")
    done = neuro_inside("resume", "run", "checkpoint=3", *change, cwd=tmp_path)
    assert done.returncode == 2
    line = f"distribution.wire={now}: the run's checkpoint has distribution.wire=int8; resume keeps it"
    assert done.stderr.startswith(f"neuro: error: {line}")
    assert done.stderr.count("\n") == 1
