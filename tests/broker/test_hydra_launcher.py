"""``neuro train -m hydra/launcher=broker``: the jobs of a sweep as tasks of a cluster."""

import csv
import json

import pytest
from support.inside import neuro_inside, one_line
from support.worlds import needs_mpi
from waits import all_results, until

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.broker.nameserver import client
from neuro_cli.broker.worker.kinds import OWNER_VARIABLE
from neuro_cli.core.errors import UserError
from neuro_cli.launch import sweep_job
from neuro_cli.launch.sweep_job import _left, run_job
from neuro_cli.pool.base import WorkUnit
from neuro_cli.run_folder.log import log_to

TINY = ("generations=1", "population=4", "batch_size=8", "threads=1")


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_jobs_run_on_workers_and_a_failed_one_is_reported(cluster, tmp_path, tmp_path_factory):
    cluster.start_broker("broker")
    cluster.start_worker("worker", children=2, kinds=["hydra_job"], folders=[str(tmp_path)])
    (tmp_path / "net.yaml").write_text("_target_: neuro_cli.model.mnist.MNIST_10K\n")
    stored = ("model=net.yaml", "logger=[csv,wandb]", "logger.wandb.mode=offline", "logger.wandb.tags=[night]")
    swept = ("population=4,5", "hydra.sweep.dir=sweep", *stored, *launcher(cluster))
    done = neuro_inside("train", "-m", "hydra/launcher=broker", *TINY, *swept, cwd=tmp_path)
    assert done.returncode == 1
    assert "neuro: job 1: population=5: antithetic pairs need an even population" in done.stderr
    assert "Traceback" not in done.stderr
    rows = rows_of(tmp_path / "sweep" / "sweep.csv")
    assert [(row["run"], row["population"], row["state"]) for row in rows] == [("0", "4", "finished"), ("1", "5", "failed")]
    assert json.loads((tmp_path / "sweep" / "0" / "summary.json").read_text())["generations"] == 1
    kept = (tmp_path / "sweep" / "0").glob
    until(lambda: any(kept("wandb/offline-run-*/run-*.wandb")), seconds=120)  # W&B's own process writes it, after a slow start
    (record,) = kept("wandb/offline-run-*/run-*.wandb")
    until(lambda: all(text in record.read_bytes() for text in (b"night", b"sweep", b"population=4", b"fitness_mean")))
    # no job of this one gets a folder: the worker's owner does not allow its place
    outside = f"hydra.sweep.dir={tmp_path_factory.mktemp('outside')}"
    done = neuro_inside("train", "-m", "hydra/launcher=broker", *TINY, "seed=1,2", outside, *launcher(cluster), cwd=tmp_path)
    assert done.returncode == 1
    assert "job 1: folder=" in done.stderr


@pytest.mark.slow
@needs_mpi
def test_a_job_of_several_ranks_is_an_mpi_job_on_its_worker(cluster, tmp_path):
    """Worlds by MPI inside a worker, RPC between workers."""
    cluster.start_broker("broker")
    cluster.start_worker("worker", kinds=["hydra_job"], folders=[str(tmp_path)])
    swept = ("seed=1,2", "ranks=2", "distribution=chromosome_updates", "hydra.sweep.dir=sweep", *launcher(cluster))
    done = neuro_inside("train", "-m", "hydra/launcher=broker", *TINY, *swept, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summaries = [json.loads((tmp_path / "sweep" / job / "summary.json").read_text()) for job in "01"]
    assert [(summary["ranks"], summary["generations"]) for summary in summaries] == [(2, 1), (2, 1)]


def launcher(cluster: Cluster) -> tuple[str, str]:
    return f"hydra.launcher.nameserver={cluster.nameserver}", f"hydra.launcher.certificates={cluster.certificates}"


def test_a_worker_does_no_jobs_unless_its_owner_names_them(cluster, pool, tmp_path):
    """By a submitter whose certificate is right."""
    cluster.start_broker("broker", unknown_kind_after=0.5)
    cluster.start_worker("worker", folders=[str(tmp_path)])
    job = {"verb": "train", "overrides": list(TINY), "folder": str(tmp_path / "run"), "cwd": str(tmp_path), "number": 0}
    pool.submit([WorkUnit("job", "hydra_job", job)])
    said = all_results(pool, 1)["job"].error
    assert said.startswith("the task's type 'hydra_job' is unknown to the workers; they know candidate, noop; it is done where")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def allowed(tmp_path, monkeypatch):
    """A worker's owner who allows a folder and trusts ``trusted``; an attacker's module lies there too, and one that shadows."""
    monkeypatch.setenv(OWNER_VARIABLE, json.dumps({"trust": ["trusted"], "folders": [str(tmp_path)]}))
    write = "from pathlib import Path\nPath({!r}).touch()\nimport torch\nclass Net(torch.nn.Sequential):\n"
    code = "    def __init__(self):\n        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    for name in ("trusted", "evil"):
        (tmp_path / f"{name}.py").write_text(write.format(str(tmp_path / f"{name}.ran")) + code)
    (tmp_path / "matplotlib.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'shadow.ran')!r}).touch()\n")
    return {"verb": "train", "overrides": list(TINY), "folder": str(tmp_path / "run"), "cwd": str(tmp_path), "number": 0}


def test_a_job_makes_no_class_that_its_workers_owner_does_not_trust(allowed, tmp_path):
    with pytest.raises(UserError) as refusal:
        run_job(allowed | {"overrides": [*TINY, "model._target_=evil.Net"]})
    assert str(refusal.value) == (
        "model._target_=evil.Net: it runs code of evil; the owner of the worker allows it by worker.trust=[evil]"
    )
    assert not (tmp_path / "evil.ran").exists()


def test_a_job_imports_from_its_folder_only_what_is_trusted(allowed, tmp_path, monkeypatch):
    monkeypatch.setenv(OWNER_VARIABLE, json.dumps({"trust": [], "folders": [str(tmp_path)]}))
    run_job(allowed)
    assert (tmp_path / "run" / "summary.json").exists()
    assert not (tmp_path / "shadow.ran").exists()


@pytest.mark.slow  # by default the class of a package that is not trusted is refused, and untrusted code beside a job not run
def test_a_job_makes_classes_of_a_trusted_package_in_its_folder(allowed, tmp_path):
    (tmp_path / "matplotlib.py").unlink()
    run_job(allowed | {"overrides": [*TINY, "model._target_=trusted.Net"]})
    assert (tmp_path / "trusted.ran").exists()
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("hydra.callbacks.x._target_=evil.Net", "a job sets no key of hydra"),
        ("+hydra/launcher=broker", "a job sets no key of hydra"),
        ("+model@hydra.callbacks.x=MNIST_10K", "a job sets no key of hydra"),
        ("--config-dir=conf", "not an override of a job"),
        (" -cd=conf", "not an override of a job"),
        ("seed=${oc.env:HOME}", "a job does not read the worker's environment"),
        ("model=/etc/evil.yaml", "it is not below"),
        ("model=MNIST_10K,link/evil.yaml", "it is not below"),
        ("model=chooses.yaml", "without a defaults list"),
        (7, "not an override of a job"),
    ],
)
def test_an_override_that_would_name_code_before_the_config_is_checked_is_refused(allowed, tmp_path, override, said):
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "chooses.yaml").write_text("defaults: [override /hydra/launcher: broker]\n_target_: torch.nn.Linear\n")
    with pytest.raises(UserError, match=said):
        run_job(allowed | {"overrides": [override]})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["folder", "cwd"])
@pytest.mark.parametrize("place", ["/etc", "link", "..", "run"])
def test_a_job_stays_below_the_folders_that_its_workers_owner_allows(allowed, tmp_path, name, place):
    (tmp_path / "link").symlink_to("/etc")
    value = place if place == "run" else str(tmp_path / place)
    with pytest.raises(UserError, match=f"{name}=.*(it is not below|must be an absolute path)"):
        run_job(allowed | {name: value})


def test_without_an_owners_word_no_job_is_done(allowed, monkeypatch):
    monkeypatch.delenv(OWNER_VARIABLE)
    with pytest.raises(UserError, match="it is not below a folder that the worker allows"):
        run_job(allowed)


def test_one_job_is_no_sweep(tmp_path):
    said = one_line(neuro_inside("train", "hydra/launcher=broker", cwd=tmp_path))
    assert said.startswith("hydra/launcher=broker: it starts the jobs of a sweep, so it needs -m")


def test_a_sweep_without_a_cluster_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.3)
    nowhere = ("hydra/launcher=broker", "hydra.launcher.nameserver=127.0.0.1:9", "seed=1,2")
    said = one_line(neuro_inside("train", "-m", *nowhere, cwd=tmp_path))
    assert said.startswith("nameserver.address=127.0.0.1:9: nobody answers there")


def test_a_job_whose_worker_was_lost_goes_on_from_its_checkpoint(tmp_path):
    folder, begin = tmp_path / "run", ["train", "seed=1"]
    assert _left(folder, begin, []) == begin
    folder.mkdir()
    assert _left(folder, begin, []) == begin
    (folder / ".hydra").mkdir(parents=True)
    (folder / "metrics.csv").touch()
    assert _left(folder, begin, []) == begin
    assert not folder.exists()  # nothing in it was worth keeping
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "1").touch()
    assert _left(folder, begin, []) == ["resume", str(folder)]
    assert _left(folder, begin, ["mine", "yours"]) == ["resume", str(folder), "trust=[mine,yours]"]


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="already there, and not a neuro run"):
        _left(tmp_path, ["train"], [])
    assert (tmp_path / "thesis.tex").exists()


def test_a_job_that_still_runs_is_not_begun_a_second_time(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_job, "GONE_SECONDS", 0.1)
    log_to(tmp_path, 0)
    try:
        with pytest.raises(UserError, match="an earlier attempt of this job still runs"):
            _left(tmp_path, ["train"], [])
    finally:
        log_to(None, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"verb": "resume"}, "verb=resume: a job of a sweep is one of train"),
        ({"cwd": "CWD/nowhere"}, "CWD/nowhere: there is no such folder"),
        ({"number": "0 evil=1"}, "a job of a sweep has a number"),
        ({"overrides": "seed=1"}, "a job of a sweep has a number and a list of overrides"),
    ],
)
def test_a_job_that_is_none_is_refused(tmp_path, monkeypatch, wrong, said):
    monkeypatch.setenv(OWNER_VARIABLE, json.dumps({"trust": [], "folders": [str(tmp_path)]}))
    wrong = {key: str(value).replace("CWD", str(tmp_path)) for key, value in wrong.items()}
    payload = {"verb": "train", "overrides": [], "folder": str(tmp_path / "run"), "cwd": str(tmp_path), "number": 0} | wrong
    with pytest.raises(UserError) as refusal:
        run_job(payload)
    assert str(refusal.value).startswith(said.replace("CWD", str(tmp_path)))
