"""``neuro train -m hydra/launcher=broker``: the jobs of a sweep as tasks of a cluster."""

import csv
import json

import pytest
from inside import neuro_inside, one_line

from neuro_cli.broker import hydra_job, registration
from neuro_cli.broker.hydra_job import _left, run_job
from neuro_cli.core.errors import UserError
from neuro_cli.runner.logs import log_to

TINY = ("generations=1", "population=4", "batch_size=8", "threads=1")


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_jobs_run_on_workers_and_a_failed_one_is_reported(cluster, tmp_path):
    cluster.start_broker("broker")
    cluster.start_worker("worker", children=2)
    swept = ("population=4,5", "hydra.sweep.dir=sweep", f"hydra.launcher.nameserver={cluster.nameserver}")
    done = neuro_inside("train", "-m", "hydra/launcher=broker", *TINY, *swept, cwd=tmp_path)
    assert done.returncode == 1
    assert "neuro: job 1: population=5: antithetic pairs need an even population" in done.stderr
    assert "Traceback" not in done.stderr
    rows = rows_of(tmp_path / "sweep" / "sweep.csv")
    assert [(row["run"], row["population"], row["state"]) for row in rows] == [("0", "4", "finished"), ("1", "5", "failed")]
    assert json.loads((tmp_path / "sweep" / "0" / "summary.json").read_text())["generations"] == 1


def test_one_job_is_no_sweep(tmp_path):
    said = one_line(neuro_inside("train", "hydra/launcher=broker", cwd=tmp_path))
    assert said.startswith("hydra/launcher=broker: it starts the jobs of a sweep, so it needs -m")


def test_a_sweep_without_a_cluster_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(registration, "CONNECT_SECONDS", 0.3)
    nowhere = ("hydra/launcher=broker", "hydra.launcher.nameserver=127.0.0.1:9", "seed=1,2")
    said = one_line(neuro_inside("train", "-m", *nowhere, cwd=tmp_path))
    assert said.startswith("nameserver.address=127.0.0.1:9: nobody answers there")


def test_a_job_whose_worker_was_lost_goes_on_from_its_checkpoint(tmp_path):
    folder, begin = tmp_path / "run", ["train", "seed=1"]
    assert _left(folder, begin) == begin
    folder.mkdir()
    assert _left(folder, begin) == begin
    (folder / ".hydra").mkdir(parents=True)
    (folder / "metrics.csv").touch()
    assert _left(folder, begin) == begin
    assert not folder.exists()  # nothing in it was worth keeping
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "1").touch()
    assert _left(folder, begin) == ["resume", str(folder)]


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="it is there already, and no run of neuro"):
        _left(tmp_path, ["train"])
    assert (tmp_path / "thesis.tex").exists()


def test_a_job_that_still_runs_is_not_begun_a_second_time(tmp_path, monkeypatch):
    monkeypatch.setattr(hydra_job, "GONE_SECONDS", 0.1)
    log_to(tmp_path, 0)
    try:
        with pytest.raises(UserError, match="an earlier attempt of this job still runs"):
            _left(tmp_path, ["train"])
    finally:
        log_to(None, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"verb": "resume"}, "verb=resume: a job of a sweep is one of train"),
        ({"cwd": "/nowhere"}, "/nowhere: there is no such folder"),
    ],
)
def test_a_job_that_is_none_is_refused(tmp_path, wrong, said):
    payload = {"verb": "train", "overrides": [], "folder": str(tmp_path / "run"), "cwd": str(tmp_path), "number": 0} | wrong
    with pytest.raises(UserError) as refusal:
        run_job(payload)
    assert str(refusal.value).startswith(said)
