"""SQLite file of a broker: its format, changes that a full disk refuses as a whole, and damage that SQLite finds.

SQLite checks the order of its pages and indexes, and each frame of its write-ahead log. A bit that a disk changes inside a value
shows only where the value is no message any more, and a damaged end of the log is left out without a word.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from neuro_cli.broker.server.rows import VERSION, create
from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 1.0  # between two looks at the length of the log
CHECKPOINT_BYTES = 8 * 2**20  # length of the log from which it is copied into the database
QUIET_SECONDS = 10.0  # time without a refusal after which a disk no longer counts as full
MOST_REPORTED = 20  # damaged places that SQLite reports
Row = Sequence[Any]


class StoreError(UserError):
    """Raised for a change that the disk does not take; nothing of it was stored."""


class Database:
    """File ``tasks.sqlite`` in ``folder``, used by one process and one thread, but for the thread that copies its log into it.

    ``broken``: why the file is unusable from now on; empty as a rule.
    Raises UserError for a file that is no database, has another format, or is damaged where SQLite keeps its own order.
    """

    def __init__(self, folder: Path, durable: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "tasks.sqlite"
        self.broken = ""
        self._refused_at: float | None = None
        try:
            self._db = self._opened(durable)
            with self.change():  # shows at the start whether the disk is full
                self.put("facts", "opened", str(time.time()), replace=True)
        except StoreError as error:
            raise UserError(str(error)) from error
        except (sqlite3.Error, UnicodeError, OSError) as error:
            raise UserError(f"{self.path}: {_said(error)}") from error
        self._closing = threading.Event()
        self._copier = threading.Thread(target=self._copy_log, name="wal", daemon=True)
        self._copier.start()

    def close(self) -> None:
        self._closing.set()
        self._copier.join()
        self._db.close()

    def read(self, query: str, values: Row = ()) -> list[Row]:
        """Return all rows of a query. Raises StoreError."""
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._refused(error) from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Make all changes of the block, or none. Raises StoreError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeError):
                raise self._refused(error) from error
            raise
        if self._refused_at is not None and time.monotonic() - self._refused_at > QUIET_SECONDS:
            self._refused_at = None
            log.warning("%s: changes are stored again", self.path)

    def put(self, table: str, *values: Any, replace: bool = False) -> bool:
        """Write a row, within :meth:`change`. Returns False where one with its key exists, unless that is to be replaced."""
        verb = "REPLACE" if replace else "IGNORE"
        marks = ", ".join("?" * len(values))
        return bool(self._db.execute(f"INSERT OR {verb} INTO {table} VALUES ({marks})", values).rowcount)

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Raise StoreError where a stored message cannot be parsed in the block; the file is broken then."""
        try:
            yield
        except DecodeError as error:
            raise self._refused(error) from error

    def make_room(self) -> None:
        """Copy the log into the database, which frees its place for new changes."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _opened(self, durable: str) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None)
        # a kind or an id that the disk has changed must not end every query that meets it
        db.text_factory = lambda text: text.decode(errors="replace")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable == 'machine' else 'NORMAL'}")
        # a commit must not wait until the log is copied: _copy_log does that in a thread of its own
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("PRAGMA journal_size_limit=67108864")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0:
            create(db)
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

    def _refused(self, error: Exception) -> StoreError:
        """Return the error to raise for ``error``, which is logged once until changes are stored again."""
        text = f"{self.path}: {_said(error)}"
        if _is_damage(error):
            self.broken = text
        elif self._refused_at is None:
            log.warning("%s: no task is taken or given out until changes can be stored again; results are kept in memory", text)
        self._refused_at = time.monotonic()
        return StoreError(text)

    def _copy_log(self) -> None:
        """Copy the write-ahead log into the database now and then, so that it does not grow without end."""
        db = sqlite3.connect(self.path, isolation_level=None)
        log_file = self.path.with_name(f"{self.path.name}-wal")
        while not self._closing.wait(CHECKPOINT_SECONDS):
            with suppress(sqlite3.Error, OSError):  # the next change meets the same trouble and reports it
                if log_file.stat().st_size > CHECKPOINT_BYTES:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        db.close()


def _is_damage(error: Exception) -> bool:
    """Return whether an error reports damage; SQLite's message may quote the damage, which then is no text."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, UnicodeError | DecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _said(error: Exception) -> str:
    if _is_damage(error):
        return f"damaged, or not a broker's database ({error}): move its folder away, and models send their tasks again"
    return str(error)
