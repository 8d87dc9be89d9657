"""A list of loggers is one config with each under its name; metrics.csv is written once, whatever is in the list."""

from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of

import neuro_cli
from neuro_cli.core.errors import ConfigError
from neuro_cli.logger.base import Logger
from neuro_cli.logger.csv import CsvLogger
from neuro_cli.logger.several import Guarded, Several, with_csv

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


def test_that_of_metrics_csv_is_there_once() -> None:
    other = Heard()
    for chosen, others in ((CsvLogger(), []), (Several(csv=CsvLogger(), other=other), [other]), (Several(other=other), [other])):
        first, *rest = with_csv(chosen).loggers
        assert type(first) is CsvLogger
        assert [each.logger for each in rest if isinstance(each, Guarded)] == others
    with pytest.raises(ConfigError, match=r"logger\.other=int: must be a logger"):
        Several(other=3)  # type: ignore[arg-type]


class Failing(Heard):
    """Fails at the calls that are named, after it has noted them."""

    def __init__(self, *fails: str) -> None:
        super().__init__()
        self.fails = fails

    def start(self, run, config, resumed_at):
        super().start(run, config, resumed_at)
        self._fail("start")

    def log(self, row):
        super().log(row)
        self._fail("log")

    def finish(self, summary):
        super().finish(summary)
        self._fail("finish")

    def _fail(self, what: str) -> None:
        if what in self.fails:
            raise RuntimeError("the\nserver is gone")


@pytest.mark.parametrize(("fails", "rows"), [(("log",), 1), (("finish",), 2), (("log", "finish"), 1)])
def test_a_tracker_that_fails_ends_no_run_and_no_other_tracker(fails, rows, tmp_path, caplog, monkeypatch) -> None:
    """Neither an error of one tracker nor one of the plot keeps others from ending."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURO_CURVES", "1")
    monkeypatch.setattr("neuro_cli.run_folder.plot.plot_run", lambda *_: 1 / 0)
    broken, other = Failing(*fails), Heard()
    setting = {"population": 4, "generations": 2, "batch_size": 8, "threads": 1}
    result = neuro_cli.train(**setting, folder="run", logger=Several(broken=broken, other=other))
    assert result.summary["generations"] == 2
    assert [len(each.calls) for each in (broken, other)] == [rows + 2, 4]
    assert other.calls[-1]["generations"] == broken.calls[-1]["generations"] == 2
    said = [line for line in (tmp_path / "run" / "log.txt").read_text().splitlines() if " WARNING " in line]
    assert [line.partition(": ")[2] for line in said if "Failing" in line] == [
        f"Failing failed to {fails[0]} (RuntimeError: the server is gone): nothing more is sent there, the run continues"
    ]
    assert [line.partition(": ")[2] for line in said if "curves.png" in line] == [
        "curves.png: left out (ZeroDivisionError: division by zero); the rest is complete"
    ]


def test_a_tracker_that_cannot_start_ends_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="server is gone"):
        neuro_cli.train(population=4, generations=1, batch_size=8, threads=1, folder="run", logger=Failing("start"))


def test_keys_of_a_list_are_under_the_names(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    well(neuro_inside("train", *TINY, "logger=[csv,tensorboard]", cwd=tmp_path))
    assert [row["generation"] for row in rows_of(tmp_path / "run" / "metrics.csv")] == ["1", "2"]
    events = len(list((tmp_path / "run" / "tensorboard").iterdir()))
    assert neuro_inside("resume", "run", "generations=3", "logger=[tensorboard,csv]", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == events + 1
    shown = neuro_inside("train", "logger=[csv,wandb]", "logger.wandb.project=apples", "--cfg", "job", cwd=tmp_path)
    assert "project: apples" in shown.stdout


def test_a_wrong_key_of_one_names_it(tmp_path: Path) -> None:
    line = one_line(neuro_inside("train", *TINY, "logger=[csv,wandb]", "logger.wandb.mode=onlin", cwd=tmp_path))
    assert line == "logger.mode=onlin: must be one of online, offline, disabled"
