"""The journal of a sweep: every candidate and what became of it, in SQLite, one transaction each.

Raw samples are kept; statistics are computed on reading. A trial is written once and never changed:
what is learnt later about the same route (finals, a check) is a further trial of another stage.
"""

import json
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mxtune.configs.errors import ConfigError, StoreError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.schema import VERSION, check, upgrade, version_of
from mxtune.results.trial import Session, Trial

STORE_FILE = "trials.sqlite"  # its name in the folder of a sweep
_BUSY_S = 30  # how long a process waits while others write


@dataclass(frozen=True, slots=True)
class Store:
    """One file of trials. ``open`` makes or checks it; every method is one transaction."""

    path: Path
    connection: sqlite3.Connection = field(repr=False)

    @classmethod
    def open(cls, path: Path, *, create: bool = False) -> "Store":
        """Open a store, or make an empty one.

        A store of an older version is brought to this one. Raises StoreError in one line for a
        missing, foreign, damaged or newer file, which is left as it is.
        """
        if not create and not path.is_file():
            raise StoreError(f"{path}: no such store; a sweep makes one")
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            try:
                _prepare(connection, path, create=create)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: cannot be used as a store ({error})") from error
        return cls(path, connection)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def session(self, session: Session) -> int:
        """Return the number of ``session``, entering it first if it is new."""
        self._write(
            "INSERT OR IGNORE INTO sessions (key, provenance) VALUES (?, ?)",
            (session.key, json.dumps(session.provenance, sort_keys=True)),
        )
        with self._reading():
            row = self.connection.execute("SELECT id FROM sessions WHERE key = ?", (session.key,))
            return int(row.fetchone()[0])

    def add(self, session: int, trial: Trial) -> None:
        """Write one trial; it is on disk when this returns."""
        self._write(
            "INSERT INTO trials (session, m, n, k, family, config, stage, state, reason,"
            " samples_us, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (session, *_row(trial)),
        )

    def add_ledger(self, session: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write where the time of a sweep went: ``account``, ``family`` and ``seconds`` a row."""
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write(
            "INSERT INTO ledgers SELECT ?, ?, json_extract(value, '$.account'),"
            " json_extract(value, '$.family'), json_extract(value, '$.seconds') FROM json_each(?)",
            (session, at, json.dumps(list(rows))),
        )

    def sessions(self) -> dict[int, Session]:
        """Return every session by number, the oldest first."""
        with self._reading():
            rows = self.connection.execute("SELECT id, key, provenance FROM sessions ORDER BY id")
            return {number: Session(key, json.loads(text)) for number, key, text in rows}

    def trials(self, session: int, shape: Shape | None = None) -> Iterator[Trial]:
        """Yield the trials of a session in the order they were made, of one shape or of all."""
        query = (
            "SELECT m, n, k, family, config, stage, state, reason, samples_us, facts"
            " FROM trials WHERE session = ?"
        )
        values: tuple[int, ...] = (session,)
        if shape:
            query += " AND m = ? AND n = ? AND k = ?"
            values += (shape.m, shape.n, shape.k)
        with (
            self._reading(),
            closing(self.connection.execute(query + " ORDER BY id", values)) as rows,
        ):
            yield from (_trial(row) for row in rows)

    @contextmanager
    def _reading(self) -> Generator[None, None, None]:
        """Turn what reading a damaged row raises into a StoreError."""
        try:
            yield
        except (sqlite3.Error, ConfigError, ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: cannot be read ({error})") from error

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self.connection.execute(statement, values)
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: cannot write ({error}); what was written before is kept"
            ) from error


def _prepare(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Set up an empty database, or check a store and bring an older one to this version."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables:
        check(connection, path)
    elif create:
        _journal_ahead(connection)
    else:
        raise StoreError(f"{path}: an empty file; a sweep makes a store")
    if version_of(connection) < VERSION:
        upgrade(connection)


def _journal_ahead(connection: sqlite3.Connection) -> None:
    """Turn write-ahead logging on; SQLite does not wait for another process that does the same."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:  # noqa: PERF203  it is what the loop is for
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _row(trial: Trial) -> tuple[Any, ...]:
    shape, route = trial.shape, trial.route
    return (
        shape.m,
        shape.n,
        shape.k,
        route.family,
        json.dumps(dict(route.config)),
        trial.stage,
        trial.state,
        trial.reason,
        json.dumps(trial.samples_us),
        json.dumps(trial.facts, sort_keys=True),
    )


def _trial(row: tuple[Any, ...]) -> Trial:
    m, n, k, family, config, stage, state, reason, samples, facts = row
    return Trial(
        shape=Shape(m, n, k),
        route=Route(family, Config.of(json.loads(config))),
        stage=stage,
        state=state,
        reason=reason,
        samples_us=tuple(json.loads(samples)),
        facts=json.loads(facts),
    )
