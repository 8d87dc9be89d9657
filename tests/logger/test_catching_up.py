"""A resumed run's trackers get the rows that a kill took from them, and none twice."""

import json
import sys
import types
from pathlib import Path
from zipfile import ZipFile

import pytest
from test_lightning_logger import Recorder, stand_ins  # noqa: F401

from neuro_cli.logger.base import Logger
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.lightning import LightningLogger, comet_step
from neuro_cli.logger.several import Several, with_csv
from neuro_cli.logger.stored_rows import StoredRows
from neuro_cli.logger.tensorboard import TensorBoardLogger
from neuro_cli.logger.wandb import WandbLogger, last_step


def row(generation: int) -> dict[str, float | None]:
    tested = 0.5 if generation % 2 == 0 else None
    return {"generation": generation, "fitness_mean": generation / 3, "test_accuracy": tested, "seconds": 0.1}


def session(run: Path, tracker: Logger, resumed_at: int | None, last: int, end: bool = False) -> None:
    """Play a run's session up to generation ``last``; without ``end`` it is killed there."""
    logger = with_csv(tracker)
    logger.evaluated = ("test_accuracy",)
    logger.start(run, {}, resumed_at)
    for generation in range((resumed_at or 0) + 1, last + 1):
        logger.log(row(generation))
    if end:
        logger.finish({"generations": last})


def test_stored_rows_are_the_rows(tmp_path: Path) -> None:
    session(tmp_path, Several(csv=CsvLogger()), None, 5)
    expected = [row(generation) for generation in (3, 4)]
    stored = [{name: each[name] for name in row(1)} for each in StoredRows(tmp_path, 4).after(2)]
    assert stored == expected
    assert type(stored[0]["generation"]) is int
    assert list(StoredRows(tmp_path, 4).after(4)) == list(StoredRows(tmp_path / "none", 4).after(0)) == []


@pytest.mark.usefixtures("_a_second_each")
def test_tensorboard_has_the_rows_that_its_file_lost(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    session(tmp_path, TensorBoardLogger(), None, 9, end=True)
    (file,) = (tmp_path / "tensorboard").iterdir()
    content = file.read_bytes()
    for length in (len(content), len(content) // 2, len(content) // 3, 0):
        file.write_bytes(content[:length])  # a kill has cut it, in the middle of a record
        session(tmp_path, TensorBoardLogger(), 8, 10, end=True)
        events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
        events.Reload()
        assert [event.step for event in events.Scalars("train/fitness_mean")] == list(range(1, 11))
        assert [event.step for event in events.Scalars("test/accuracy")] == [2, 4, 6, 8, 10]
        for other in set((tmp_path / "tensorboard").iterdir()) - {file}:
            other.unlink()


def test_mlflow_has_each_row_once(stand_ins: None, tmp_path: Path) -> None:  # noqa: F811
    """A second point of the same step would stay next to the first."""
    session(tmp_path, LightningLogger("mlflow"), None, 9)
    del Recorder.made[0].calls[-5:]  # as after a server's loss
    session(tmp_path, LightningLogger("mlflow"), 7, 8, end=True)
    session(tmp_path, LightningLogger("mlflow"), 4, 10, end=True)
    session(tmp_path, LightningLogger("mlflow"), 10, 10, end=True)
    sent = [call for made in Recorder.made for call in made.calls if call[0] == "metrics"]
    assert [step for _, metrics, step in sent if "time/seconds" in metrics] == list(range(1, 11))
    assert [step for _, metrics, step in sent if "summary/generations" in metrics] == [8, 10]


def test_comets_archives_have_a_last_step(tmp_path: Path) -> None:
    class OfflineExperiment: ...

    logger = types.SimpleNamespace(experiment=OfflineExperiment())
    assert comet_step(logger, "abc", tmp_path, "time/seconds") == 0
    lines = [{"payload": {"metric": {"metricName": "time/seconds", "step": step}}} for step in (1, 2)]
    lines += [{"payload": {"metric": {"metricName": "sys.load", "step": 7}}}, {"payload": {"key": "x"}}]
    with ZipFile(tmp_path / "abc-X.zip", "w") as archive:
        archive.writestr("messages.json", "\n".join(map(json.dumps, lines)))
    (tmp_path / "abc-Y.zip").write_bytes(b"cut off")
    ZipFile(tmp_path / "abc-Z.zip", "w").close()  # what a killed session leaves
    assert comet_step(logger, "abc", tmp_path, "time/seconds") == 2


def test_comets_server_has_a_last_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    points = [{"step": 1}, {"step": None}, {"step": 4}]

    def experiment(key: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(get_metrics=lambda name: asked.append((key, name)) or points)

    api = types.ModuleType("comet_ml.api")
    api.API = lambda: types.SimpleNamespace(get_experiment_by_key=experiment)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet_ml", types.ModuleType("comet_ml"))
    monkeypatch.setitem(sys.modules, "comet_ml.api", api)
    assert comet_step(types.SimpleNamespace(experiment=object()), "abc", tmp_path, "time/seconds") == 4
    assert asked == [("abc", "time/seconds")]


class Online:
    """A run of wandb that a server already has up to generation 4."""

    id, offline, url, starting_step = "abc", False, "", 5

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.summary: dict[str, object] = {}

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.steps.append(step)

    def finish(self) -> None:
        pass


def test_wandb_online_gets_what_its_server_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, Several(csv=CsvLogger()), None, 8)
    (tmp_path / "wandb" / "run-20260101_000000-abc").mkdir(parents=True)
    run, fake = Online(), types.ModuleType("wandb")
    fake.init, fake.Settings = lambda **_: run, dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_MODE", "online")
    session(tmp_path, WandbLogger(), 7, 9, end=True)
    assert run.steps == [5, 6, 7, 8, 9]


def test_wandbs_files_have_a_last_step(tmp_path: Path) -> None:
    """Written here as LevelDB's log format has it, with records over several blocks, then cut by a kill at any place."""
    internal = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    content, ends = bytearray(b":W&B\xe1\xbe\x00"), list[int]()
    for step in range(1, 16):
        record = internal.Record()
        record.history.step.num = step
        record.history.item.add(key="x", value_json="1" * 5000)
        left, first = record.SerializeToString(), True
        while left or first:
            room = 32768 - len(content) % 32768
            if room < 7:
                content += bytes(room)
                continue
            part, left = left[: room - 7], left[room - 7 :]
            kind = (1 if first else 4) if not left else (2 if first else 3)
            content += bytes(4) + len(part).to_bytes(2, "little") + bytes([kind]) + part
            first = False
        ends.append(len(content))
    folder = tmp_path / "offline-run-20260101_000000-abc"
    folder.mkdir()
    file = folder / "run-abc.wandb"
    assert last_step(tmp_path) == 0
    for length in (0, 5, 7, ends[0] - 1, ends[0], ends[6], ends[7] - 1, ends[7], ends[-1] - 1, ends[-1]):
        file.write_bytes(content[:length])
        assert last_step(tmp_path) == sum(end <= length for end in ends)
    (tmp_path / "offline-run-20260101_000001-abc").mkdir()  # a session that was killed before its first row
    assert last_step(tmp_path) == 15
    file.write_bytes(b"another format")
    with pytest.raises(ValueError, match="is not in the format"):
        last_step(tmp_path)
