"""Real searches on the bundled digits, with real child processes."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.forked import Forked
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of
from support.waiting import until
from support.worlds import clean_environment, descendants

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.factory.instantiate import make
from neuro_cli.model.module_cnn import ModuleCNN
from neuro_cli.report.run_state import read_job
from neuro_cli.run_folder.checkpoint import CheckpointStore

pytestmark = pytest.mark.waits

TINY = ("trainings=7", "max_layers=2", "strategy.population=3", "training.epochs=1", "training.batch_size=256", "model.filters=2")


def search(run: Path, *overrides: str, **options: Any):
    done = well(neuro_inside("search", *TINY, *overrides, f"hydra.run.dir={run}", cwd=run.parent, **options))
    return done


def result(run: Path) -> tuple:
    """What a search found, without clocks and names of workers."""
    trained = [{**row, "seconds": "", "worker": ""} for row in rows_of(run / "candidates.csv")]
    summary = json.loads((run / "summary.json").read_bytes())
    found = [summary[name] for name in ("module", "validation_accuracy", "test_accuracy", "generations", "first_generation")]
    best = [path.read_text() for path in sorted((run / "best").iterdir())]
    metrics = [
        (row["generation"], row["fitness_mean"], row["fitness_best"], row["trainings"]) for row in rows_of(run / "metrics.csv")
    ]
    return trained, found, best, metrics


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("search")


@pytest.fixture(scope="module")
def finished(folder) -> Path:
    """A search by two workers."""
    search(folder / "two", "pool.workers=2", NEURO_CURVES="1")  # of the cluster that it has by default
    return folder / "two"


def test_a_finished_search_has_all_that_was_found(finished):
    trained = rows_of(finished / "candidates.csv")
    assert [int(row["candidate"]) for row in trained] == list(range(1, 8))
    assert len({row["module"] for row in trained}) == 7
    assert not any(row["error"] for row in trained)
    fitness = {row["module"]: float(row["validation_accuracy"]) for row in trained}
    summary = json.loads((finished / "summary.json").read_bytes())
    assert summary["validation_accuracy"] == max(fitness.values()) == fitness[" ".join(summary["module"])]
    assert (summary["trainings"], summary["failures"], summary["complete"]) == (7, 0, True)
    assert len(list((finished / "best").glob("best_*.yaml"))) == 3
    assert (finished / "curves.png").stat().st_size > 10_000
    log = (finished / "log.txt").read_text()
    assert "search begins: 0 of 7 candidates are trained" in log
    assert CheckpointStore(finished, 1).generations()[-1] == 7


def test_the_best_is_an_option_of_model(finished):
    done = well(neuro_inside("train", f"model={finished / 'best' / 'best_1.yaml'}", "--cfg", "job", cwd=finished.parent))
    network = make(yaml.safe_load(done.stdout), "model", ModuleCNN)
    summary = json.loads((finished / "summary.json").read_bytes())
    assert sum(parameter.numel() for parameter in network.parameters()) == summary["parameters"]


def test_a_report_shows_a_search_and_others_refuse_it_in_a_line(finished, folder):
    job = read_job(finished, "two")
    assert (job.state, job.generations) == ("finished", 3)
    done = well(neuro_inside("report", str(finished), "html=false", cwd=folder))
    assert "finished" in done.stdout
    assert "not a neuro training run" in one_line(neuro_inside("evaluate", str(finished), cwd=folder))


def begun(run: Path, done: int, *overrides: str) -> "subprocess.Popen[bytes]":
    """A search as a process of its own, once ``done`` candidates are."""
    command = [sys.executable, "-m", "neuro_cli", "search", *TINY, *overrides, f"hydra.run.dir={run}"]
    process = Forked(command, cwd=run.parent, env=clean_environment(), stdout=subprocess.DEVNULL)
    rows = run / "candidates.csv"
    until(lambda: process.poll() not in (None, 0) or (rows.exists() and len(rows_of(rows)) >= done))
    assert process.poll() in (None, 0)
    return process


def running(pid: int) -> bool:
    """Whether the process is there; one that has ended has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_search_that_was_killed_goes_on_to_what_an_undisturbed_one_finds(finished, folder):
    run = folder / "killed"
    process = begun(run, 2, "pool.workers=1")
    children = descendants(process.pid)
    process.kill()
    process.wait()
    assert read_job(run, "killed").state == "failed"
    well(neuro_inside("resume", str(run), cwd=folder))
    assert result(run) == result(finished)
    assert children
    assert not any(running(child) for child in children)
    assert "search continues: " in (run / "log.txt").read_text()


@pytest.mark.slow
def test_a_search_on_a_cluster_whose_processes_are_killed_finds_what_an_undisturbed_one_finds(folder):
    longer = ("trainings=12", "training.epochs=20")
    search(folder / "calm", "pool.workers=2", *longer)
    chance, cluster, killed = random.Random(1), Cluster(folder / "cluster"), []
    try:
        cluster.start_nameserver()
        for number in range(2):
            cluster.start_broker(f"broker {number}", losses=100)
        for number in range(3):
            cluster.start_worker(f"worker {number}")
        there = (f"nameserver.address={cluster.nameserver}", f"security.certificates={cluster.certificates}")
        process = begun(folder / "shot", 0, "role=model", "pool=broker", *there, *longer)
        while process.poll() is None:
            time.sleep(0.7)
            cluster.revive()
            if len(killed) < 8:  # a task that is always killed would never be done
                killed.append(chance.choice(list(cluster.members)))
                cluster.members[killed[-1]].process.kill()
                cluster.members[killed[-1]].process.wait()
    finally:
        cluster.close()
    assert process.returncode == 0
    assert len(killed) >= 3
    assert result(folder / "shot") == result(folder / "calm")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "time_limit"])
def test_a_search_that_is_stopped_ends_cleanly_and_goes_on(finished, folder, how):
    run = folder / how
    limit = ("time_limit=1",) if how == "time_limit" else ()
    process = begun(run, 0 if limit else 1, "pool.workers=1", "training.epochs=30", *limit)
    if not limit:
        process.send_signal(signal.Signals[how])
    assert process.wait(240) == 0
    job = read_job(run, how)
    assert (job.state, job.reason.startswith("stopped after candidate ")) == ("stopped", True)
    assert json.loads((run / "summary.json").read_bytes())["complete"] is False
    well(neuro_inside("resume", str(run), "time_limit=null", cwd=folder))
    assert len(rows_of(run / "candidates.csv")) == 7
    assert read_job(run, how).state == "finished"


@pytest.mark.slow
def test_a_candidate_that_outgrows_its_worker_is_a_row_and_the_search_goes_on(folder):
    """Every layer keeps two results of 134 MB for back-propagation: of the modules of 1 to 6 layers the shorter ones fit."""
    run = folder / "memory"
    space = ("layers=[1x1]", "max_layers=6", "trainings=6", "strategy=random", "strategy.population=2")
    images = ("training.batch_size=512", "model.filters=16", "model.input_shape=[1,64,64]")
    search(run, "pool.workers=1", "pool.memory=3.0", *space, *images, fresh=True)
    errors = {int(row["layers"]): row["error"] for row in rows_of(run / "candidates.csv")}
    assert sorted(errors) == [1, 2, 3, 4, 5, 6]
    fits = [not errors[layers] for layers in range(1, 7)]
    assert fits == sorted(fits, reverse=True)
    assert fits[0]
    assert errors[6] == "the task needed more than worker.memory=2861 MiB"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["seed=2"], "seed=2: a resumed search keeps it; what can change: trainings"),
        (["strategy.population=4"], "strategy.population=4: a resumed search keeps it"),
        (["trainings=3"], "trainings=3: the checkpoint has 7 already"),
        (["pool=nowhere"], "pool=nowhere: no such option; "),
    ],
)
def test_a_finished_search_is_not_touched_by_a_refused_command(finished, changes, line):
    before = {path: path.read_bytes() for path in sorted(finished.rglob("*")) if path.is_file()}
    assert one_line(neuro_inside("resume", str(finished), *changes, cwd=finished.parent)).startswith(line)
    assert {path: path.read_bytes() for path in sorted(finished.rglob("*")) if path.is_file()} == before


def test_a_checkpoint_of_another_search_is_refused(finished, folder):
    config = finished / ".hydra" / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("max_layers: 2", "max_layers: 3"))
    try:
        line = one_line(neuro_inside("resume", str(finished), cwd=folder))
    finally:
        config.write_text(text)
    assert line.startswith("max_layers=3: the run's checkpoint has max_layers=2; resume keeps it")
