"""A broker's file after a disk, or a hand, has changed it: what is damaged is named, and nothing is taken for what it is not."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from test_queues import result, task

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import NotYoursError, Outcomes, Store
from neuro_cli.broker.settings import BrokerSettings
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


def whole(store: Store) -> tuple[list, list]:
    """All that a store has to say of the run: tasks and results."""
    tasks = [owned.task.SerializeToString() for owned in store.load([row for row, _ in store.unfinished()])]
    return tasks, [found.SerializeToString() for _, found in store.results("r", 0, 1000)]


def changed(folder: Path, statement: str, *values) -> None:
    db = sqlite3.connect(folder / "tasks.sqlite")
    assert db.execute(statement, values).rowcount == 1
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE tasks SET task = replace(task, 'payload 20', 'payload 21') WHERE row = 21", "table tasks, row 21"),
        ("UPDATE tasks SET kind = 'n00p' WHERE row = 30", "table tasks, row 30"),
        ("UPDATE tasks SET attempts = 7 WHERE row = 31", "table tasks, row 31"),
        ("UPDATE tasks SET id = 'id-99' WHERE row = 32", "table tasks, row 32"),
        ("UPDATE tasks SET result = replace(result, 'result 4', 'result 5') WHERE row = 5", "table tasks, row 5"),
        ("UPDATE tasks SET result = NULL, finished = NULL WHERE row = 5", "table tasks, row 5"),
        ("UPDATE tasks SET sum = sum + 1 WHERE row = 40", "table tasks, row 40"),
        ("UPDATE tasks SET row = 1000 WHERE row = 41", "table tasks, row 1000"),
        ("UPDATE tasks SET kind = CAST(x'ff6f' AS TEXT) WHERE row = 42", "table tasks, row 42"),
        ("UPDATE dead SET letter = replace(letter, 'dead', 'deaf')", "table dead, number 1"),
        ("UPDATE runs SET token = x'00'", "table runs, run r"),
        ("UPDATE facts SET value = '0' WHERE name = 'serial'", "table facts, name serial"),
        ("UPDATE facts SET name = CAST(x'ff' AS TEXT) WHERE name = 'serial'", "table facts, name \\xff"),
    ],
)
def test_a_changed_row_is_named_and_set_apart(folder, caplog, statement, place):
    before = whole(opened := Store(folder))
    opened.close()
    changed(folder, statement)
    store = Store(folder)
    (line,) = [line for line in store.damage if "table" in line]
    assert line.startswith(f"{folder / 'tasks.sqlite'}, {place}: its checksum does not fit")
    assert line in caplog.text
    after = whole(store)
    assert set(after[0]) <= set(before[0])
    assert set(after[1]) <= set(before[1])
    assert len(before[0]) + len(before[1]) - len(after[0]) - len(after[1]) == (1 if "table tasks" in place else 0)
    store.close()
    db = sqlite3.connect(folder / "tasks.sqlite")
    db.text_factory = bytes
    ((kept,),) = db.execute("SELECT content FROM damaged").fetchall()
    db.close()
    assert kept
    again = Store(folder)  # told once, and nothing is lost by it
    assert again.damage == []
    again.close()


def test_a_model_that_submits_again_has_a_damaged_task_done(folder):
    changed(folder, "UPDATE tasks SET task = x'00' WHERE row = 21")
    store = Store(folder)
    assert len(store.add([messages.Task(run="r", id=f"id-{n}", kind="noop", payload=b"{}") for n in range(TASKS)])) == 1
    store.close()


def test_a_row_that_is_damaged_while_the_broker_runs_is_not_given_out(folder):
    store = Store(folder)
    queues = Queues(store, BrokerSettings("127.0.0.1:0", "127.0.0.1:1", folder), lambda runs: None)
    changed(folder, "UPDATE tasks SET task = replace(task, 'payload 20', 'payload 21') WHERE row = 21")
    assert store.load([20, 21]) == store.load([20])
    assert store.damaged == 1
    assert len(queues._unheld()) == TASKS - 10 - 1
    store.close()


def test_a_database_of_the_first_format_is_refused_in_one_line(tmp_path):
    db = sqlite3.connect(tmp_path / "tasks.sqlite")
    db.execute("CREATE TABLE tasks (row INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL)")
    db.commit()
    db.close()
    before = (tmp_path / "tasks.sqlite").read_bytes()
    with pytest.raises(
        UserError, match=r"tasks\.sqlite: a broker's database of format 1, this neuro has format 2: let the neuro"
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


def test_no_flip_in_the_database_changes_a_task_or_a_result_unsaid(folder, tmp_path, caplog):
    """Forty single flips: each is refused, or named, or has changed nothing."""
    opened = Store(folder)
    before = whole(opened)
    opened.close()
    chance = random.Random(1)
    outcomes, said = {"named": 0, "nothing": 0}, []
    for trial in range(40):
        copy = tmp_path / f"copy {trial}"
        shutil.copytree(folder, copy)
        flip(copy / "tasks.sqlite", chance)
        try:
            store = Store(copy)
        except UserError as error:
            said.append(str(error))
            continue
        found = whole(store)
        outcomes["named" if store.damage else "nothing"] += 1
        if store.damage:
            assert set(found[0]) <= set(before[0])
            assert set(found[1]) <= set(before[1])
        else:
            assert found == before
        store.close()
    print(outcomes, len(said), "refused")
    assert said
    assert all("tasks.sqlite: " in line for line in said)
    assert outcomes["named"]


@pytest.mark.parametrize("seed", range(6))
def test_what_a_flip_in_the_log_takes_away_is_known_at_the_start(tmp_path, seed):
    """Accepted tasks are in the write-ahead log, of which SQLite drops all that follows a damaged place."""
    store = Store(tmp_path / "broker")
    for number in range(40):
        store.add([task(number)])
    copy = tmp_path / "copy"  # as the files are when the process is killed
    shutil.copytree(tmp_path / "broker", copy)
    store.close()
    flip(copy / "tasks.sqlite-wal", random.Random(seed))
    again = Store(copy)
    lost = 40 - len(again.unfinished())
    (line,) = again.damage
    assert f"its last {line.split(' changes')[0].split()[-1]} changes" in line
    assert int(line.split(" changes")[0].split()[-1]) >= lost > 0
    again.close()
    third = Store(copy)
    assert third.damage == []
    third.close()


def test_a_log_that_is_gone_is_known_at_the_start(tmp_path):
    store = Store(tmp_path / "broker")
    store.add([task(1)])
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "broker", copy)
    store.close()
    (copy / "tasks.sqlite-wal").unlink()
    again = Store(copy)
    assert "are lost: its write-ahead log is damaged or gone" in again.damage[0]
    again.close()


@pytest.mark.parametrize(("text", "said"), [(None, "it is not there"), (b"neuro-hw" + bytes(12), "it is damaged")])
def test_a_high_water_mark_that_cannot_be_read_is_told(folder, text, said):
    mark = folder / "tasks.accepted"
    mark.unlink() if text is None else mark.write_bytes(text)
    store = Store(folder)
    assert store.damage == [f"{mark}: {said}; whether the database has all accepted tasks is not known"]
    store.close()


@pytest.mark.parametrize("durable", ["process", "machine"])
def test_a_sound_database_has_nothing_to_tell(tmp_path, durable):
    for _ in range(3):
        store = Store(tmp_path, durable)
        store.add([task(1)])
        store.seen("r", b"")
        store.close()
        assert store.damage == []


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


def flip(file: Path, chance: random.Random) -> None:
    """Another bit somewhere."""
    text = bytearray(file.read_bytes())
    text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
    file.write_bytes(text)
    assert os.path.getsize(file) == len(text)


def test_results_are_stored_once(tmp_path):
    store = Store(tmp_path)
    store.add([task(1)])
    twice = Outcomes(results=[result(task(1)), result(task(1))])
    assert len(store.settle(twice)) == 1
    assert store.settle(twice) == []
    store.close()
