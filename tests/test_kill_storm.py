"""A sweep that is killed at random moments loses nothing and ends as if nobody had disturbed it."""

import fcntl
import importlib.util
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.regimes import Regime
from mxtune.configs.settings import read_settings
from mxtune.results.store import Store
from mxtune.results.trial import Trial
from mxtune.tuner.request import Request
from mxtune.tuner.search import effort_of
from mxtune.tuner.sweep import Ended, Tried, sweep
from mxtune.tuner.worker import Outcome

SCRIPT = Path(__file__).parent / "kill_storm.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_storm", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_storm"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recording(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "recording.sqlite"
    script.record(path)
    return path


def test_kills_lose_nothing(script: ModuleType, tmp_path: Path) -> None:  # BL-052
    said: list[str] = []
    found = script.storm(15, tmp_path, 1, said.append)
    assert found.faults == []
    assert found.kills == 15
    assert found.trials_told > 0


def request_with(script: ModuleType, recording: Path, out: Path, **changed: Any) -> Request:
    usual: dict[str, Any] = {
        "shapes": script.SHAPES[:1],
        "families": (),
        "most": None,
        "target": "auto",
        "out": out,
        "effort": effort_of("quick"),
        "regime": Regime(),
        "gpus": "0",
        "recording": recording,
    }
    return Request(**(usual | changed))


Replay = Callable[..., list[Any]]


@pytest.fixture
def replay(script: ModuleType, recording: Path) -> Replay:
    """Replay one shape; return the events."""

    def run(out: Path, **changed: Any) -> list[Any]:
        request = request_with(script, changed.pop("recording", recording), out, **changed)
        return list(sweep(request, script.NOTHING, read_settings()))

    return run


def tried(events: list[Any]) -> list[Trial]:
    return [event.trial for event in events if isinstance(event, Tried)]


def test_a_replay_again_writes_nothing_and_chooses_the_same(replay: Replay, tmp_path: Path) -> None:
    first, second = replay(tmp_path), replay(tmp_path)
    assert len(tried(first)) > 20
    assert tried(second) == []
    assert isinstance(first[-1], Ended)
    assert second[-1].table == first[-1].table
    assert second[-1].regrets == first[-1].regrets


def test_a_sweep_that_is_ended_early_keeps_its_accounts(
    script: ModuleType, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*given: Any) -> Iterator[Trial]:
        _, _, tasks, _, ledger, _ = given
        ledger.spent("compile", "fused", Outcome("done", seconds=2.5))
        while True:
            yield Trial(tasks[0].shape, tasks[0].ranked[0], "screen", "hung")

    monkeypatch.setattr("mxtune.tuner.sweep._trials", busy)
    request = request_with(script, recording, tmp_path)
    with closing(sweep(request, script.NOTHING, read_settings())) as events:
        assert [type(next(events)).__name__ for _ in range(3)] == ["Begun", "Tried", "Tried"]
    with closing(sqlite3.connect(tmp_path / "trials.sqlite")) as store:
        found = store.execute("SELECT session, account, family, seconds FROM ledgers").fetchall()
    assert found == [(1, "compile", "fused", 2.5)]
    assert len(script.rows(tmp_path)) == 2


def test_another_seed_in_the_same_folder_is_another_run_of_luck(
    replay: Replay, tmp_path: Path
) -> None:
    replay(tmp_path / "both", seed=1)
    beside, alone = replay(tmp_path / "both", seed=2), replay(tmp_path / "alone", seed=2)
    assert tried(beside) == tried(alone)
    assert beside[-1].table == alone[-1].table


def test_a_harder_search_in_the_same_folder_begins_anew(replay: Replay, tmp_path: Path) -> None:
    replay(tmp_path / "both")
    effort = effort_of("exhaustive")
    beside, alone = (replay(tmp_path / name, effort=effort) for name in ("both", "alone"))
    assert tried(beside) == tried(alone)
    again = replay(tmp_path / "both", effort=effort)
    assert tried(again) == []  # the leader of the finals plays in several heats: each is known


def test_a_replay_does_not_write_into_its_recording(
    replay: Replay, recording: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    store = folder / "trials.sqlite"
    store.write_bytes(recording.read_bytes())
    for named in (folder, store):
        with pytest.raises(ConfigError) as caught:
            replay(folder, recording=named)
        assert str(caught.value) == f"--out {folder}: the recording itself; name another folder"
    assert {path.name for path in folder.iterdir()} == {"trials.sqlite"}
    assert (folder / "trials.sqlite").read_bytes() == recording.read_bytes()


def test_a_shape_without_recorded_finals_has_no_regret(
    script: ModuleType, replay: Replay, recording: Path, tmp_path: Path
) -> None:
    partial = tmp_path / "partial.sqlite"
    partial.write_bytes(recording.read_bytes())
    store = Store.open(partial)
    m = script.SHAPES[1].m
    store.connection.execute("DELETE FROM trials WHERE m = ? AND stage = 'final'", (m,))
    store.close()
    ended = replay(tmp_path / "out", recording=partial, shapes=script.SHAPES[:2])[-1]
    assert [entry.key for entry in ended.table.routes] == list(script.SHAPES[:2])
    assert list(ended.regrets) == [script.SHAPES[0]]


def test_a_table_waits_for_another_that_is_being_made(  # BL-050
    script: ModuleType, recording: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with script.start(recording, out) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=3)
        assert len(script.rows(out)) > 50
        assert not (out / "routes.json").exists()
        os.close(descriptor)
    assert child.returncode == 0
    assert len(script.table(out)["routes"]) == 3
