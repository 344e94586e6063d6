"""A store of an older mxtune is brought to this version with all it holds, or stays as it is."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import StoreError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.schema import STEPS, upgrade
from mxtune.results.store import Store
from mxtune.results.trial import Session, Trial

# What mxtune made before ledgers were kept.
VERSION_1 = """
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
PRAGMA application_id = 1836610677;
PRAGMA user_version = 1;
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    provenance TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS trials (
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
);
CREATE INDEX IF NOT EXISTS trials_of_shape ON trials (session, m, n, k, stage);
COMMIT;
INSERT INTO sessions VALUES (1, 'key', '{"arch": "gfx950"}');
INSERT INTO trials VALUES
    (1, 1, 16, 64, 64, 'direct', '{"BLOCK_M": 16}', 'screen', 'ok', '', '[5.5, 6.25]', '{"a": 1}'),
    (2, 1, 16, 64, 64, 'direct', '{"BLOCK_M": 32}', 'screen', 'hung', 'no answer', '[]', '{}');
"""
KEPT = [
    Trial(
        Shape(16, 64, 64),
        Route("direct", Config.of({"BLOCK_M": 16})),
        "screen",
        "ok",
        samples_us=(5.5, 6.25),
        facts={"a": 1},
    ),
    Trial(
        Shape(16, 64, 64),
        Route("direct", Config.of({"BLOCK_M": 32})),
        "screen",
        "hung",
        "no answer",
    ),
]
ROWS: tuple[Mapping[str, Any], ...] = (
    {"account": "compile", "family": "direct", "seconds": 12.5},
    {"account": "time", "family": "finals", "seconds": 0.125},
)
OPEN = "import sys; from pathlib import Path; from mxtune.results.store import Store;"
OPEN += "Store.open(Path(sys.argv[1]), create=True).close()"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "trials.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)
    return path


def asked(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def schema(path: Path) -> list[tuple[str, str]]:
    """Return the names and columns of every table, however its SQL was laid out."""
    listed = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
    return sorted(asked(path, listed))


@pytest.mark.parametrize("create", [False, True])
def test_a_store_of_version_1_keeps_its_trials(old: Path, *, create: bool) -> None:
    store = Store.open(old, create=create)
    assert store.sessions() == {1: Session("key", {"arch": "gfx950"})}
    assert list(store.trials(1)) == KEPT
    store.add_ledger(1, ROWS)
    store.close()
    assert asked(old, "PRAGMA user_version") == [(2,)]
    assert asked(old, "PRAGMA integrity_check") == [("ok",)]
    assert asked(old, "SELECT session, account, family, seconds FROM ledgers") == [
        (1, "compile", "direct", 12.5),
        (1, "time", "finals", 0.125),
    ]


def test_a_store_brought_up_is_like_a_new_one(old: Path, tmp_path: Path) -> None:
    Store.open(old).close()
    Store.open(tmp_path / "new", create=True).close()
    assert schema(old) == schema(tmp_path / "new")
    assert asked(tmp_path / "new", "PRAGMA user_version") == [(2,)]
    assert asked(tmp_path / "new", "PRAGMA application_id") == [(0x6D787475,)]


def test_a_step_that_fails_leaves_the_file_as_it_was(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE ledgers (id INTEGER)")
    before = old.read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(old)
    message = "cannot be used as a store (table ledgers already exists)"
    assert str(caught.value) == f"{old}: {message}"
    assert old.read_bytes() == before


def test_a_step_that_fails_late_takes_the_first_ones_back(old: Path) -> None:
    before = old.read_bytes()
    third = ("CREATE TABLE third (id INTEGER)", "INSERT INTO third SELECT id FROM nowhere")
    with (
        closing(sqlite3.connect(old, isolation_level=None)) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"),
    ):
        upgrade(connection, (*STEPS, third))
    assert old.read_bytes() == before
    assert asked(old, "PRAGMA user_version") == [(1,)]


def test_a_damaged_old_store_is_not_brought_up(old: Path) -> None:
    with old.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(range(255, -1, -1)) * 16)
    before = old.read_bytes()
    with pytest.raises(StoreError):
        Store.open(old)
    assert old.read_bytes() == before


def test_processes_that_bring_one_store_up_at_once_all_succeed(old: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(old)]
    started = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(60) for process in started] == [0, 0, 0, 0]
    store = Store.open(old)
    assert list(store.trials(1)) == KEPT


def test_an_empty_ledger_writes_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "trials.sqlite", create=True)
    store.add_ledger(store.session(Session("key", {})), ())
    assert asked(tmp_path / "trials.sqlite", "SELECT count(*) FROM ledgers") == [(0,)]


def test_each_sweep_has_a_ledger_of_its_own(
    tmp_path: Path, session_with: Callable[[Mapping[str, Any]], Session]
) -> None:
    path = tmp_path / "trials.sqlite"
    for _ in range(2):
        store = Store.open(path, create=True)
        store.add_ledger(store.session(session_with({})), ROWS)
        store.close()
    assert asked(path, "SELECT session, count(*) FROM ledgers GROUP BY session") == [(1, 4)]
    (at,) = asked(path, "SELECT DISTINCT substr(at, 1, 2) FROM ledgers")
    assert at == ("20",)
