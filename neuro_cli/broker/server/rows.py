"""Format of a broker's database: its tables, and the checksum that each row ends with."""

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

VERSION = 2  # of the format; 1 had no checksums
TABLES = {  # columns of each table, in whose order its checksums are made; the first ones are its key
    "facts": ("name TEXT PRIMARY KEY", "value TEXT NOT NULL"),
    "tasks": (
        "row INTEGER PRIMARY KEY", "run TEXT NOT NULL", "id TEXT NOT NULL", "kind TEXT NOT NULL",
        "task BLOB",  # message Task; NULL once there is a result
        "attempts INTEGER NOT NULL",  # that failed
        "losses INTEGER NOT NULL",  # workers that vanished with it
        "finished INTEGER",  # place in the order of results
        "result BLOB",  # message Result
    ),
    "dead": ("number INTEGER PRIMARY KEY", "letter BLOB NOT NULL"),
    "runs": ("run TEXT PRIMARY KEY", "seen REAL NOT NULL", "token BLOB NOT NULL"),
}  # fmt: skip
COLUMNS = {table: [column.split()[0] for column in columns] for table, columns in TABLES.items()}
MORE = (
    "CREATE UNIQUE INDEX keys ON tasks (run, id)",
    "CREATE INDEX results ON tasks (run, finished) WHERE finished IS NOT NULL",
    "CREATE TABLE damaged (number INTEGER PRIMARY KEY, place TEXT NOT NULL, content TEXT NOT NULL)",
)
Row = Sequence[Any]


class Text(bytes):
    """Text of the database in bytes, valid UTF-8 or not."""


def checksum(values: Row) -> int:
    """64 bits over the values of a row, each with its type and length."""
    made = hashlib.blake2b(digest_size=8)
    for value in values:
        if isinstance(value, str):
            value = Text(value.encode())
        data = bytes(value) if isinstance(value, bytes) else repr(value).encode()
        made.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return int.from_bytes(made.digest(), "little", signed=True)


def create(db: sqlite3.Connection) -> None:
    """All tables with the version, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    for table, columns in TABLES.items():
        form = "" if "INTEGER PRIMARY KEY" in columns[0] else " WITHOUT ROWID"
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)}, sum INTEGER NOT NULL){form}")
    for statement in MORE:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")


def with_sum(*values: Any) -> Row:
    return (*values, checksum(values))
