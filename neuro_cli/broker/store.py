"""A broker's owned tasks and their results, in an SQLite database that outlives the process.

A task is one row until its result was acknowledged. With write-ahead logging every transaction that was committed is
there after the process was killed; `durable=machine` also forces it to the disk before the submitter is answered.
"""

import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.core.errors import UserError

TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    task BLOB,                           -- message Task; NULL once there is a result
    attempts INTEGER NOT NULL DEFAULT 0, -- that failed
    losses INTEGER NOT NULL DEFAULT 0,   -- workers that vanished with it
    finished INTEGER,                    -- place in the order of results
    result BLOB,                         -- message Result
    UNIQUE (run, id)
);
CREATE INDEX IF NOT EXISTS results ON tasks (run, finished) WHERE finished IS NOT NULL;
CREATE TABLE IF NOT EXISTS dead (number INTEGER PRIMARY KEY AUTOINCREMENT, letter BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID;
"""
DEAD_KEPT = 10_000  # dead letters; the oldest make room
VARIABLES = 500  # of one SQL statement
CHECKPOINT_SECONDS = 1.0
CHECKPOINT_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Owned:
    """A task of the store."""

    row: int
    task: messages.Task
    attempts: int
    losses: int


class Store:
    """The database in ``folder``. Of one process and one thread, but for the copying of its log into it."""

    def __init__(self, folder: Path, durable: str = "process") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "tasks.sqlite"
        try:
            self._db = sqlite3.connect(self._path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable == 'machine' else 'NORMAL'}")
            # a commit must not wait until the log is copied: _copy_log does that beside it
            self._db.execute("PRAGMA wal_autocheckpoint=0")
            self._db.execute("PRAGMA journal_size_limit=67108864")
            self._db.executescript(TABLES)
        except sqlite3.Error as error:
            raise UserError(f"{self._path}: not a broker's database ({error})") from error
        self._finished = self._one("SELECT COALESCE(MAX(finished), 0) FROM tasks")
        self._closing = threading.Event()
        self._copier = threading.Thread(target=self._copy_log, name="wal", daemon=True)
        self._copier.start()

    def close(self) -> None:
        self._closing.set()
        self._copier.join()
        self._db.close()

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def add(self, tasks: Sequence[messages.Task]) -> list[tuple[int, str]]:
        """Take tasks. Returns (row, kind) of those that were not there."""
        new = []
        with _Transaction(self._db):
            for run in {task.run for task in tasks}:
                self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", (run, time.time()))
            for task in tasks:
                done = self._db.execute(
                    "INSERT OR IGNORE INTO tasks (run, id, kind, task) VALUES (?, ?, ?, ?)",
                    (task.run, task.id, task.kind, task.SerializeToString()),
                )
                if done.rowcount:
                    new.append((int(done.lastrowid or 0), task.kind))
        return new

    def unfinished(self) -> list[tuple[int, str]]:
        """(row, kind) of all tasks without a result, in the order in which they came."""
        return self._db.execute("SELECT row, kind FROM tasks WHERE finished IS NULL ORDER BY row").fetchall()

    def load(self, rows: Sequence[int]) -> list[Owned]:
        """Those of ``rows`` that still have no result."""
        found = []
        for part in _parts(rows):
            marks = ",".join("?" * len(part))
            found += self._db.execute(
                f"SELECT row, task, attempts, losses FROM tasks WHERE row IN ({marks}) AND finished IS NULL ORDER BY row", part
            ).fetchall()
        return [Owned(row, messages.Task.FromString(task), attempts, losses) for row, task, attempts, losses in found]

    def find(self, run: str, task_id: str) -> Owned | None:
        """The task if it has no result yet."""
        row = self._db.execute("SELECT row FROM tasks WHERE run = ? AND id = ? AND finished IS NULL", (run, task_id)).fetchone()
        return self.load([row[0]])[0] if row else None

    def finish(self, results: Iterable[messages.Result]) -> list[messages.Result]:
        """Keep results for delivery. Returns those whose tasks were there without one."""
        kept = []
        with _Transaction(self._db):
            for result in results:
                self._finished += 1
                done = self._db.execute(
                    "UPDATE tasks SET finished = ?, result = ?, task = NULL WHERE run = ? AND id = ? AND finished IS NULL",
                    (self._finished, result.SerializeToString(), result.run, result.id),
                )
                if done.rowcount:
                    kept.append(result)
        return kept

    def count(self, row: int, *, attempts: int = 0, losses: int = 0) -> None:
        """Add to what a task has cost."""
        self._db.execute("UPDATE tasks SET attempts = attempts + ?, losses = losses + ? WHERE row = ?", (attempts, losses, row))

    def results(self, run: str, after: int, most: int) -> list[tuple[int, messages.Result]]:
        """The next results of a run behind the place ``after``, with their places."""
        rows = self._db.execute(
            "SELECT finished, result FROM tasks WHERE run = ? AND finished > ? ORDER BY finished LIMIT ?", (run, after, most)
        ).fetchall()
        return [(place, messages.Result.FromString(blob)) for place, blob in rows]

    def acknowledge(self, run: str, ids: Sequence[str]) -> None:
        """Forget results that were received."""
        with _Transaction(self._db):
            for task_id in ids:
                self._db.execute("DELETE FROM tasks WHERE run = ? AND id = ? AND finished IS NOT NULL", (run, task_id))

    def drop(self, run: str) -> int:
        """Forget a run. Returns how many tasks and results that were."""
        with _Transaction(self._db):
            self._db.execute("DELETE FROM runs WHERE run = ?", (run,))
            return self._db.execute("DELETE FROM tasks WHERE run = ?", (run,)).rowcount

    def seen(self, run: str) -> None:
        """Note that the model of a run is there."""
        self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", (run, time.time()))

    def silent(self, seconds: float) -> list[str]:
        """Runs whose models were not there for so long."""
        rows = self._db.execute("SELECT run FROM runs WHERE seen < ?", (time.time() - seconds,)).fetchall()
        return [str(row[0]) for row in rows]

    def bury(self, letter: messages.DeadLetter) -> None:
        """Add to the dead-letter list."""
        with _Transaction(self._db):
            self._db.execute("INSERT INTO dead (letter) VALUES (?)", (letter.SerializeToString(),))
            self._db.execute("DELETE FROM dead WHERE number <= (SELECT MAX(number) FROM dead) - ?", (DEAD_KEPT,))

    def letters(self, most: int) -> list[messages.DeadLetter]:
        """Dead letters, newest first."""
        rows = self._db.execute("SELECT letter FROM dead ORDER BY number DESC LIMIT ?", (most,)).fetchall()
        return [messages.DeadLetter.FromString(row[0]) for row in rows]

    def counts(self) -> tuple[int, int]:
        """(results that wait for their models, dead letters)."""
        return self._one("SELECT COUNT(*) FROM tasks WHERE finished IS NOT NULL"), self._one("SELECT COUNT(*) FROM dead")

    def _one(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    def _copy_log(self) -> None:
        """Copy the write-ahead log into the database now and then, so that it does not grow without end."""
        db = sqlite3.connect(self._path, isolation_level=None)
        log = self._path.with_name(f"{self._path.name}-wal")
        while not self._closing.wait(CHECKPOINT_SECONDS):
            if log.exists() and log.stat().st_size > CHECKPOINT_BYTES:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        db.close()


class _Transaction:
    """All statements within, or none."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _parts(rows: Sequence[int]) -> Iterable[Sequence[int]]:
    return (rows[begin : begin + VARIABLES] for begin in range(0, len(rows), VARIABLES))
