"""Ten kills and resumes of a run are one continuous run in each tracker: no hole, no doubled row, by its own reader."""

import csv
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.worlds import clean_environment
from wandb_server import HISTORY, WandbServer, serving

KILLS = 10
Points = dict[str, list[tuple[int, float]]]


def tensorboard(run: Path, server: WandbServer) -> Points:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def mlflow(run: Path, server: WandbServer) -> Points:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{run / 'mlflow' / 'runs.db'}")
    (found,) = client.search_runs([client.get_experiment_by_name("neuro").experiment_id])
    return {
        name: [(point.step, point.value) for point in client.get_metric_history(found.info.run_id, name)]
        for name in found.data.metrics
    }


def comet(run: Path, server: WandbServer) -> Points:
    """Read the archives, which Comet's own command uploads to one experiment; its own reader shows values without steps."""
    points: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    keys, paths = set(), sorted((run / "comet").glob("*.zip"), key=lambda path: path.stat().st_mtime)
    for path in paths:
        with ZipFile(path) as archive:
            if not archive.namelist():  # of a killed session
                continue
            keys.add(json.loads(archive.read("experiment.json"))["offline_id"])
            messages = [json.loads(line)["payload"].get("metric") for line in archive.read("messages.json").splitlines()]
        for metric in messages:
            if metric and "/" in metric["metricName"]:
                points[metric["metricName"]].append((metric["step"], float(metric["metricValue"])))
    assert len(keys) == 1
    command = ["-m", "comet_ml.scripts.comet", "offline", "--csv", "--level", "detail", "--section", "metric"]
    shown = subprocess.run(
        [sys.executable, *command, "--name", "train/fitness_mean", "--no-header", *map(str, paths)],
        env=clean_environment() | {"HOME": str(run.parent)},
        check=True,
        capture_output=True,
        text=True,
        timeout=900,
    )
    values = [float(row[-1]) for row in csv.reader(shown.stdout.splitlines()) if len(row) == 7]
    assert values == [value for _, value in points["train/fitness_mean"]]
    return points


def wandb(run: Path, server: WandbServer) -> Points:
    """Read what wandb's own client uploads: of an offline run the folders, by the command that the run prints."""
    folders = sorted((run / "wandb").glob("offline-run-*"))
    if folders:
        environment = clean_environment() | {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": server.address}
        command = [sys.executable, "-m", "wandb", "sync", *map(str, folders)]
        subprocess.run(command, env=environment, cwd=run.parent, check=True, capture_output=True, timeout=900)
    (lines,) = (files[HISTORY] for files in server.files.values())
    points: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in map(json.loads, lines):
        for name in row:
            if "/" in name:
                points[name].append((row["_step"], float(row[name])))
    return points


TRACKERS: dict[str, tuple[list[str], Callable[[Path, WandbServer], Points], str]] = {
    "tensorboard": (["logger=tensorboard"], tensorboard, "tensorboard"),
    "wandb": (["logger=wandb", "logger.mode=offline"], wandb, "wandb"),
    "wandb_online": (["logger=wandb", "logger.mode=online"], wandb, "wandb"),
    "mlflow": (["logger=mlflow"], mlflow, "mlflow"),
    "comet": (["logger=comet", "logger.settings.online=false"], comet, "comet_ml"),
}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TRACKERS)
def test_ten_kills_are_one_run(name: str, tmp_path: Path) -> None:
    settings, read, package = TRACKERS[name]
    if not find_spec(package) or (name in ("mlflow", "comet") and not find_spec("lightning")):
        pytest.skip(f"without {package}")
    run = tmp_path / "run"
    with serving() as server:
        variables = {"NEURO_CURVES": "0", "HOME": str(tmp_path), "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "0.5"}
        if name == "wandb_online":
            variables |= {"WANDB_BASE_URL": server.address, "WANDB_API_KEY": "a" * 40}
        command = ["train", "hydra.run.dir=run", "population=4", "batch_size=8", "threads=1", "generations=100000"]
        command += ["checkpoint.every=7", "evaluate.every=5", *settings]
        for kill in range(KILLS):
            _killed(command, run, 15 * (kill + 1), variables)
            command = ["resume", "run"]
        last = _rows(run)[-1]["generation"]
        done = _neuro(["resume", "run", f"generations={int(last) + 20}"], tmp_path, variables)
        out, _ = done.communicate(timeout=900)
        assert done.returncode == 0, out
        points = read(run, server)
    rows = _rows(run)
    expected = {
        "train/fitness_mean": [(int(row["generation"]), float(row["fitness_mean"])) for row in rows],
        "test/accuracy": [(int(row["generation"]), float(row["test_accuracy"])) for row in rows if row["test_accuracy"]],
    }
    assert [step for step, _ in expected["train/fitness_mean"]] == list(range(1, int(last) + 21))
    for metric, wanted in expected.items():
        assert [step for step, _ in points[metric]] == [step for step, _ in wanted], metric
        assert [value for _, value in points[metric]] == pytest.approx([value for _, value in wanted], rel=1e-6), metric
    assert len(points["time/seconds"]) == len(rows)
    assert all(len(seen) == 1 for metric, seen in points.items() if metric.startswith("summary/"))


def _neuro(arguments: list[str], folder: Path, variables: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=clean_environment() | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _killed(arguments: list[str], run: Path, rows: int, variables: dict[str, str]) -> None:
    """Run neuro until ``metrics.csv`` has ``rows`` rows, then kill it."""
    process = _neuro(arguments, run.parent, variables)
    try:
        deadline = time.monotonic() + 900
        while len(_rows(run)) < rows:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def _rows(run: Path) -> list[dict[str, str]]:
    try:
        with (run / "metrics.csv").open(newline="") as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]
    except OSError:
        return []
