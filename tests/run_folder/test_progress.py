"""The progress of a run reads well on a terminal and in a file."""

import io
import logging
import re
import sys
import types

import pytest
from rich.console import Console

from neuro_cli.run_folder import progress
from neuro_cli.run_folder.log import log_to
from neuro_cli.run_folder.progress import Progress


class Clock:
    """Time that a test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def play(
    clock: Clock, total: int, start: int, seconds: float, tested: dict[int, str], stop: int, limit: float | None = None
) -> list[str]:
    file = io.StringIO()
    with Progress(total, start, Console(file=file, width=20), limit=limit) as shown:
        for generation in range(start + 1, stop + 1):
            clock.now += seconds
            row = {"generation": generation, "fitness_mean": -0.5, "candidates_per_second": 1234.5}
            shown.update(row, tested.get(generation, ""))
    return file.getvalue().splitlines()


def test_plain_lines(clock: Clock) -> None:
    lines = play(clock, total=10, start=0, seconds=0.5, tested={3: "test accuracy 0.1250", 10: "test accuracy 0.7500"}, stop=10)
    assert lines == [
        "generation 1/10  fitness -0.5  1234 candidates/s  ETA 0:00:04",
        "generation 3/10  fitness -0.5  test accuracy 0.1250  1234 candidates/s  ETA 0:00:04",
        "generation 7/10  fitness -0.5  test accuracy 0.1250  1234 candidates/s  ETA 0:00:02",
        "generation 10/10  fitness -0.5  test accuracy 0.7500  1234 candidates/s",
    ]


def test_a_resumed_run_that_stops_early(clock: Clock) -> None:
    lines = play(clock, total=1000, start=500, seconds=0.001, tested={}, stop=600)
    assert [line.split()[1] for line in lines] == ["501/1000", "600/1000"]
    assert lines[1].endswith("ETA 0:00:00")


def test_a_time_limit_is_the_latest_end(clock: Clock) -> None:
    lines = play(clock, total=1000, start=0, seconds=60.0, tested={}, stop=3, limit=150.0)
    assert [line.split()[-1] for line in lines] == ["0:01:30", "0:00:30", "0:00:00"]


def test_a_newcomer_to_a_cluster_begins_at_any_iteration_and_its_peers_are_shown(clock: Clock) -> None:
    file = io.StringIO()
    with Progress(40, 0, Console(file=file)) as shown:
        for generation in (19, 20):
            clock.now += 3.0
            shown.update({"generation": generation, "fitness_mean": -1.0, "candidates_per_second": 10.0, "peers": 3})
    assert file.getvalue().splitlines()[1] == "generation 20/40 by 3 peers  fitness -1  10 candidates/s  ETA 0:01:00"


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (40, "2/30  fitness -2.061  ETA 0:00:04"),
        (30, "2/30  ETA 0:00:04"),
        (60, "2/30  test accuracy 0.2000  ETA 0:00:04"),
        (80, "2/30  fitness -2.061  test accuracy 0.2000  281.5/s  ETA 0:00:04"),
        (160, "generation 2/30  fitness -2.061  test accuracy 0.2000  281.5 candidates/s  ETA 0:00:04"),
        (12, "2/30"),
    ],
)
def test_it_fits_the_terminal_with_a_bar_and_the_time_that_is_left(clock: Clock, width: int, said: str) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, _environ={"TERM": "xterm"})
    row = {"fitness_mean": -2.0613, "candidates_per_second": 281.49}
    with Progress(30, 0, console) as shown:
        for generation in (1, 2):
            clock.now += 0.15
            shown.update({**row, "generation": generation}, "test accuracy 0.2000" if generation == 1 else "")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    last = plain.replace("\r", "\n").strip().splitlines()[-1].rstrip()
    bar, _, text = last.partition(" ")
    assert text == said
    assert len(last) <= width
    assert (10 if width > 40 else 6) <= len(bar) <= 40
    assert plain.count(said) == 1  # not once more at the end


def test_a_warning_stands_above_the_bar(clock: Clock, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    log_to(None, 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    with Progress(4, 0, console) as shown:
        shown.update({"generation": 1, "fitness_mean": -1.0, "candidates_per_second": 64.0})
        logging.getLogger("neuro_cli.test").warning("stopped after generation 1")
    assert "neuro: stopped after generation 1\n" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    assert capsys.readouterr().err == ""


def test_in_a_notebook_one_cell_output_is_drawn_anew(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPython alone: rich's bar needs ipywidgets there."""
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return Handle()

    ipython = types.ModuleType("IPython.display")
    ipython.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    file = io.StringIO()
    with Progress(4, 0, Console(file=file, force_jupyter=True)) as bar:
        for generation in range(1, 4):
            clock.now += 0.15
            bar.update({"generation": generation, "fitness_mean": -0.5, "candidates_per_second": 10.0}, "test accuracy 0.5")
    assert shown[0] == "░" * 16
    assert [line.split("  ")[0] for line in shown[1:]] == [  # drawn every 0.2 s, and at the end
        "████░░░░░░░░░░░░ generation 1/4", "████████████░░░░ generation 3/4", "████████████░░░░ generation 3/4"
    ]  # fmt: skip
    assert "test accuracy 0.5" in shown[-1]
    assert file.getvalue() == ""


def test_terminal_without_cursor(clock: Clock) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, _environ={"TERM": "dumb"})
    with Progress(1, 0, console) as shown:
        shown.update({"generation": 1, "fitness_mean": 1.0, "candidates_per_second": 2.0})
    assert file.getvalue() == "generation 1/1  fitness 1  2 candidates/s\n"
