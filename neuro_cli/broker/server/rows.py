"""Tables of a broker's database."""

import sqlite3

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


def create(db: sqlite3.Connection) -> None:
    """Create all tables with the version, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    for table, columns in TABLES.items():
        form = "" if "INTEGER PRIMARY KEY" in columns[0] else " WITHOUT ROWID"
        db.execute(f"CREATE TABLE {table} ({', '.join(columns)}){form}")
    for statement in INDEXES:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")
