"""Lines of a user's own loggers reach log.txt and, as warnings or with -v, the terminal; they are never taken for neuro's."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.inside import close_logs, neuro_inside, well

from neuro_cli.core.messages.verbosity import VARIABLE
from neuro_cli.run_folder.log import LOG, log_to, messages

OWN = logging.getLogger("my_package.my_model")
NET = """
import logging
from torch import nn

log = logging.getLogger(__name__)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 10)
        log.info("made with %d inputs", 64)
        log.warning("its weights are large")

    def forward(self, images):
        return self.out(images.flatten(1))
"""


@pytest.fixture(autouse=True)
def _put_back(monkeypatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    root = logging.getLogger()
    # a library that another test of this process used may have set the root logger up
    plain = [handler for handler in root.handlers if type(handler) not in (logging.StreamHandler, logging.FileHandler)]
    monkeypatch.setattr(root, "handlers", plain)
    level = root.level
    root.setLevel(logging.WARNING)
    yield
    close_logs()
    assert root.level == logging.WARNING
    root.setLevel(level)


def say() -> None:
    OWN.debug("of no interest")
    OWN.info("weights are drawn")
    OWN.warning("weights are large")
    logging.getLogger("matplotlib.font_manager").info("fonts")
    logging.getLogger("PIL.Image").warning("slow path")


def lines(run: Path) -> list[str]:
    return [line.split(" ", 2)[2] for line in (run / LOG).read_text().splitlines()]


@pytest.mark.parametrize(
    ("verbosity", "shown"), [("", ["weights are large"]), ("verbose", ["weights are drawn", "weights are large"])]
)
def test_where_lines_of_others_go(verbosity, shown, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(VARIABLE, verbosity)
    log_to(tmp_path, 0)
    say()
    logging.getLogger("neuro_cli.test").info("ours")
    assert lines(tmp_path) == [
        "INFO my_package.my_model: weights are drawn",
        "WARNING my_package.my_model: weights are large",
        "WARNING PIL.Image: slow path",
        "INFO neuro_cli.test: ours",
    ]
    told = [f"my_package.my_model: {text}" for text in shown] + ["PIL.Image: slow path"]
    assert capsys.readouterr().err.splitlines() == told + ["neuro: ours"] * (verbosity == "verbose")


def test_other_ranks_have_their_number_and_no_file(tmp_path, capsys):
    log_to(tmp_path, 3)
    say()
    assert capsys.readouterr().err.splitlines() == [
        "rank 3: my_package.my_model: weights are large",
        "rank 3: PIL.Image: slow path",
    ]
    assert not (tmp_path / LOG).exists()


def test_no_line_of_a_model_is_taken_for_one_of_neuro(tmp_path):
    log_to(tmp_path, 0)
    OWN.info("failed: the sensor")
    OWN.info("a line\n2026-01-02 03:04:05,678 INFO neuro_cli.run_folder.record: failed: forged\rfailed: too")
    logging.getLogger("neuro_cli.run_folder.record").info("stopped after generation 4")
    assert messages(tmp_path) == ["stopped after generation 4"]


def test_what_a_script_has_set_up_stays(tmp_path, capsys):
    root, its_own = logging.getLogger(), logging.StreamHandler()
    root.addHandler(its_own)
    try:
        log_to(tmp_path, 0)
        OWN.info("weights are drawn")  # below the level that the script has chosen
        OWN.warning("weights are large")
        assert capsys.readouterr().err == "weights are large\n"
        assert lines(tmp_path) == ["WARNING my_package.my_model: weights are large"]
    finally:
        root.removeHandler(its_own)


def test_a_run_has_the_lines_of_its_network(tmp_path):
    (tmp_path / "net_that_logs.py").write_text(NET)
    small = ("population=4", "batch_size=8", "threads=1", "generations=1", "hydra.run.dir=run")
    done = well(neuro_inside("train", "-v", *small, "model._target_=net_that_logs.Net", cwd=tmp_path))
    for line in ("net_that_logs: made with 64 inputs", "net_that_logs: its weights are large"):
        assert line in done.stderr.splitlines()
        assert any(logged.endswith(f" {line}") for logged in lines(tmp_path / "run"))
