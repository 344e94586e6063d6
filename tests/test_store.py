"""What was written to a store is there again, whoever writes beside and whatever is killed."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import StoreError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.store import Store
from mxtune.results.trial import BASELINE, Session, Trial

SHAPE = Shape(16, 2112, 7168)
TRIAL = Trial(
    shape=SHAPE,
    route=Route("splitk", Config.of({"split_k": 7, "BLOCK_M": 16, "cache_modifier": ".cg"})),
    stage="screen",
    state="ok",
    reason="über \u2713 \n two lines",
    samples_us=(5.25, 0.1, 7.0),
    facts={"worst": 0.25, "objects": {"vgpr": None, "spills": 0}, "checked_shape": [16, 32, 64]},
)
Sessions = Callable[[Mapping[str, Any]], Session]

# Writes a trial for every M; says the number of each once it is in the store.
WRITER = """
import sys
from pathlib import Path
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.store import Store
from mxtune.results.trial import Session, Trial

store = Store.open(Path(sys.argv[1]), create=True)
number = store.session(Session("key", {}))
for m in range(int(sys.argv[2]), int(sys.argv[3]) + 1):
    store.add(number, Trial(Shape(m, 64, 64), Route("direct", Config()), "screen", "hung"))
    print(m, flush=True)
"""


def writing(path: Path, first: int, last: int) -> "subprocess.Popen[str]":
    """Start a process that writes a trial for every M from ``first`` to ``last``."""
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "trials.sqlite"


def reopened(path: Path, *trials: Trial) -> Store:
    """Write ``trials`` to a session of a new store and open it again."""
    store = Store.open(path, create=True)
    number = store.session(Session("key", {}))
    for trial in trials:
        store.add(number, trial)
    store.close()
    return Store.open(path)


def test_a_trial_comes_back_equal(path: Path) -> None:
    plain = Trial(Shape(1, 1, 32), BASELINE, "final", "hung")
    assert list(reopened(path, TRIAL, plain, TRIAL).trials(1)) == [TRIAL, plain, TRIAL]


def test_samples_come_back_to_the_last_bit(path: Path) -> None:
    samples = (0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308)
    trial = Trial(SHAPE, BASELINE, "final", "ok", samples_us=samples)
    assert next(reopened(path, trial).trials(1)).samples_us == samples


def test_the_trials_of_one_shape_are_only_those(path: Path) -> None:
    other = Trial(Shape(16, 2112, 7136), BASELINE, "final", "ok", samples_us=(1.0,))
    store = reopened(path, TRIAL, other, TRIAL)
    assert list(store.trials(1, SHAPE)) == [TRIAL, TRIAL]
    assert list(store.trials(1, Shape(16, 2112, 7136))) == [other]
    assert list(store.trials(1, Shape(1, 2112, 7168))) == []
    assert list(store.trials(2)) == []


def test_a_store_takes_more_after_it_was_opened_again(path: Path) -> None:
    store = reopened(path, TRIAL)
    store.add(store.session(Session("key", {})), TRIAL)
    store.close()
    assert list(Store.open(path).trials(1)) == [TRIAL, TRIAL]


def test_opening_to_create_keeps_what_is_there(path: Path) -> None:
    reopened(path, TRIAL).close()
    assert list(Store.open(path, create=True).trials(1)) == [TRIAL]


def test_a_session_is_the_same_at_another_time(path: Path, session_with: Sessions) -> None:
    store = Store.open(path, create=True)
    first = session_with({"at": "2026-01-02T03:04:05+00:00"})
    later = session_with({"at": "2026-02-03T04:05:06+00:00", "mxtune": "0.2.0"})
    assert store.session(first) == store.session(later) == 1
    assert store.sessions() == {1: first}


@pytest.mark.parametrize(
    "changed",
    [
        {"arch": "gfx950"},
        {"device": "NVIDIA H100"},
        {"kind": "modelled"},
        {"torch": "2.12.0"},
        {"triton": "3.7.0"},
        {"driver": "581.0"},
        {"rule": "floor"},
        {"regime": "warm"},
        {"code": "fedcba9876543210"},
    ],
)
def test_what_makes_trials_incomparable_makes_another_session(
    path: Path, session_with: Sessions, changed: dict[str, str]
) -> None:
    store = Store.open(path, create=True)
    assert store.session(session_with({})) == 1
    assert store.session(session_with(changed)) == 2
    assert list(store.sessions()) == [1, 2]


def test_sessions_keep_their_trials_apart(path: Path, session_with: Sessions) -> None:
    store = Store.open(path, create=True)
    old, new = (store.session(session_with({"triton": v})) for v in ("3.6.0", "3.7.0"))
    store.add(new, TRIAL)
    assert list(store.trials(old)) == []
    assert list(store.trials(new)) == [TRIAL]


def test_a_reader_sees_what_another_connection_wrote(path: Path) -> None:
    writer, reader = reopened(path), Store.open(path)
    writer.add(1, TRIAL)
    assert list(reader.trials(1)) == [TRIAL]


def test_two_processes_that_make_and_fill_one_store_lose_nothing(path: Path) -> None:
    with writing(path, 1, 100) as one, writing(path, 1001, 1100) as other:
        said = one.communicate()[0].splitlines() + other.communicate()[0].splitlines()
    assert (one.returncode, other.returncode, len(said)) == (0, 0, 200)
    found = sorted(trial.shape.m for trial in Store.open(path).trials(1))
    assert found == [*range(1, 101), *range(1001, 1101)]


@pytest.mark.parametrize("acknowledged", [1, 57, 400])
def test_a_writer_that_is_killed_loses_no_trial_that_it_was_told_is_kept(
    path: Path, acknowledged: int
) -> None:
    with writing(path, 1, 1_000_000) as writer:
        assert writer.stdout
        for line in writer.stdout:
            if int(line) == acknowledged:
                break
        writer.kill()
        said = [int(line) for line in writer.stdout.read().splitlines()]
    assert writer.returncode == -signal.SIGKILL
    last = said[-1] if said else acknowledged
    kept = [trial.shape.m for trial in Store.open(path).trials(1)]
    assert kept in (list(range(1, last + 1)), list(range(1, last + 2)))
    store = Store.open(path, create=True)
    store.add(1, TRIAL)
    assert list(store.trials(1, SHAPE))[-1] == TRIAL


def test_a_store_that_cannot_be_written_says_so_and_keeps_the_rest(path: Path) -> None:
    store = reopened(path, TRIAL)
    store.connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StoreError) as caught:
        store.add(1, TRIAL)
    assert str(caught.value) == (
        f"{path}: cannot write (attempt to write a readonly database);"
        " what was written before is kept"
    )
    assert list(store.trials(1)) == [TRIAL]
