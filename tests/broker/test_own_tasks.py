"""Tasks and models of one's own: `BaseTask`, `BrokerClient`, the examples of docs/how_to/cluster_tasks.md."""

import io
import re
import runpy
import sys
from array import array
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from made_tasks import Careless, Square, Sum
from support.waiting import until
from trouble import TROUBLE

import neuro_cli as neuro
from neuro_cli.broker.local_cluster import cluster_config
from neuro_cli.broker.settings import settings_of
from neuro_cli.broker.worker.attempt import Ending
from neuro_cli.broker.worker.child import run
from neuro_cli.broker.worker.kinds import KINDS, place_of, process_task
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.pool.base import payload_of

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
PLACES = {task.kind: place_of(task) for task in (Square, Sum, Careless)}


def printed(script: str, *arguments: str) -> str:
    """What an example prints, run as a script in this process."""
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(text):
        patch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return text.getvalue()


def test_the_monte_carlo_example_finds_pi_on_a_cluster_of_its_own():
    said = printed("monte_carlo.py", "0.006")
    estimate, error = float(said.split()[2].strip(",")), float(said.split()[5].strip(","))
    assert error <= 0.006
    assert abs(estimate - 3.14159) < 4 * error


@pytest.mark.slow
def test_the_snippets_of_the_page_are_a_program(tmp_path):
    task, model = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "how_to" / "cluster_tasks.md").read_text(), re.MULTILINE | re.DOTALL
    )
    model = "".join(f"    {line}\n" for line in model.splitlines())
    (tmp_path / "squares.py").write_text(f'{task}\n\nif __name__ == "__main__":\n{model}')
    rows = printed(str(tmp_path / "squares.py")).splitlines()
    assert sorted(rows) == ["Square(number=3.0) 9.0 ", "Square(number=4.0) 16.0 "]


@pytest.mark.slow
def test_the_scan_example_trains_the_best_for_longer():
    rows = [line for line in printed("scan.py", "4").splitlines() if "Training(" in line]
    assert sum("generations=4)" in row for row in rows) == 8
    long = [float(row.split()[0]) for row in rows if "generations=16)" in row]
    assert 1 <= len(long) <= 8
    assert max(long) > max(float(row.split()[0]) for row in rows if "generations=4)" in row)


def test_a_client_gets_results_of_its_tasks_in_any_form_and_their_errors():
    tasks = [Square(3), Square("x"), Sum(array("d", [0.5, 1.25, -3.0])), Careless(1), *map(Square, range(20))]
    with neuro.BrokerClient.embedded([Square, Sum, Careless], workers=1) as client:
        client.submit(*tasks)
        found = []
        for done in client.results():
            found.append(done)
            if len(found) == 5:  # more, while results come
                client.submit(Sum(array("d")))
        assert list(client.results()) == []
        until(lambda: client.facts()["workers"] == 1)
    by_task = {id(done.task): done for done in found}
    assert len(found) == len(by_task) == len(tasks) + 1 == client.submitted
    square, wrong, total, careless = (by_task[id(task)] for task in tasks[:4])
    assert (square.value["square"], square.error, square.worker) == (9, "", "worker-1")
    assert total.value == -1.25
    assert wrong.value is None
    assert wrong.error.startswith("Traceback")
    assert "TypeError: unsupported operand type" in wrong.error
    assert careless.error == (
        "task Careless: its result cannot be written as JSON (Object of type set is not JSON serializable); "
        "override the conversions"
    )
    assert [by_task[id(task)].value["square"] for task in tasks[4:]] == [number**2 for number in range(20)]


def test_a_worker_runs_the_class_that_its_owner_named_and_no_other():
    """Whatever a payload says: its bytes are arguments, the kind chooses among the owner's places."""
    assert process_task("Square", Square(4).to_bytes(), PLACES).startswith(b'{"square": 16')
    for kind in ("Exit", "made_tasks:Exit", f"{Path(sys.modules['made_tasks'].__file__)}:Exit", "os:system"):  # type: ignore[arg-type]
        with pytest.raises(UserError, match="is unknown to this worker; it knows Careless, Square, sum of doubles"):
            process_task(kind, b"{}", PLACES)
    for wrong in (b'{"_target_": "os.system"}', b'{"number": 1, "run": 2}', b"{}", b"[1]", b"\x80\x04N.", b"[" * 10**5):
        attempt = run("Square", wrong, PLACES, 1000)
        assert attempt.ending == Ending.RAISED
        assert attempt.error.startswith(("task Square: its payload does not fit: ", "task Square: its payload must be a JSON ob"))
    # neuro's own kinds know no such classes
    assert run("Square", b'{"number": 1}', KINDS | TROUBLE, 1000).ending == Ending.UNKNOWN_KIND


def test_bytes_go_both_ways_as_they_are():
    assert Sum.result_from_bytes(process_task(Sum.kind, Sum(array("d", [1e300, 1.0])).to_bytes(), PLACES)) == 1e300
    attempt = run(Sum.kind, bytes(3), PLACES, 1000)
    assert attempt.ending == Ending.RAISED
    assert run(Sum.kind, bytes(8), PLACES, 7).error == "the result has 8 bytes, 7 are allowed"


def test_a_task_that_cannot_be_sent_is_refused_where_it_is_made():
    with pytest.raises(UserError, match=r"^task Square: its fields cannot be written as JSON \(.*\); override the conversions$"):
        Square({1}).to_bytes()

    class NoData(neuro.BaseTask):
        def run(self) -> None:
            return None

    with pytest.raises(UserError, match=r"^task NoData: it must be a dataclass, or have to_bytes and from_bytes of its own$"):
        NoData().to_bytes()
    with pytest.raises(UserError, match=r"^task NoData: a worker's process must find its class: write it at the top of a file$"):
        place_of(NoData)
    with pytest.raises(UserError, match=r"^task Square: its result is no JSON: is the worker's class another one\?$"):
        Square.result_from_bytes(b"\xff")


def test_a_class_has_its_own_name_as_kind_unless_it_says_another():
    @dataclass
    class Named(Square):
        kind = "cube"

    assert (neuro.BaseTask.kind, Square.kind, Careless.kind, Named.kind) == ("", "Square", "Careless", "cube")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("made_tasks", "must be names with places, package.module:name or folder/file.py:name"),
        ("nowhere/tasks.py:Square", "there is no such file"),
    ],
)
def test_a_place_that_is_none_is_refused_at_the_workers_start(place, said):
    config = cluster_config()
    config["worker"]["more_kinds"] = {"square": place}
    with pytest.raises(ConfigError, match=said):
        settings_of("worker", config)


def test_a_place_with_nothing_there_is_told_in_one_line():
    for place in ("made_tasks:Nobody", "no_such_module:Square", f"{Path(__file__).parent}/waits.py:Square"):
        attempt = run("square", b"{}", {"square": place}, 1000)
        assert attempt.error.startswith(f"the task's type 'square': there is no {place} here (")


def test_a_result_that_is_no_object_is_an_error_of_its_task():
    assert payload_of(b'{"a": 1}') == ({"a": 1}, "")
    assert payload_of(b"\xff\xfe") == ({}, "the task's result is no JSON")
    assert payload_of(b"[1]") == ({}, "the task's result must be a JSON object, not list")
