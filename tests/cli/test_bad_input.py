"""Bad input ends with one clear line and exit code 2, and nothing is lost."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.configs import composed
from support.inside import Done, neuro_in_one_world, neuro_inside, one_line, well
from support.worlds import mostly_own, needs_mpi, neuro

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

pytestmark = pytest.mark.xdist_group("ranks")

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=6", "checkpoint.every=2")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A working directory with the user's own networks in it."""
    place = tmp_path_factory.mktemp("cli")
    shutil.copy(HERE / "my_nets.py", place)
    return place


def refused(done, *words: str) -> str:
    """The one line of a refused command."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("neuro: error:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]
    return lines[0]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["population=0"], r"population=0: must be an integer from 1"),
        (["algo.sigma=-0.1"], r"algo.sigma=-0.1: must be a number > 0"),
        (["algo=genetic", "algo.parents=300"], r"algo.parents=300: must be below population=8"),
        (["algo.shaping=centered"], r"algo.shaping=centered: did you mean centred or centred_rank"),
        (["algo.optimizer.lr=-1"], r"algo.optimizer.lr=-1: must be a number >= 0"),
        (["batch_size=5000"], r"batch_size=5000: task=digits has 1437 training examples"),
        (["precision=float16"], r"precision=float16: must be one of float32, bfloat16"),
        (["layout=per_member"], r"layout=per_member: must be one of shared_batch, per_example"),
        (["layout=per_example", "batch_size=10"], r"batch_size=10: layout=per_example needs a multiple of the 4 directions"),
        (["device=cuda:99"], r"device=cuda:99: must be auto, cpu or cuda\[:N\]; \d+ CUDA devices here"),
        (["task=mnist", "task.root=nowhere"], r"task.root=nowhere: .*task.download=true"),
        (["task=image_folder", "task.root=nowhere"], r"task.root=nowhere"),
        (["model=CIF_300K", "task=mnist"], r"task.root=data"),
        (["model._target_=my_nets.FiveClasses"], r"model: its output for 2 images is 2x5, task=digits needs 2x10"),
        (["model._target_=torch.nn.ReLU"], r"model: it has no trainable parameter"),
        (["model._target_=collections.Counter"], r"model._target_=collections.Counter: must make a torch.nn.*Module"),
        (
            ["distribution=chromosome_updates", "distribution.wire=int8", "algo=genetic", "algo.parents=2"],
            r"distribution.wire=int8: algo=genetic takes its members as they were scored; use float32",
        ),
        (["algo=sgd", "distribution=replicated"], r"distribution=replicated: algo=sgd has no population; allowed: local"),
    ],
)
def test_config_errors_are_one_line_that_names_the_key(overrides, line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(UserError) as caught:
        build(Options(composed(*SMALL, *overrides)), SingleProcess())
    assert re.match(line, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


FRAGILE = (
    "train", *SMALL, "model._target_=my_nets.Fragile", "algo.optimizer.lr=0.05", "generations=50", "checkpoint.every=1000"
)  # fmt: skip
ON_RANKS = ("distribution=semi_updates", "distribution.ranks_shaping=local")


@pytest.fixture(scope="module")
def on_two_ranks(folder) -> list[Done]:
    """Refused by one world: more ranks than members, a network that comes to give NaN, no method for ranks, a study of worlds."""
    many = ("train", "sampler=iid", "population=1", "distribution=replicated", "batch_size=16", "threads=1")
    nan = (*FRAGILE, *ON_RANKS, "hydra.run.dir=nan-own-2")
    return neuro_in_one_world(many, nan, ("train", *SMALL, "distribution=local"), ("scale", *SMALL[:3]), cwd=folder, ranks=2)


@needs_mpi
def test_errors_of_two_ranks_are_printed_once(on_two_ranks):
    refused(on_two_ranks[0], "ranks=2: must be <= population=1")
    refused(on_two_ranks[2], "distribution=local (on 2 ranks)")
    assert one_line(on_two_ranks[3]) == "neuro scale starts its worlds itself: run it without a launcher"


@pytest.mark.parametrize(
    ("mpi", "ranks"), [("own", 0), ("own", 2), pytest.param("openmpi", 2, marks=pytest.mark.slow)], indirect=["mpi"]
)
def test_nan_fitness_names_member_and_generation_and_leaves_a_checkpoint(folder, mpi, ranks, request):
    name = f"nan-{mpi.name}-{ranks}"
    if not ranks:
        done = neuro_inside(*FRAGILE, f"hydra.run.dir={name}", cwd=folder)
    elif mpi.name == "own":
        done = request.getfixturevalue("on_two_ranks")[1]
    else:
        done = neuro(*FRAGILE, *ON_RANKS, f"hydra.run.dir={name}", cwd=folder, ranks=ranks, mpi=mpi)
    line = refused(done)
    found = re.search(r"loss of member (\d+) in generation (\d+) is (nan|inf|-inf): ", line)
    assert found, line
    generation = int(found[2])
    assert CheckpointStore(folder / name, 1).generations()[-1] == generation - 1 > 0


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_keeps_the_checkpoint_before_and_resume_goes_on(folder, small_disk):
    run = small_disk / "run"
    (small_disk / "filler").write_bytes(b"\0" * 700_000)
    setting = ("model=MNIST_10K", "generations=12", "checkpoint.every=2", "checkpoint.keep=20", f"hydra.run.dir={run}")
    line = refused(neuro_inside("train", *SMALL, *setting, cwd=folder), "No space left on device")
    last = CheckpointStore(run, 20).generations()[-1]
    assert str(last) in line
    CheckpointStore(run, 20).load()
    (small_disk / "filler").unlink()
    well(neuro_inside("resume", str(run), "checkpoint.keep=2", cwd=folder))
    assert CheckpointStore(run, 2).generations()[-1] == 12


def test_distribution_over_mpi_without_mpi_says_how_to_get_it(folder):
    nowhere = {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}
    done = neuro("train", *SMALL, "distribution=chromosome_updates", cwd=folder, **nowhere)
    refused(done, "MPI is not available", "pip install '.[mpi]'", "distribution=local")
    assert neuro_inside("train", *SMALL, "generations=1", "evaluate.every=1", cwd=folder, **nowhere).returncode == 0


@pytest.mark.parametrize(
    ("fails", "said"),
    [("error", "OSError: the sensor came loose"), pytest.param("exit", "SystemExit: 0", marks=pytest.mark.slow)],
)
@mostly_own
def test_what_fails_on_one_rank_ends_all_and_is_printed_once(folder, mpi, fails, said):
    setting = ("model._target_=my_nets.FailsOnRankOne", "distribution=replicated", "generations=100000")
    run = f"hydra.run.dir=loose-{mpi.name}-{fails}"
    # were the others not ended too, they would wait for ever: neuro() does not
    done = neuro("train", *SMALL, *setting, run, cwd=folder, ranks=2, timeout=240, mpi=mpi, FAILS=fails)
    assert done.returncode != 0
    assert done.stderr.count(f"neuro: error: {said}") == 1, done.stderr


@pytest.fixture(scope="module")
def finished(folder) -> Path:
    well(neuro_inside("train", *SMALL, "hydra.run.dir=finished", cwd=folder))
    return folder / "finished"


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("seed: 1", "seed: 2", "seed=2: the run's checkpoint has seed=1"),
        ("mnist.MNIST_10K", "mnist.MNIST_30K", "model._target_=neuro_cli.model.mnist.MNIST_30K: the run's checkpoint has"),
        ("neuro_cli.model.mnist.MNIST_10K", "my_nets.Net", "model._target_=my_nets.Net: it runs code of my_nets; pass trust="),
    ],
)
def test_an_edited_config_is_refused(folder, finished, before, after, word):
    copy = folder / f"edited-{len(list(folder.glob('edited-*')))}"
    shutil.copytree(finished, copy)
    config = copy / ".hydra" / "config.yaml"
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after))
    refused(neuro_inside("resume", copy.name, cwd=folder), word)
