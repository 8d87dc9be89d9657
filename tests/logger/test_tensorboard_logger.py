"""TensorBoard reads back what was logged; a resumed run hides what it makes again."""

import sys
from pathlib import Path

import pytest

from neuro_cli.core.errors import UserError
from neuro_cli.logger.tensorboard import TensorBoardLogger


def write(run: Path, generations: range, resumed_at: int | None, shift: float) -> None:
    logger = TensorBoardLogger()
    logger.start(run, {"algo": {"sigma": 0.02}}, resumed_at)
    for generation in generations:
        logger.log({"generation": generation, "fitness_mean": generation + shift, "test_accuracy": None})
    logger.finish({"generations": generations.stop - 1, "test_accuracy": 0.5})


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError) as caught:
        TensorBoardLogger()
    assert str(caught.value) == "logger=tensorboard: needs the extra: pip install '.[tensorboard]'"


def test_read_back(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write(tmp_path, range(1, 6), None, 0.0)
    write(tmp_path, range(4, 7), 3, 0.25)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["fitness_mean"]
    points = [(event.step, event.value) for event in events.Scalars("fitness_mean")]
    assert points == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.25), (5, 5.25), (6, 6.25)]
    assert "sigma" in str(events.Tensors("config/text_summary"))
    assert events.Tensors("summary/text_summary")[-1].step == 6


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(UserError, match="tensorboard: cannot be written"):
        TensorBoardLogger().start(tmp_path, {}, None)
