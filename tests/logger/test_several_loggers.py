"""A list of loggers is one config with each under its name; metrics.csv is written once, whatever is in the list."""

import csv
from pathlib import Path

import pytest
from inside import neuro_inside, one_line

from neuro_cli.core.errors import ConfigError
from neuro_cli.logger.base import Logger
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.several import Several, with_csv

TINY = ("generations=2", "population=4", "batch_size=8", "threads=1", "hydra.run.dir=run")


class Heard(Logger):
    def __init__(self) -> None:
        self.calls: list[object] = []

    def start(self, run, config, resumed_at):
        self.calls.append((run, config, resumed_at))

    def log(self, row):
        self.calls.append(row["generation"])

    def finish(self, summary):
        self.calls.append(summary)


def test_each_is_told_all(tmp_path: Path) -> None:
    first, second = Heard(), Heard()
    both = Several(first=first, second=second)
    both.start(tmp_path, {"seed": 1}, 3)
    both.log({"generation": 4})
    both.finish({"done": True})
    assert first.calls == second.calls == [(tmp_path, {"seed": 1}, 3), 4, {"done": True}]


def test_that_of_metrics_csv_is_there_once() -> None:
    other = Heard()
    assert [type(each) for each in with_csv(CsvLogger())] == [CsvLogger]
    assert [type(each) for each in with_csv(Several(csv=CsvLogger(), other=other))] == [CsvLogger, Heard]
    assert [type(each) for each in with_csv(Several(other=other))] == [CsvLogger, Heard]
    with pytest.raises(ConfigError, match=r"logger\.other=int: must be a logger"):
        Several(other=3)  # type: ignore[arg-type]


def test_keys_of_a_list_are_under_the_names(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    done = neuro_inside("train", *TINY, "logger=[csv,tensorboard]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "run" / "metrics.csv").open() as file:
        assert [row["generation"] for row in csv.DictReader(file)] == ["1", "2"]
    events = len(list((tmp_path / "run" / "tensorboard").iterdir()))
    assert neuro_inside("resume", "run", "generations=3", "logger=[tensorboard,csv]", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == events + 1
    shown = neuro_inside("train", "logger=[csv,wandb]", "logger.wandb.project=apples", "--cfg", "job", cwd=tmp_path)
    assert "project: apples" in shown.stdout


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[csv,wandbb]", "logger=wandbb: no such option; did you mean wandb?"),
        ("[csv,csv]", "logger=[csv,csv]: one of them stands there twice"),
        ("[]", "no such option"),
    ],
)
def test_a_wrong_list_is_one_line(tmp_path: Path, value: str, said: str) -> None:
    assert said in one_line(neuro_inside("train", *TINY, f"logger={value}", cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_key_of_one_names_it(tmp_path: Path) -> None:
    line = one_line(neuro_inside("train", *TINY, "logger=[csv,wandb]", "logger.wandb.mode=onlin", cwd=tmp_path))
    assert line == "logger.mode=onlin: must be one of online, offline, disabled"
