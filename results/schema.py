"""The tables of a store, and how an older file gets them: a step a version, all or nothing."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from mxtune.configs.errors import StoreError

APPLICATION = 0x6D787475  # "mxtu": tells our files from other SQLite databases

# What made version 1, 2, ... of the one before. A step that was released is never changed.
STEPS = (
    (
        """CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            provenance TEXT NOT NULL
        )""",
        """CREATE TABLE trials (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions (id),
            m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL,
            family TEXT NOT NULL,
            config TEXT NOT NULL,
            stage TEXT NOT NULL,
            state TEXT NOT NULL,
            reason TEXT NOT NULL,
            samples_us TEXT NOT NULL,
            facts TEXT NOT NULL
        )""",
        "CREATE INDEX trials_of_shape ON trials (session, m, n, k, stage)",
        f"PRAGMA application_id = {APPLICATION}",
    ),
    (
        """CREATE TABLE ledgers (
            session INTEGER NOT NULL REFERENCES sessions (id),
            at TEXT NOT NULL,
            account TEXT NOT NULL,
            family TEXT NOT NULL,
            seconds REAL NOT NULL
        )""",
    ),
)
VERSION = len(STEPS)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError for a database that is not a sound store of this version or an older one."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise StoreError(f"{path}: an SQLite database, but not one of mxtune's stores")
    version = version_of(connection)
    if version > VERSION:
        raise StoreError(f"{path}: store version {version}; this mxtune reads version {VERSION}")
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        fault = damage.splitlines()[-1]  # after a line that names the database
        raise StoreError(f"{path}: damaged ({fault}); move it aside and sweep again")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a store; 0 is an empty database."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def upgrade(connection: sqlite3.Connection, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Bring a store of any older version to the last of ``steps``, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(version_of(connection), len(steps)):  # others may have been faster
            for statement in steps[version]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
