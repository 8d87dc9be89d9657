"""A killed or stopped run resumes to the bits of one that never was, on any number of ranks."""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.inside import neuro_inside, well
from support.tables import rows_of
from support.worlds import clean_environment, descendants, needs_mpi, own_mpi, started, wait_for_end, wait_for_rows

pytestmark = [needs_mpi, pytest.mark.waits]

GENERATIONS = 40
SETTING = (
    "distribution=chromosome_updates", "population=10", "batch_size=16", "threads=1", f"generations={GENERATIONS}",
    "checkpoint.every=7", "evaluate.every=4", "algo.sigma_schedule.kind=linear",
)  # fmt: skip
SAME_COLUMNS = ("generation", "fitness_mean", "fitness_best", "train_loss", "test_accuracy")


def outcome(run: Path) -> tuple[str, list[tuple[str, ...]]]:
    """The hash of the final parameters and all metrics but the timings."""
    rows = [tuple(row[name] for name in SAME_COLUMNS) for row in rows_of(run / "metrics.csv")]
    return json.loads((run / "summary.json").read_text())["parameters_sha256"], rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def never_killed(folder) -> tuple[str, list[tuple[str, ...]]]:
    well(neuro_inside("train", *SETTING, "hydra.run.dir=whole", cwd=folder))
    whole = outcome(folder / "whole")
    assert [int(row[0]) for row in whole[1]] == list(range(1, GENERATIONS + 1))
    return whole


def start(folder: Path, name: str, ranks: int) -> subprocess.Popen[bytes]:
    # a killed rank must be one of this world's own processes: a fork of the server outlives its launcher by a moment
    command = own_mpi().command(ranks, "-m", "neuro_cli", "train", *SETTING, f"hydra.run.dir={name}", fresh=True)
    silent = subprocess.DEVNULL
    # where a killed world of Open MPI leaves its files
    environment = clean_environment() | {"TMPDIR": str(folder), "OMPI_MCA_btl_sm_backing_directory": str(folder)}
    return started(command, cwd=folder, env=environment, stdout=silent, stderr=silent)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the run, ranks first, so that nobody has time to tidy up."""
    world = descendants(process.pid)
    for pid in [*reversed(world), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # ended with the rank before it
    process.wait()
    wait_for_end(world)


def test_killed_run_resumes_to_the_same_bits(folder, never_killed):
    rows = random.Random(os.getpid()).randrange(1, GENERATIONS - 8)
    process = start(folder, "killed", 2)
    wait_for_rows(folder / "killed", rows, process)
    kill_all(process)
    assert not (folder / "killed" / "summary.json").exists()
    well(neuro_inside("resume", "killed", cwd=folder))
    assert outcome(folder / "killed") == never_killed, f"killed after {rows} rows"


# the default tests of tests/launch send the signal to ranks, and the worlds above resume
def test_sigterm_ends_the_run_cleanly_and_it_resumes(folder, never_killed):
    name = "terminated"
    process = start(folder, name, 0)
    wait_for_rows(folder / name, 9, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(240) == 0
    stopped = outcome(folder / name)[1]
    assert 9 <= len(stopped) < GENERATIONS
    assert f"checkpoint of generation {len(stopped)}:" in (folder / name / "log.txt").read_text()
    well(neuro_inside("resume", name, cwd=folder))
    assert outcome(folder / name) == never_killed


def test_time_limit_stops_and_more_generations_extend(folder, never_killed):
    done = well(neuro_inside("train", *SETTING, "time_limit=0.1", "pace.measure=false", "hydra.run.dir=limited", cwd=folder))
    assert "stopped after generation" in done.stderr
    assert "time_limit=0.1" in done.stderr
    assert len(outcome(folder / "limited")[1]) < GENERATIONS
    assert neuro_inside("resume", "limited", "time_limit=null", cwd=folder).returncode == 0
    assert outcome(folder / "limited") == never_killed
    assert neuro_inside("resume", "limited", f"generations={GENERATIONS + 3}", "distribution=local", cwd=folder).returncode == 0
    rows = outcome(folder / "limited")[1]
    # the last generation of a run is always scored on the test set
    assert rows[:GENERATIONS] == never_killed[1]
    assert len(rows) == GENERATIONS + 3


def test_resume_of_a_damaged_checkpoint_offers_the_one_before(folder, never_killed):
    run = folder / "whole"
    last = max((run / "checkpoints").glob("*.safetensors"))
    intact = last.read_bytes()
    last.write_bytes(intact[: len(intact) // 2])
    before = (run / "metrics.csv").read_bytes()
    done = neuro_inside("resume", "whole", cwd=folder)
    last.write_bytes(intact)
    assert done.returncode == 2
    assert done.stderr.startswith("neuro: error: ")
    assert done.stderr.count("\n") == 1
    assert "neuro resume whole checkpoint=35" in done.stderr
    assert (run / "metrics.csv").read_bytes() == before


def test_weights_in_bfloat16_resume_to_the_same_bits(tmp_path):
    setting = ("weights=bfloat16", "precision=bfloat16", "sampler=low_rank")
    setting += ("population=10", "batch_size=16", "threads=1", "generations=4", "checkpoint.every=2")
    well(neuro_inside("train", *setting, "hydra.run.dir=whole", cwd=tmp_path))
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    well(neuro_inside("resume", "stopped", "checkpoint=2", cwd=tmp_path))
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "stopped")
