"""A command under the stopwatch: ended by its goal, by its budget, by itself, by an error."""

import sys
import time

import pytest

from neuro_cli.bench.stopwatch import timed
from neuro_cli.core.errors import UserError
from neuro_cli.core.metric import RETURN
from neuro_cli.logger.stored_rows import MetricsTail

pytestmark = pytest.mark.waits

WRITER = """
import sys, time
from pathlib import Path
folder, returns, then = Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
folder.mkdir()
with (folder / "metrics.csv").open("w") as file:
    print("generation,environment_steps,mean_return", file=file, flush=True)
    for number, value in enumerate(returns):
        print(f"{number},10,{value}", file=file, flush=True)
if then == "fail":
    sys.exit("Traceback\\nno such thing")
time.sleep(60 if then == "go on" else 0)
"""


def command(folder, returns: str, then: str) -> list[str]:
    return [sys.executable, "-c", WRITER, str(folder), returns, then]


def test_the_first_look_at_the_goal_ends_a_command(tmp_path):
    seen = timed(command(tmp_path / "run", "1,,7,5,9", "end"), tmp_path / "run", RETURN, 6, 60)
    assert seen.ended == "goal"
    assert [(row.value, row.steps) for row in seen.evaluations] == [(1, 10), (7, 30)]
    assert 0 < seen.evaluations[-1].minutes <= seen.minutes < 1


def test_a_budget_ends_a_command_that_goes_on(tmp_path):
    start = time.monotonic()
    seen = timed(command(tmp_path / "run", "1,2", "go on"), tmp_path / "run", RETURN, 6, 6.0)
    assert (seen.ended, len(seen.evaluations), seen.steps) == ("budget", 2, 20)
    assert 6.0 <= 60 * seen.minutes <= time.monotonic() - start


def test_a_command_that_fails_says_its_last_words(tmp_path):
    with pytest.raises(UserError, match=r"exit code 1: no such thing$"):
        timed(command(tmp_path / "run", "1", "fail"), tmp_path / "run", RETURN, 6, 60)


def test_a_torn_row_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.csv"
    rows = MetricsTail(path)
    assert list(rows.new()) == []
    path.write_text("a,b\n1,")
    assert list(rows.new()) == []
    path.write_text("a,b\n1,2\n3,4\n")
    assert list(rows.new()) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert list(rows.new()) == []
