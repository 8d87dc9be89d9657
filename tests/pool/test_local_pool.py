"""Tasks in child processes: every task has one result, whatever becomes of the children."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.worlds import alive, descendants

from neuro_cli.core.errors import ConfigError, headline
from neuro_cli.pool.base import WorkResult, WorkUnit
from neuro_cli.pool.local import LocalPool

OWNER = """
import sys
from neuro_cli.pool.local import LocalPool
from neuro_cli.pool.base import WorkUnit
pool = LocalPool(2, None)
pool.submit([WorkUnit(str(n), "noop", {"seconds": 600}) for n in range(2)])
print("begun", flush=True)
pool.results(600)
"""


@pytest.fixture
def pool() -> Iterator[LocalPool]:
    made = LocalPool(2, None)
    yield made
    made.close()


def task(name: str, seconds: float = 0.0) -> WorkUnit:
    return WorkUnit(name, "noop", {"seconds": seconds, "echo": name})


def collected(pool: LocalPool, count: int) -> dict[str, WorkResult]:
    """``count`` results by their task; none comes twice."""
    found: dict[str, WorkResult] = {}
    deadline = time.monotonic() + 240
    while len(found) < count and time.monotonic() < deadline:
        for result in pool.results(1.0):
            assert result.id not in found
            found[result.id] = result
    assert len(found) == count
    assert pool.results(0.0) == []
    return found


def busy_child(pool: LocalPool, name: str) -> int:
    """The process that does task ``name``."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for worker in pool._all:
            if worker.process.task is not None and worker.process.task.id == name and worker.process.pid is not None:
                return worker.process.pid
        time.sleep(0.01)
    raise AssertionError(f"no process does {name}")


def test_every_task_has_one_result_with_its_own_payload(pool):
    pool.submit([task(str(number)) for number in range(40)])
    pool.submit([task("3"), task("40")])  # the first of them is there already
    found = collected(pool, 41)
    assert all(result.payload["echo"] == name and not result.error for name, result in found.items())
    assert {result.worker for result in found.values()} == {"local-1", "local-2"}
    assert pool.facts() == {"workers": 2, "waiting": 0, "running": 0, "tasks": {}}


def test_a_killed_child_costs_its_task_one_try_and_no_other_task_anything(pool):
    pool.submit([task("long", 0.7), *(task(str(number), 0.05) for number in range(20))])
    os.kill(busy_child(pool, "long"), signal.SIGKILL)
    found = collected(pool, 21)
    assert not any(result.error for result in found.values())
    assert found["long"].worker == "local-3"


def test_a_task_that_kills_every_child_has_an_error(pool):
    pool.submit([task("poison", 60), task("other")])
    for _ in range(2):
        os.kill(busy_child(pool, "poison"), signal.SIGSEGV)
        arrived = pool.results(5.0)
        arrived += pool.results(1.0)
    found = {result.id: result for result in arrived}
    assert headline(found["poison"].error).startswith("the task's process ended with signal SIGSEGV")
    pool.submit([task("after")])
    assert collected(pool, 1)["after"].error == ""


def test_a_task_that_outgrows_the_memory_has_an_error_and_no_second_try(caplog):
    pool = LocalPool(1, 0.001)  # Python alone takes more
    try:
        pool.submit([task("large", 600)])
        found = collected(pool, 1)
    finally:
        pool.close()
    assert found["large"].error == "the task needed more than pool.memory=0.001 GB"
    assert "is tried again" not in caplog.text


def test_a_fault_of_the_pool_itself_reaches_its_caller(pool, monkeypatch):
    """A task without a result would let it wait for ever."""

    async def fails(process: object, task: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("neuro_cli.broker.worker.process.TaskProcess.run", fails)
    pool.submit([task("one")])
    with pytest.raises(RuntimeError, match="no such luck"):
        pool.results(30.0)


def test_one_process_serves_tasks_that_come_one_by_one(pool):
    for number in range(3):
        pool.submit([task(str(number))])
        assert collected(pool, 1)[str(number)].worker == "local-1"


def test_errors_are_the_text_of_what_was_raised(pool):
    pool.submit([WorkUnit("unknown", "no_such_kind", {}), WorkUnit("raises", "noop", {"seconds": "soon"})])
    found = collected(pool, 2)
    assert found["unknown"].error.startswith("the task's type 'no_such_kind' is unknown to this worker; it knows candidate")
    assert found["raises"].error.startswith("Traceback")
    assert found["raises"].error.rstrip().endswith("ValueError: could not convert string to float: 'soon'")


def test_children_end_with_a_killed_owner():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"begun\n"
    deadline = time.monotonic() + 60
    while len(children := descendants(owner.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(children) == 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 240
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(child) for child in children)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [((0, None), "pool.workers=0: must be an integer from 1 to 1024"), ((1, 0), "pool.memory=0: must be a number > 0")],
)
def test_bad_settings_are_one_line(arguments, line):
    with pytest.raises(ConfigError, match=f"^{line}$"):
        LocalPool(*arguments)
