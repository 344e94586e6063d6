"""A store becomes a route table: of the newest session, or of the one that is named."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import ConfigError, NoRouteError, StoreError
from mxtune.configs.table import RouteTable
from mxtune.results import exports
from mxtune.results.export import routes_of, store_file
from mxtune.results.store import Store
from mxtune.results.trial import Session, Trial

Trials = Callable[..., Trial]
Sessions = Callable[[Mapping[str, Any]], Session]


def export(path: Path, out: Path, session: str | None) -> RouteTable:
    """Export a store as the command does, and read what it wrote."""
    exports.export(exports.ExportWish(path, "routes", out, session))
    return RouteTable.load(out)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep" / "trials.sqlite"


@pytest.fixture
def sessions(session_with: Sessions) -> tuple[Session, Session]:
    """Two sessions that differ in the version of Triton."""
    return session_with({"triton": "3.6.0"}), session_with({"triton": "3.7.0"})


def fill(path: Path, session: Session, *trials: Trial) -> None:
    store = Store.open(path, create=True)
    number = store.session(session)
    for trial in trials:
        store.add(number, trial)
    store.close()


def refusal(path: Path, session: str | None) -> str:
    with pytest.raises(StoreError) as caught:
        routes_of(path, session)
    return str(caught.value)


def test_the_same_store_gives_the_same_bytes(
    path: Path, tmp_path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 5.0), trial_of(32, 4.0), trial_of(16, 6.0, stage="final"))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    table = export(path, first, None)
    export(path, second, None)
    assert first.read_bytes() == second.read_bytes()
    assert RouteTable.load(first) == table


def test_the_table_holds_what_was_measured(
    path: Path, tmp_path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 5.0, 4.0, 6.0), trial_of(32, 9.0))
    export(path, tmp_path / "routes.json", None)
    body: dict[str, Any] = json.loads((tmp_path / "routes.json").read_text("utf-8"))
    (entry,) = body["routes"]
    assert (entry["shape"], entry["family"]) == ([64, 128, 512], "direct")
    assert entry["config"]["BLOCK_M"] == 16
    assert entry["evidence"]["median_us"] == 5.0
    assert entry["evidence"]["runner_up"]["us"] == 9.0
    assert body["device"]["arch"] == "sm_90"
    assert body["made"]["triton"] == "3.6.0"


def test_a_store_with_two_sessions_exports_the_newest(
    path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    old, new = sessions
    fill(path, old, trial_of(16, 1.0))
    fill(path, new, trial_of(32, 5.0))
    table = routes_of(path, None)
    assert table.made.triton == "3.7.0"
    assert [entry.config["BLOCK_M"] for entry in table.routes] == [32]


def test_a_session_is_named_by_the_beginning_of_its_key(
    path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 1.0))
    fill(path, sessions[1], trial_of(32, 5.0))
    for session, block_m in zip(sessions, (16, 32), strict=True):
        for name in (session.key, session.key[:6]):
            assert routes_of(path, name).routes[0].config["BLOCK_M"] == block_m


def test_an_unknown_session_is_answered_with_those_there_are(
    path: Path, sessions: tuple[Session, Session]
) -> None:
    old, new = sessions
    fill(path, old)
    fill(path, new)
    known = f"it has {old.key}, {new.key}"
    assert refusal(path, "xyz") == f"{path}: no session 'xyz'; {known}"
    assert refusal(path, f"{new.key}0") == f"{path}: no session '{new.key}0'; {known}"


def test_a_beginning_that_two_sessions_share_names_neither(
    path: Path, session_with: Sessions
) -> None:
    provenance = session_with({}).provenance
    for key in ("abc1", "abc2"):
        fill(path, Session(key, provenance))
    assert refusal(path, "abc") == f"{path}: more than one session 'abc'; it has abc1, abc2"


# BL-053: a run that left nothing
def test_an_empty_store_says_so_and_writes_nothing(path: Path, tmp_path: Path) -> None:
    Store.open(path, create=True).close()
    with pytest.raises(StoreError) as caught:
        export(path, tmp_path / "routes.json", None)
    assert str(caught.value) == f"{path}: no results in it; run a sweep first"
    assert not (tmp_path / "routes.json").exists()


def test_a_session_with_nothing_right_leaves_the_old_table(
    path: Path, tmp_path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 1.0, state="wrong"))
    (tmp_path / "routes.json").write_text("old", "utf-8")
    with pytest.raises(NoRouteError, match="no shape has a route that was found right"):
        export(path, tmp_path / "routes.json", None)
    assert (tmp_path / "routes.json").read_text("utf-8") == "old"


def test_a_table_that_cannot_be_written_leaves_the_store(
    path: Path, tmp_path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 1.0))
    with pytest.raises(ConfigError, match="not a file"):
        export(path, tmp_path, None)
    assert routes_of(path, None).routes[0].config["BLOCK_M"] == 16


def test_a_folder_means_the_store_in_it(path: Path) -> None:
    path.parent.mkdir()
    assert store_file(path.parent) == path
    assert store_file(path) == path
    assert store_file(path.parent / "none") == path.parent / "none"


def test_a_shape_tried_twice_stands_once_in_the_table(  # BL-051
    path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    twice = [trial_of(16, 5.0), trial_of(32, 6.0), trial_of(16, 9.0), trial_of(32, 6.5)]
    fill(path, sessions[0], *twice)
    (entry,) = routes_of(path, None).routes
    assert entry.config["BLOCK_M"] == 32  # the later look counts


def test_a_session_that_lacks_something_is_one_line_that_names_it(  # BL-059
    path: Path, session_with: Sessions, trial_of: Trials
) -> None:
    whole = session_with({"unknown": "is ignored"})
    lacking = {name: v for name, v in whole.provenance.items() if name != "device_description"}
    fill(path, whole, trial_of(16, 5.0))
    fill(path, Session("lacking", lacking), trial_of(16, 5.0))
    assert refusal(path, "lacking") == (
        f"{path}: no table can be made of it ('device_description')"
    )
    assert len(routes_of(path, whole.key).routes) == 1


def test_a_trial_that_lacks_its_check_is_one_line(  # BL-059
    path: Path, sessions: tuple[Session, Session], trial_of: Trials
) -> None:
    fill(path, sessions[0], trial_of(16, 5.0, facts={"objects": {"lds_bytes": 1}}))
    assert refusal(path, None) == f"{path}: no table can be made of it ('checked_shape')"
