"""SQLite file of a broker: its format, its lock, atomic changes, and damage that SQLite detects.

SQLite checks the order of its pages and indexes, and each frame of its write-ahead log. A bit that a disk changes inside a value
shows only where the value is no message any more, and a damaged end of the log is left out silently.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from neuro_cli.core.errors import UserError

VERSION = 3  # format of the file; 2 had a checksum in each row
TABLES = {  # columns of each table
    "facts": ("name TEXT PRIMARY KEY", "value TEXT NOT NULL"),
    "tasks": (
        "row INTEGER PRIMARY KEY", "run TEXT NOT NULL", "id TEXT NOT NULL", "kind TEXT NOT NULL",
        "task BLOB",  # message Task; NULL once the task has a result
        "attempts INTEGER NOT NULL",  # failed attempts
        "losses INTEGER NOT NULL",  # workers that vanished with it
        "finished INTEGER",  # place in the order of results
        "result BLOB",  # message Result
    ),
    "dead": ("number INTEGER PRIMARY KEY", "letter BLOB NOT NULL"),
    "runs": ("run TEXT PRIMARY KEY", "seen REAL NOT NULL", "token BLOB NOT NULL"),
}  # fmt: skip
INDEXES = (
    "CREATE UNIQUE INDEX keys ON tasks (run, id)",
    "CREATE INDEX results ON tasks (run, finished) WHERE finished IS NOT NULL",
)
MOST_REPORTED = 20  # damaged places that SQLite reports
LOG_PAGES = 8192  # 32 MB of log between SQLite's checkpoints: they wait for the disk, and commits wait for them


class StoreError(UserError):
    """Raised for a change that the database's disk refuses, which then is not stored, and for damage (``damage``)."""

    def __init__(self, text: str, damage: bool) -> None:
        super().__init__(text)
        self.damage = damage


class Database:
    """File ``tasks.sqlite`` in ``folder``, used by one process and one thread.

    ``trouble``: the first error, after which the file must be opened again; None as a rule.
    Raises UserError for a folder that another process uses, and for a file that is no database, has another format or is damaged.
    """

    def __init__(self, folder: Path, durable: str) -> None:
        self.path = folder / "tasks.sqlite"
        self.trouble: StoreError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = self._opened(durable)
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise UserError(f"{folder}: another process works on this folder; give each one its own") from error
            raise self._failed(error) from error
        except OSError as error:
            raise UserError(f"{self.path}: {error}") from error

    def close(self) -> None:
        self._db.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Sequence[Any]]:
        """Return all rows of a query to the database. Raises StoreError."""
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._failed(error) from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Make all changes of the block to the database, or none. Raises StoreError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            # a file that was closed meanwhile has no answer to in_transaction: a call under way may outlive its broker
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeError):
                raise self._failed(error) from error
            raise

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Raise StoreError where a stored message cannot be parsed in the block."""
        try:
            yield
        except DecodeError as error:
            raise self._failed(error) from error

    def _opened(self, durable: str) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        # a kind or an id that the disk has changed must not end every query that meets it
        db.text_factory = lambda text: text.decode(errors="replace")
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # set before the log, which then needs no memory shared with other processes
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable == 'machine' else 'NORMAL'}")
        db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0:
            _create(db)
        elif version != VERSION:
            raise UserError(
                f"{self.path}: a broker's database of format {version or 1}, this neuro has format {VERSION}: "
                "let the neuro that made it finish its runs, or move the file away, and models send their tasks again"
            )
        report = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({MOST_REPORTED})")]
        if report != ["ok"]:
            said = "; ".join(" ".join(line.split()) for line in report[:3])
            raise UserError(f"{self.path}: damaged ({said}): move its folder away, and models send their tasks again")
        return db

    def _failed(self, error: Exception) -> StoreError:
        """Return the error to raise for ``error``; SQLite's message may quote damage, which then is no text."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damage = isinstance(error, UnicodeError | DecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        text = f"damaged, or not a broker's database ({error}): move its folder away, and models send their tasks again"
        failure = StoreError(f"{self.path}: {text if damage else error}", damage)
        self.trouble = self.trouble or failure
        return failure


def _create(db: sqlite3.Connection) -> None:
    """Create all tables with the version, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    for table, columns in TABLES.items():
        form = "" if "INTEGER PRIMARY KEY" in columns[0] else " WITHOUT ROWID"
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)}){form}")
    for statement in INDEXES:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")
