"""A file that is no sound store is refused in one line and left as it is."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mxtune.configs.errors import StoreError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.store import Store
from mxtune.results.trial import Session, Trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trials.sqlite"


def fill(path: Path, *statements: str) -> None:
    """Make a store of 200 trials and run ``statements`` on it."""
    store = Store.open(path, create=True)
    number = store.session(Session("key", {"arch": "gfx950"}))
    store.connection.execute("BEGIN")
    for m in range(1, 201):
        store.add(number, Trial(Shape(m, 64, 64), Route("direct", Config()), "screen", "ok"))
    store.connection.execute("COMMIT")
    for statement in statements:
        store.connection.execute(statement)
    store.close()


def read(path: Path, *, create: bool) -> list[Trial]:
    """Return the trials of the first session."""
    store = Store.open(path, create=create)
    try:
        return list(store.trials(min(store.sessions())))
    finally:
        store.close()


def fault(path: Path, *, create: bool = False) -> str:
    """Read a whole store that is unsound; return what is said, once the file is seen unchanged."""
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        read(path, create=create)
    assert path.read_bytes() == before
    name, _, message = str(caught.value).partition(": ")
    assert name == str(path)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("content", [b"m,n,k,us\n16,64,64,5.5\n" * 9, b"\0" * 5000, b"SQLite"])
def test_a_file_of_another_kind_is_refused(path: Path, content: bytes, *, create: bool) -> None:
    path.write_bytes(content)
    message = "cannot be used as a store (file is not a database)"
    assert fault(path, create=create) == message


@pytest.mark.parametrize("create", [False, True])
def test_a_database_of_somebody_else_is_refused(path: Path, *, create: bool) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE trials (id INTEGER)")
    message = "an SQLite database, but not one of mxtune's stores"
    assert fault(path, create=create) == message


@pytest.mark.parametrize("create", [False, True])
def test_a_newer_store_is_refused_with_both_versions(path: Path, *, create: bool) -> None:
    fill(path, "PRAGMA user_version = 3")
    assert fault(path, create=create) == "store version 3; this mxtune reads version 2"


# BL-053: a run that left nothing
def test_an_empty_file_is_refused_unless_a_store_is_to_be_made(path: Path) -> None:
    path.touch()
    assert fault(path) == "an empty file; a sweep makes a store"
    Store.open(path, create=True).close()
    store = Store.open(path)
    assert store.sessions() == {}
    store.close()


def test_a_run_killed_before_it_made_its_tables_is_begun_again(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert fault(path) == "an empty file; a sweep makes a store"
    fill(path)
    assert len(list(Store.open(path).trials(1))) == 200


def test_a_missing_file_is_not_made(path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert str(caught.value) == f"{path}: no such store; a sweep makes one"
    assert not path.exists()


def test_a_folder_or_a_pipe_is_no_store(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    for place in (path, tmp_path):
        with pytest.raises(StoreError) as caught:
            Store.open(place)
        assert str(caught.value) == f"{place}: no such store; a sweep makes one"


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("page", range(8))
def test_a_page_of_rubbish_is_refused(path: Path, page: int, *, create: bool) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(range(255, -1, -1)) * 16)
    message = fault(path, create=create)
    assert message.startswith(("damaged (", "cannot be used as a store ("))


@pytest.mark.parametrize("create", [False, True])
def test_a_store_cut_off_is_refused(path: Path, *, create: bool) -> None:
    fill(path)
    os.truncate(path, 4096 * 5 + 100)
    assert "cannot be used as a store (" in fault(path, create=create)


# what SQLite's own check does not see: the pages are sound, the rows are not
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trials SET samples_us = '[5.2' WHERE id = 9",
        "UPDATE trials SET config = '' WHERE id = 9",
        "UPDATE trials SET facts = CAST(x'ff' AS TEXT) WHERE id = 9",
        "UPDATE trials SET k = 33 WHERE id = 9",
        "UPDATE trials SET m = 'many' WHERE id = 9",
        "UPDATE trials SET samples_us = '7' WHERE id = 9",
        "UPDATE sessions SET provenance = '{'",
        "ALTER TABLE trials RENAME COLUMN facts TO notes",
        "DROP TABLE sessions",
    ],
)
def test_a_damaged_row_is_refused(path: Path, statement: str) -> None:
    fill(path, "PRAGMA foreign_keys = OFF", statement)
    assert fault(path).startswith("cannot be read (")


def torn(path: Path, folder: Path, tail: bytes, cut: int) -> Path:
    """Return a copy of a store whose last write is torn: ``cut`` bytes less, then ``tail``."""
    store = Store.open(path, create=True)
    number = store.session(Session("key", {}))
    for m in range(1, 21):
        store.add(number, Trial(Shape(m, 64, 64), Route("direct", Config()), "screen", "ok"))
    copy = folder / "torn.sqlite"
    copy.write_bytes(path.read_bytes())
    journal = Path(f"{path}-wal").read_bytes()
    Path(f"{copy}-wal").write_bytes(journal[: len(journal) - cut] + tail)
    store.close()
    return copy


# BL-049: a write that was cut short, and what a disk may have put in its place
@pytest.mark.parametrize("cut", [1, 24, 100, 4096, 4120, 4121, 9000])
@pytest.mark.parametrize("tail", [b"", b"\0" * 5000, bytes(range(256)) * 20])
def test_a_torn_write_costs_no_more_than_itself(
    path: Path, tmp_path: Path, tail: bytes, cut: int
) -> None:
    copy = torn(path, tmp_path, tail, cut)
    kept = [trial.shape.m for trial in read(copy, create=False)]
    assert kept in (list(range(1, n + 1)) for n in range(17, 20))
    store = Store.open(copy, create=True)  # a sweep goes on
    store.add(1, Trial(Shape(99, 64, 64), Route("direct", Config()), "screen", "ok"))
    assert [trial.shape.m for trial in store.trials(1)] == [*kept, 99]
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store.close()


# BL-054: opening one must not wait for ever, nor replace it
def test_a_pipe_or_a_folder_is_not_made_a_store(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    for place in (path, tmp_path):
        with pytest.raises(StoreError) as caught:
            Store.open(place, create=True)
        assert str(caught.value).startswith(f"{place}: cannot be used as a store (")
    assert path.is_fifo()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_store_is_refused(path: Path) -> None:  # BL-054
    fill(path)
    path.chmod(0)
    with pytest.raises(StoreError, match="cannot be used as a store"):
        Store.open(path)


def test_a_large_file_of_zeros_is_refused_at_once(path: Path) -> None:  # BL-054
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(StoreError, match="file is not a database"):
        Store.open(path)
