"""Store of a broker's tasks and their results, in a database that outlives the process.

A task is one row until its result was acknowledged. Every committed change survives a kill of the process;
`durable=machine` also forces it to the disk before the submitter gets an answer.
"""

import hashlib
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.database import Database, StoreError

__all__ = ["NotYoursError", "Outcomes", "Owned", "Store", "StoreError"]

DEAD_KEPT = 10_000  # most dead letters; the oldest make room
VARIABLES = 500  # most variables of one SQL statement
LENT = "lent:"  # beginning of the names of runs whose tasks are another broker's

Key = tuple[str, str]  # run and id of a task


def is_lent(run: str) -> bool:
    """Return whether the tasks of ``run`` are another broker's, which this one helps."""
    return run.startswith(LENT)


class NotYoursError(Exception):
    """Raised for a stored run of a submitter with another token."""


class Row(NamedTuple):
    """Row of a stored task without a result: its number, run and kind."""

    row: int
    run: str
    kind: str


@dataclass
class Owned:
    """Stored task without a result, in memory while a consumer has it. ``size``: bytes; ``started``: seconds of the clock."""

    row: int
    task: messages.Task
    attempts: int
    losses: int
    size: int
    started: float | None = None

    @property
    def key(self) -> Key:
        return self.task.run, self.task.id

    @property
    def place(self) -> Row:
        return Row(self.row, self.task.run, self.task.kind)


@dataclass
class Outcomes:
    """Outcomes of tasks, to be stored together: results, dead letters, and tasks whose failed attempt was counted."""

    results: list[messages.Result] = field(default_factory=list)
    letters: list[messages.DeadLetter] = field(default_factory=list)
    failed: list[Owned] = field(default_factory=list)


class Store:
    """Tasks of a broker, in ``folder``. Methods raise StoreError where the disk takes no change, or gives nonsense."""

    def __init__(self, folder: Path, durable: str = "process") -> None:
        self._db = Database(folder, durable)
        self.close = self._db.close
        try:
            with self._db.change() as db:  # shows at the start whether the disk is full
                db.execute("REPLACE INTO facts VALUES ('opened', ?)", (str(time.time()),))
                for table in ("tasks", "runs"):  # helping ends with the process
                    db.execute(f"DELETE FROM {table} WHERE run GLOB ?", (f"{LENT}*",))
            self._finished = self._one("SELECT COALESCE(MAX(finished), 0) FROM tasks")
            self._row = self._one("SELECT COALESCE(MAX(row), 0) FROM tasks")
        except StoreError:
            self.close()
            raise

    @property
    def trouble(self) -> StoreError | None:
        """Error after which this store must be opened again; None as a rule."""
        return self._db.trouble

    def fact(self, name: str) -> str | None:
        rows = self._db.read("SELECT value FROM facts WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def note(self, name: str, value: str) -> None:
        with self._db.change() as db:
            db.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))

    def drawn(self, name: str, size: int) -> str:
        """Return a secret of ``size`` bytes in hex digits, drawn once."""
        kept = self.fact(name) or secrets.token_hex(size)
        self.note(name, kept)
        return kept

    def add(self, tasks: Sequence[messages.Task], token: bytes = b"") -> list[Row]:
        """Store tasks. Returns the new ones. Raises NotYoursError."""
        new: list[Row] = []
        runs = {task.run for task in tasks}
        for run in runs:
            self.check(run, token)
        with self._db.change() as db:
            for run in runs:
                db.execute("REPLACE INTO runs VALUES (?, ?, ?)", (run, time.time(), _digest(token)))
            for task in tasks:
                row = Row(self._row + len(new) + 1, task.run, task.kind)
                values = row.row, task.run, task.id, task.kind, task.SerializeToString()
                if db.execute("INSERT OR IGNORE INTO tasks VALUES (?, ?, ?, ?, ?, 0, 0, NULL, NULL)", values).rowcount:
                    new.append(row)
        self._row += len(new)
        return new

    def check(self, run: str, token: bytes) -> None:
        """Raise NotYoursError for a stored run that was begun with another token."""
        rows = self._db.read("SELECT token FROM runs WHERE run = ?", (run,))
        if rows and rows[0][0] != _digest(token):
            raise NotYoursError(f"run {run}: it belongs to a submitter with another token")

    def unfinished(self) -> list[Row]:
        """Return all stored tasks without a result, in the order of their arrival."""
        return [Row(*values) for values in self._db.read("SELECT row, run, kind FROM tasks WHERE finished IS NULL ORDER BY row")]

    def load(self, rows: Sequence[int]) -> list[Owned]:
        """Load the stored tasks of ``rows`` that still have no result."""
        parts = (rows[begin : begin + VARIABLES] for begin in range(0, len(rows), VARIABLES))
        return [owned for part in parts for owned in self._owned(f"row IN ({','.join('?' * len(part))})", part)]

    def find(self, run: str, task_id: str) -> Owned | None:
        """Load the stored task if it has no result yet."""
        return next(iter(self._owned("run = ? AND id = ?", (run, task_id))), None)

    def _owned(self, condition: str, values: Sequence[Any]) -> list[Owned]:
        query = f"SELECT row, task, attempts, losses FROM tasks WHERE {condition} AND finished IS NULL ORDER BY row"
        with self._db.parsing():
            return [
                Owned(row, messages.Task.FromString(task), attempts, losses, len(task))
                for row, task, attempts, losses in self._db.read(query, values)
            ]

    def settle(self, outcomes: Outcomes) -> list[messages.Result]:
        """Store outcomes, all or none. Returns the results of tasks that had none."""
        kept: list[messages.Result] = []
        with self._db.change() as db:
            for owned in outcomes.failed:
                counts = owned.attempts, owned.losses, owned.row
                db.execute("UPDATE tasks SET attempts = ?, losses = ? WHERE row = ?", counts)
            for letter in outcomes.letters:
                db.execute("INSERT INTO dead (letter) VALUES (?)", (letter.SerializeToString(),))
            if outcomes.letters:
                db.execute("DELETE FROM dead WHERE number <= (SELECT MAX(number) FROM dead) - ?", (DEAD_KEPT,))
            for result in outcomes.results:
                values = self._finished + len(kept) + 1, result.SerializeToString(), result.run, result.id
                change = "UPDATE tasks SET task = NULL, finished = ?, result = ? WHERE run = ? AND id = ? AND finished IS NULL"
                if db.execute(change, values).rowcount:
                    kept.append(result)
        self._finished += len(kept)
        return kept

    def results(self, run: str, after: int, most: int) -> list[tuple[int, messages.Result]]:
        """Load the next stored results of a run after the place ``after``, with their places."""
        query = "SELECT finished, result FROM tasks WHERE run = ? AND finished > ? ORDER BY finished LIMIT ?"
        with self._db.parsing():
            return [(place, messages.Result.FromString(text)) for place, text in self._db.read(query, (run, after, most))]

    def acknowledge(self, run: str, ids: Sequence[str]) -> None:
        """Remove received results from the store."""
        with self._db.change() as db:
            for task_id in ids:
                db.execute("DELETE FROM tasks WHERE run = ? AND id = ? AND finished IS NOT NULL", (run, task_id))

    def drop(self, run: str, ids: Iterable[str] | None = None) -> int:
        """Remove tasks of a run from the store, with their results; None: the run. Returns the number of tasks and results."""
        with self._db.change() as db:
            if ids is None:
                db.execute("DELETE FROM runs WHERE run = ?", (run,))
                return db.execute("DELETE FROM tasks WHERE run = ?", (run,)).rowcount
            return sum(db.execute("DELETE FROM tasks WHERE run = ? AND id = ?", (run, task_id)).rowcount for task_id in ids)

    def seen(self, run: str, token: bytes) -> None:
        """Note that the model of a run is connected. Raises NotYoursError."""
        self.check(run, token)
        with self._db.change() as db:
            db.execute("REPLACE INTO runs VALUES (?, ?, ?)", (run, time.time(), _digest(token)))

    def silent(self, seconds: float) -> list[str]:
        """Return the stored runs of models that have not been connected for that long."""
        query = "SELECT run FROM runs WHERE seen < ? AND NOT run GLOB ?"
        return [row[0] for row in self._db.read(query, (time.time() - seconds, f"{LENT}*"))]

    def letters(self, most: int) -> list[messages.DeadLetter]:
        """Return the dead letters in the store, newest first."""
        with self._db.parsing():
            rows = self._db.read("SELECT letter FROM dead ORDER BY number DESC LIMIT ?", (most,))
            return [messages.DeadLetter.FromString(row[0]) for row in rows]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of stored results that wait for their models, and of dead letters."""
        return self._one("SELECT COUNT(*) FROM tasks WHERE finished IS NOT NULL"), self._one("SELECT COUNT(*) FROM dead")

    def _one(self, query: str) -> int:
        return int(self._db.read(query)[0][0])


def _digest(token: bytes) -> bytes:
    """Return the digest of a token, which a reader of the database cannot use."""
    return hashlib.sha256(token).digest()
