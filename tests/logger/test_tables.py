"""Tables of ``neuro bench`` and ``neuro scale`` as metrics, in each logger."""

import csv
import sys
import time
from pathlib import Path

import pytest
from support.configs import composed

from neuro_cli.bench import bench as module
from neuro_cli.core.errors import UserError
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.tables import log_points, points_of
from neuro_cli.logger.tensorboard import TensorBoardLogger
from neuro_cli.logger.wandb import WandbLogger

TABLE = [
    {"layer": "linear 24", "what": "iid forward", "round": "0", "seconds": "0.5", "multiple": "", "machine": "m, 2 cores"},
    {"layer": "linear 24", "what": "iid forward", "round": "1", "seconds": "0.25", "multiple": "2.0", "machine": "m, 2 cores"},
    {"layer": "conv 3 to 64", "what": "iid forward", "round": "0", "seconds": "inf", "multiple": "3", "machine": "m, 2 cores"},
]
POINTS = [(2, "a/efficiency", 0.5), (1, "a/efficiency", 1.0), (2, "b/efficiency", 0.75)]


def scalars(run: Path, name: str) -> list[tuple[int, float]]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_texts_name_the_numbers_of_a_row_and_steps_count_up():
    assert points_of(TABLE) == [
        (0, "linear_24/iid_forward/seconds", 0.5),
        (1, "linear_24/iid_forward/seconds", 0.25),
        (0, "linear_24/iid_forward/multiple", 2.0),
        (0, "conv_3_to_64/iid_forward/multiple", 3.0),
    ]
    assert points_of([]) == []


def test_numbers_that_say_what_was_measured_are_part_of_the_name():
    rows = [{"method": "a", "ranks": ranks, "largest_gap": "1e-9"} for ranks in ("1", "2")]
    assert points_of(rows) == [(0, "a/1/largest_gap", 1e-9), (0, "a/2/largest_gap", 1e-9)]


def test_tensorboard_gets_a_row_a_step(tmp_path):
    pytest.importorskip("tensorboard")
    log_points(TensorBoardLogger(), tmp_path, {"what": "noise"}, POINTS)
    assert scalars(tmp_path, "a/efficiency") == [(1, 1.0), (2, 0.5)]
    assert scalars(tmp_path, "b/efficiency") == [(2, 0.75)]


def test_wandb_gets_them_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    log_points(WandbLogger(), tmp_path, {"what": "noise"}, POINTS)
    (record,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    deadline = time.monotonic() + 60  # W&B's own process writes the file
    while b"b/efficiency" not in record.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    content = record.read_bytes()
    assert b"a/efficiency" in content
    assert b"b/efficiency" in content


def test_csv_is_the_table_itself(tmp_path):
    log_points(CsvLogger(), tmp_path, {}, POINTS)
    assert list(tmp_path.iterdir()) == []  # no metrics.csv of generations, which there are not


def noise_table(config, run: Path) -> None:
    with (run / "noise.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, TABLE[0])
        writer.writeheader()
        writer.writerows(TABLE)


@pytest.mark.parametrize("logger", ["tensorboard", "csv"])
def test_neuro_bench_tells_the_logger(tmp_path, monkeypatch, logger):
    pytest.importorskip("tensorboard")
    monkeypatch.setitem(module.KINDS, "diversity", noise_table)
    module.bench(composed("what=diversity", f"logger={logger}", verb="bench"), tmp_path)
    assert (tmp_path / "tensorboard").exists() == (logger == "tensorboard")
    if logger == "tensorboard":
        assert scalars(tmp_path, "linear_24/iid_forward/seconds") == [(0, 0.5), (1, 0.25)]


def test_a_logger_that_is_missing_is_named_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(module.KINDS, "diversity", noise_table)
    with pytest.raises(UserError, match="logger=tensorboard: needs the extra"):
        module.bench(composed("what=diversity", "logger=tensorboard", verb="bench"), tmp_path)
    assert list(tmp_path.iterdir()) == []
