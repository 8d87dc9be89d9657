"""Store of a broker's own tasks and their results, in a database that outlives the process.

A task is one row until its result was acknowledged. Every committed change survives a kill of the process;
`durable=machine` also forces it to the disk before the submitter gets an answer.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.database import Database, Row, StoreError

__all__ = ["NotYoursError", "Outcomes", "Owned", "Store", "StoreError"]

DEAD_KEPT = 10_000  # most dead letters; the oldest make room
VARIABLES = 500  # most variables of one SQL statement


class NotYoursError(Exception):
    """Raised for a run of a submitter with another token."""


@dataclass(frozen=True)
class Owned:
    """Task of the store."""

    row: int
    task: messages.Task
    attempts: int
    losses: int


@dataclass
class Outcomes:
    """Outcomes of tasks, to be stored together: results, dead letters, and the costs (row, attempts, losses) of failures."""

    results: list[messages.Result] = field(default_factory=list)
    letters: list[messages.DeadLetter] = field(default_factory=list)
    costs: list[tuple[int, int, int]] = field(default_factory=list)


class Store:
    """Tasks of a broker, in ``folder``. Methods that change them raise StoreError where the disk does not take it."""

    def __init__(self, folder: Path, durable: str = "process") -> None:
        self._db = Database(folder, durable)
        self._finished = self._one("SELECT COALESCE(MAX(finished), 0) FROM tasks")
        self._row = self._one("SELECT COALESCE(MAX(row), 0) FROM tasks")
        self._letter = self._one("SELECT COALESCE(MAX(number), 0) FROM dead")
        self.close, self.make_room = self._db.close, self._db.make_room

    @property
    def broken(self) -> str:
        """Reason why the database cannot be used any more; empty as a rule."""
        return self._db.broken

    def fact(self, name: str) -> str | None:
        rows = self._db.read("SELECT value FROM facts WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def note(self, name: str, value: str) -> None:
        with self._db.change():
            self._db.put("facts", name, value, replace=True)

    def add(self, tasks: Sequence[messages.Task], token: bytes = b"") -> list[tuple[int, str]]:
        """Take tasks. Returns (row, kind) of the new ones. Raises NotYoursError."""
        new: list[tuple[int, str]] = []
        runs = {task.run for task in tasks}
        for run in runs:
            self.check(run, token)
        with self._db.change():
            for run in runs:
                self._db.put("runs", run, time.time(), _digest(token), replace=True)
            for task in tasks:
                row = self._row + len(new) + 1
                if self._db.put("tasks", row, task.run, task.id, task.kind, task.SerializeToString(), 0, 0, None, None):
                    new.append((row, task.kind))
        self._row += len(new)
        return new

    def check(self, run: str, token: bytes) -> None:
        """Raise NotYoursError for a run that was begun with another token."""
        rows = self._db.read("SELECT token FROM runs WHERE run = ?", (run,))
        if rows and rows[0][0] != _digest(token):
            raise NotYoursError(f"run {run}: it belongs to a submitter with another token")

    def unfinished(self) -> list[tuple[int, str]]:
        """Return (row, kind) of all tasks without a result, in the order of their arrival."""
        return [(row, kind) for row, kind in self._db.read("SELECT row, kind FROM tasks WHERE finished IS NULL ORDER BY row")]

    def load(self, rows: Sequence[int]) -> list[Owned]:
        """Load the tasks of ``rows`` that still have no result."""
        owned: list[Owned] = []
        for part in _parts(rows):
            owned += self._owned(f"row IN ({','.join('?' * len(part))})", part)
        return owned

    def find(self, run: str, task_id: str) -> Owned | None:
        """Load the task if it has no result yet."""
        owned = self._owned("run = ? AND id = ?", (run, task_id))
        return owned[0] if owned else None

    def _owned(self, condition: str, values: Row) -> list[Owned]:
        query = f"SELECT row, task, attempts, losses FROM tasks WHERE {condition} AND finished IS NULL ORDER BY row"
        with self._db.parsing():
            return [
                Owned(row, messages.Task.FromString(task), attempts, losses)
                for row, task, attempts, losses in self._db.read(query, values)
            ]

    def settle(self, outcomes: Outcomes) -> list[messages.Result]:
        """Store outcomes, all or none. Returns the results of tasks that had none."""
        costs = {owned.row: owned for owned in self.load([row for row, _, _ in outcomes.costs])}
        unfinished = {(result.run, result.id): self.find(result.run, result.id) for result in outcomes.results}
        kept: list[messages.Result] = []
        letter = self._letter
        with self._db.change() as db:
            for row, attempts, losses in outcomes.costs:
                if (owned := costs.pop(row, None)) is not None:
                    self._put(db, owned, owned.attempts + attempts, owned.losses + losses)
            for dead in outcomes.letters:
                letter += 1
                self._db.put("dead", letter, dead.SerializeToString())
            if outcomes.letters:
                db.execute("DELETE FROM dead WHERE number <= ?", (letter - DEAD_KEPT,))
            for result in outcomes.results:
                if (owned := unfinished.pop((result.run, result.id), None)) is not None:
                    kept.append(result)
                    self._put(db, owned, owned.attempts, owned.losses, self._finished + len(kept), result)
        self._finished += len(kept)
        self._letter = letter
        return kept

    def results(self, run: str, after: int, most: int) -> list[tuple[int, messages.Result]]:
        """Load the next results of a run after the place ``after``, with their places."""
        query = "SELECT finished, result FROM tasks WHERE run = ? AND finished > ? ORDER BY finished LIMIT ?"
        with self._db.parsing():
            return [(place, messages.Result.FromString(text)) for place, text in self._db.read(query, (run, after, most))]

    def acknowledge(self, run: str, ids: Sequence[str]) -> None:
        """Forget received results."""
        with self._db.change() as db:
            for task_id in ids:
                db.execute("DELETE FROM tasks WHERE run = ? AND id = ? AND finished IS NOT NULL", (run, task_id))

    def drop(self, run: str) -> int:
        """Forget a run. Returns the number of its tasks and results."""
        with self._db.change() as db:
            db.execute("DELETE FROM runs WHERE run = ?", (run,))
            return db.execute("DELETE FROM tasks WHERE run = ?", (run,)).rowcount

    def seen(self, run: str, token: bytes) -> None:
        """Note that the model of a run is connected. Raises NotYoursError."""
        self.check(run, token)
        with self._db.change():
            self._db.put("runs", run, time.time(), _digest(token), replace=True)

    def silent(self, seconds: float) -> list[str]:
        """Return the runs whose models have not been connected for that long."""
        return [row[0] for row in self._db.read("SELECT run FROM runs WHERE seen < ?", (time.time() - seconds,))]

    def letters(self, most: int) -> list[messages.DeadLetter]:
        """Return the dead letters, newest first."""
        with self._db.parsing():
            rows = self._db.read("SELECT letter FROM dead ORDER BY number DESC LIMIT ?", (most,))
            return [messages.DeadLetter.FromString(row[0]) for row in rows]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of results that wait for their models, and of dead letters."""
        return self._one("SELECT COUNT(*) FROM tasks WHERE finished IS NOT NULL"), self._one("SELECT COUNT(*) FROM dead")

    def _put(self, db: sqlite3.Connection, owned: Owned, attempts: int, losses: int, *done: Any) -> None:
        """Write the changes of a task; ``done``: its place in the order of results, and its result."""
        place, result = done or (None, None)
        task = None if done else owned.task.SerializeToString()
        text = result.SerializeToString() if done else None
        db.execute(
            "UPDATE tasks SET task = ?, attempts = ?, losses = ?, finished = ?, result = ? WHERE row = ?",
            (task, attempts, losses, place, text, owned.row),
        )

    def _one(self, query: str) -> int:
        return int(self._db.read(query)[0][0])


def _digest(token: bytes) -> bytes:
    """Return the digest of a token, which a reader of the database cannot use."""
    return hashlib.sha256(token).digest()


def _parts(rows: Sequence[int]) -> Iterable[Sequence[int]]:
    return (rows[begin : begin + VARIABLES] for begin in range(0, len(rows), VARIABLES))
