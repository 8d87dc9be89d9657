"""SQLite file of a broker: its format, changes that a full disk refuses whole, checksums of rows, and what is missing of it."""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from neuro_cli.broker.server.high_water import HighWater
from neuro_cli.broker.server.rows import COLUMNS, TABLES, VERSION, Row, Text, checksum, create, with_sum
from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 1.0
CHECKPOINT_BYTES = 8 * 2**20
QUIET_SECONDS = 10.0  # without a refusal, after which a disk counts as no longer full
MOST_REPORTED = 20  # damaged places that are reported one by one


class StoreError(UserError):
    """Raised for a change that the disk does not take; nothing of it was stored."""


class Database:
    """File ``tasks.sqlite`` in ``folder``. Of one process and one thread, but for the copying of its log into it.

    ``damage`` names what could not be read, ``damaged`` counts it, ``broken`` is not empty when the file is unusable from now on.
    Raises UserError for a file that is none, is of another format, or is damaged where SQLite keeps its own order.
    """

    def __init__(self, folder: Path, durable: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "tasks.sqlite"
        self.damage: list[str] = []
        self.damaged = 0
        self.broken = ""
        self._refused_at: float | None = None
        try:
            self._db = self._opened(durable)
            self._high_water = HighWater(folder / "tasks.accepted", durable == "machine")
            self._serial = self._check_serial()
            self._check_rows()
            with self.change():  # so that a full disk is known at once
                pass
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
        self._high_water.close()

    def read(self, query: str, values: Row = ()) -> list[Row]:
        """All rows of a query; texts are `Text`. Raises UserError."""
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._refused(error) from error

    def sound(self, table: str, where: str, values: Row = (), most: int = -1) -> list[Row]:
        """Read the rows of a table that a clause chooses (``WHERE ...``); damaged ones are set apart and reported."""
        names = ", ".join(COLUMNS[table])
        rows = self.read(f"SELECT sum, {names} FROM {table} {where} LIMIT ?", (*values, most))
        good = [row[1:] for row in rows if checksum(row[1:]) == row[0]]
        if len(good) < len(rows):
            self._set_apart(table, [row[1:] for row in rows if checksum(row[1:]) != row[0]])
        return good

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """All statements within, or none. Raises StoreError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", with_sum("serial", str(self._serial + 1)))
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeError):
                raise self._refused(error) from error
            raise
        self._serial += 1
        self._note_serial()

    def put(self, table: str, *values: Any, instead: bool = False) -> bool:
        """Write a row with its checksum, within :meth:`change`. Returns False if there was one that it is not ``instead`` of."""
        marks = ", ".join("?" * (len(values) + 1))
        verb = "REPLACE" if instead else "IGNORE"
        return bool(self._db.execute(f"INSERT OR {verb} INTO {table} VALUES ({marks})", with_sum(*values)).rowcount)

    def make_room(self) -> None:
        """Copy the log, and so free its place for new changes."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _opened(self, durable: str) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None)
        db.text_factory = Text
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable == 'machine' else 'NORMAL'}")
        # a commit must not wait until the log is copied: _copy_log does that beside it
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
        found = [bytes(row[0]).decode() for row in db.execute(f"PRAGMA integrity_check({MOST_REPORTED})")]
        if found != ["ok"]:
            said = "; ".join(" ".join(line.split()) for line in found[:3])
            raise UserError(f"{self.path}: damaged ({said}): move its folder away, and models send their tasks again")
        return db

    def _check_rows(self) -> None:
        for table in TABLES:
            names = ", ".join(COLUMNS[table])
            rows = self._db.execute(f"SELECT sum, {names} FROM {table}")
            if bad := [row[1:] for row in rows if checksum(row[1:]) != row[0]]:
                self._set_apart(table, bad)

    def _check_serial(self) -> int:
        """Read the number of the last change, with a warning if the file beside knows of later ones."""
        found = self._db.execute("SELECT name, value, sum FROM facts WHERE name = 'serial'").fetchone()
        last, mark = 0, self._high_water.mark
        if found is not None:
            last = int(found[1]) if checksum(found[:2]) == found[2] else mark or 0
        if mark is None:
            if last or self._high_water.wrong == "it is damaged":
                beside = self.path.with_name("tasks.accepted")
                self._tell(f"{beside}: {self._high_water.wrong}; whether the database has all accepted tasks is not known")
        elif mark > last:
            self._tell(
                f"{self.path}: its last {mark - last} changes (numbers {last + 1} to {mark}) are lost: its write-ahead log is "
                "damaged or gone; what models still wait for they send again"
            )
        return max(last, mark or 0)

    def _set_apart(self, table: str, rows: Sequence[Row]) -> None:
        """Move damaged rows to the table ``damaged``, as they are, so that nothing takes them for what they were."""
        key = COLUMNS[table][0]
        for row in rows:
            place = f"table {table}, {key} {_shown(row[0])}"
            with self.change() as db:
                db.execute("INSERT INTO damaged (place, content) VALUES (?, ?)", (place, repr(list(row))))
                db.execute(f"DELETE FROM {table} WHERE CAST({key} AS BLOB) = CAST(? AS BLOB)", (row[0],))
            self._tell(f"{self.path}, {place}: its checksum does not fit; the row is set apart in the table damaged")

    def _tell(self, text: str) -> None:
        self.damaged += 1
        if len(self.damage) < MOST_REPORTED:
            log.error("%s", text)
            self.damage.append(text)
        elif len(self.damage) == MOST_REPORTED:
            self.damage.append(f"{self.path}: more than {MOST_REPORTED} damaged places; its table damaged has them all")
            log.error("%s", self.damage[-1])

    def _note_serial(self) -> None:
        try:
            self._high_water.write(self._serial)
        except OSError as error:
            self._refused(error)
            return
        if self._refused_at is not None and time.monotonic() - self._refused_at > QUIET_SECONDS:
            self._refused_at = None
            log.warning("%s: changes are stored again", self.path)

    def _refused(self, error: Exception) -> StoreError:
        """Error to raise for ``error``; logged once until changes are taken again for a while."""
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
            with suppress(sqlite3.Error, OSError):  # what is wrong with the disk the next change tells
                if log_file.stat().st_size > CHECKPOINT_BYTES:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        db.close()


def _is_damage(error: Exception) -> bool:
    """True for an error by which SQLite reports damage; its message may quote the damage and then be no text."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, UnicodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _said(error: Exception) -> str:
    if _is_damage(error):
        return f"damaged, or not a broker's database ({error}): move its folder away, and models send their tasks again"
    return str(error)


def _shown(key: Any) -> str:
    return key.decode(errors="backslashreplace")[:80] if isinstance(key, bytes) else str(key)
