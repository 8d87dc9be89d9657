"""A broker's file after a disk, or a hand, has changed it: damage that SQLite finds is named."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from test_queues import result, task

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.store import NotYoursError, Outcomes, Store, StoreError
from neuro_cli.core.errors import UserError

TASKS = 60


@pytest.fixture
def folder(tmp_path) -> Path:
    """Of a broker that has TASKS tasks, ten of them with results, all in the database proper."""
    store = Store(tmp_path / "broker")
    store.add([messages.Task(run="r", id=f"id-{n}", kind="noop", payload=f"payload {n} ".encode() * 20) for n in range(TASKS)])
    done = [messages.Result(run="r", id=f"id-{n}", outcome=messages.DONE, payload=f"result {n}".encode()) for n in range(10)]
    letter = messages.DeadLetter(task=task(1), error="dead and buried")
    assert len(store.settle(Outcomes(results=done, letters=[letter]))) == 10
    store.close()
    return tmp_path / "broker"


def changed(folder: Path, statement: str, *values) -> None:
    db = sqlite3.connect(folder / "tasks.sqlite")
    assert db.execute(statement, values).rowcount == 1
    db.commit()
    db.close()


def test_a_message_that_cannot_be_read_breaks_the_database_by_its_name(folder):
    changed(folder, "UPDATE tasks SET task = x'ff' WHERE row = 21")
    store = Store(folder)
    with pytest.raises(StoreError, match=r"tasks\.sqlite: damaged, or not a broker's database"):
        store.load([20, 21])
    assert store.trouble is not None
    assert store.trouble.damage
    store.close()


def test_a_kind_that_is_no_text_stands_in_no_other_task_s_way(folder):
    changed(folder, "UPDATE tasks SET kind = CAST(x'ff6f' AS TEXT) WHERE row = 42")
    store = Store(folder)
    assert [row.kind for row in store.unfinished() if row.row == 42] == ["\N{REPLACEMENT CHARACTER}o"]
    assert len(store.unfinished()) == TASKS - 10
    store.close()


def test_a_database_of_the_first_format_is_refused_in_one_line(tmp_path):
    db = sqlite3.connect(tmp_path / "tasks.sqlite")
    db.execute("CREATE TABLE tasks (row INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL)")
    db.commit()
    db.close()
    before = (tmp_path / "tasks.sqlite").read_bytes()
    with pytest.raises(
        UserError, match=r"tasks\.sqlite: a broker's database of format 1, this neuro has format 3: let the neuro"
    ) as refused:
        Store(tmp_path)
    assert "\n" not in str(refused.value)
    assert (tmp_path / "tasks.sqlite").read_bytes()[100:] == before[100:]  # only the mark of its journal differs


@pytest.mark.parametrize("text", [b"not a database at all, but long enough to be one" * 100, bytes(4096)])
def test_a_file_that_is_no_database_is_refused_by_its_name(tmp_path, text):
    (tmp_path / "tasks.sqlite").write_bytes(text)
    with pytest.raises(UserError, match=r"tasks\.sqlite: damaged, or not a broker's database"):
        Store(tmp_path)


def test_a_damaged_schema_is_refused_by_the_files_name(folder):
    """SQLite quotes it in its message, which then is no text."""
    file = folder / "tasks.sqlite"
    text = file.read_bytes()
    place = text.index(b"CREATE TABLE dead")
    file.write_bytes(text[: place + 4] + b"\xed\xff" + text[place + 6 :])
    with pytest.raises(UserError, match=r"tasks\.sqlite: damaged, or not a broker's database"):
        Store(folder)


def test_a_log_whose_end_is_damaged_leaves_a_database_that_takes_the_same_tasks_again(tmp_path):
    store = Store(tmp_path / "broker")
    for number in range(40):
        store.add([task(number)])
    copy = tmp_path / "copy"  # as the files are when the process is killed
    shutil.copytree(tmp_path / "broker", copy)
    store.close()
    text = bytearray((copy / "tasks.sqlite-wal").read_bytes())
    text[len(text) // 2] ^= 1
    (copy / "tasks.sqlite-wal").write_bytes(text)
    again = Store(copy)
    lost = 40 - len(again.unfinished())
    assert 0 < lost < 40
    assert len(again.add([task(number) for number in range(40)])) == lost
    again.close()


@pytest.mark.parametrize("durable", ["process", "machine"])
def test_a_database_is_opened_again_with_what_it_had(tmp_path, durable):
    for _ in range(3):
        store = Store(tmp_path, durable)
        store.add([task(1)])
        store.seen("r", b"")
        assert len(store.unfinished()) == 1
        store.close()


def test_a_run_is_its_submitters(tmp_path):
    store = Store(tmp_path)
    store.add([task(1)], b"mine")
    with pytest.raises(NotYoursError, match="run r: it belongs to a submitter with another token"):
        store.add([task(2)], b"yours")
    with pytest.raises(NotYoursError):
        store.seen("r", b"yours")
    store.drop("r")
    store.add([task(1)], b"yours")
    store.close()
    assert b"yours" not in (tmp_path / "tasks.sqlite").read_bytes()


def test_results_are_stored_once(tmp_path):
    store = Store(tmp_path)
    store.add([task(1)])
    twice = Outcomes(results=[result(task(1)), result(task(1))])
    assert len(store.settle(twice)) == 1
    assert store.settle(twice) == []
    store.close()


def test_a_change_after_the_end_is_an_error_of_the_store(tmp_path):
    """A call under way may outlive its broker, and answers for errors of the store alone."""
    store = Store(tmp_path)
    store.close()
    with pytest.raises(StoreError, match="closed database"):
        store.note("name", "value")
