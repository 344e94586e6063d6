"""The drill on the CPU: all that candidates can do, through the engine of a measured sweep."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from mxtune.cli import app
from mxtune.configs.devices import load_device
from mxtune.configs.errors import MissingError
from mxtune.configs.settings import Settings
from mxtune.configs.shapes import Shape
from mxtune.results.trial import Trial
from mxtune.tuner.drill import (
    Drilled,
    Ground,
    drill_on,
    fault_task,
    faults_for,
    grounds,
    line,
    sweep_faults,
    winner,
)
from mxtune.tuner.faults import FAULTS
from mxtune.tuner.machine import Machine
from mxtune.tuner.measured import possible
from mxtune.tuner.task import Task

MI355X = load_device("gfx950")
SHAPE = Shape(16, 256, 512)
CPU = Ground("cpu", MI355X, "cpu", run_limit_s=3.0)
HERE = Machine("2.13.0", "3.9.0", "3.11", None, (), (), "no GPU is visible", ())
BAD = Drilled("cpu", "aborts", "crashed", "ok", "", 1.25, passed=False)


@dataclass(frozen=True, slots=True)
class Held:
    """A drill that was held, by what it printed."""

    exit_code: int
    results: tuple[Drilled, ...]
    seconds: float
    left: int  # children

    def __getitem__(self, kind: str) -> tuple[str, str]:
        return next((d.found, d.reason) for d in self.results if d.kind == kind)


def children() -> int:
    """Count the children of this process; Python keeps one to clean up after the others."""
    found = psutil.Process().children(recursive=True)
    return sum("resource_tracker" not in " ".join(child.cmdline()) for child in found)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    cache = str(tmp_path_factory.getbasetemp() / "triton")
    runner = CliRunner(env={"CUDA_VISIBLE_DEVICES": "-1", "TRITON_CACHE_DIR": cache})
    before, begin = children(), time.monotonic()
    shown = runner.invoke(app, ["doctor", "--drill", "--json"])
    seconds = time.monotonic() - begin
    results = tuple(Drilled(**json.loads(text)) for text in shown.stdout.splitlines())
    return Held(shown.exit_code, results, seconds, children() - before)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, "", {})


def swept(settings: Settings, *kinds: str) -> tuple[Task, list[Trial]]:
    task = fault_task([fault for fault in FAULTS if fault.kind in kinds], MI355X)
    return task, list(sweep_faults(task, CPU, settings))


def test_every_fault_is_survived(held: Held) -> None:
    assert [line(drilled) for drilled in held.results if not drilled.passed] == []
    assert held.exit_code == 0
    kinds = Counter(drilled.kind for drilled in held.results)
    expected = [fault.kind for fault in faults_for("cpu")]
    assert kinds == Counter([*expected, "states", "finals", "processes"])


def test_it_takes_less_than_90_seconds_and_leaves_no_child(held: Held) -> None:
    assert held.seconds < 90
    assert held.left == 0


def test_a_death_is_told_by_its_signal_and_the_others_are_measured(held: Held) -> None:  # BL-064
    assert held["aborts"] == ("crashed", "SIGABRT")
    assert held["segfaults"] == ("crashed", "SIGSEGV")
    assert held["exits_quietly"] == ("crashed", "exit status 0")
    assert held["correct"] == held["slow_but_correct"] == ("ok", "")


def test_a_hang_ends_at_the_limit(held: Held) -> None:  # BL-065
    assert held["hangs"] == ("hung", "no answer within 3 s")
    assert held["hangs_ignoring_sigterm"] == ("hung", "no answer within 3 s")


def test_a_compiler_that_hangs_dies_or_refuses_holds_up_nobody(held: Held) -> None:  # BL-070
    assert held["slow_compile"] == ("hung", "no answer within 3 s")
    assert held["aborts_compiler"] == ("crashed", "SIGABRT")
    assert held["breaks_compiler"][0] == "failed_compile"


def test_spent_memory_is_a_state_of_its_own(held: Held) -> None:  # BL-072
    assert held["raises_oom"][0] == held["allocates_everything"][0] == "oom"


def test_wrong_results_are_refused_however_fast(held: Held) -> None:  # BL-083, BL-084, BL-085
    wrong = {drilled.kind for drilled in held.results if drilled.found == "wrong"}
    assert wrong == {
        *("returns_zeros", "does_nothing", "scaled", "last_k_block_missing", "tile_hole"),
        *("rows_swapped", "left_half", "right_half", "adds_into_output", "changes_input", "nan"),
        *("reads_zero", "reads_zero_in_finals"),
    }


def test_states_add_up(held: Held) -> None:
    assert held["states"][0] == (
        "28 candidates: 5 crashed, 1 failed_compile, 3 hung, 4 ok, 2 oom, 13 wrong"
    )


def test_neither_luck_nor_drift_nor_a_clock_that_stands_wins(
    held: Held,
) -> None:  # BL-056, BL-078
    assert held["finals"][0] == "won by correct"
    assert held["reads_zero"] == (
        "wrong",
        "impossible: it reads 0.000 us, moving its bytes takes 0.009",
    )


@pytest.mark.parametrize(
    ("samples", "state"),
    [  # BL-056
        ((0.0,), "wrong"),
        ((-0.002,), "wrong"),
        ((0.004,), "wrong"),
        ((5.0,), "ok"),
        ((5.0, 0.0, 0.0), "wrong"),
        ((5.0, 5.0, 0.0), "ok"),
        ((), "wrong"),
    ],
)
def test_what_no_clock_can_have_read_is_wrong(samples: tuple[float, ...], state: str) -> None:
    trial = Trial(SHAPE, FAULTS[0].route, "screen", "ok", samples_us=samples)
    assert possible(trial, 0.009).state == state


def test_where_all_fail_the_shape_is_unsolved_with_the_first_reason(
    settings: Settings,
) -> None:  # BL-069
    task, _ = swept(settings, "breaks_compiler", "returns_zeros", "hangs")
    assert dict(task.states()) == {"failed_compile": 1, "wrong": 1, "hung": 1}
    assert not task.solved
    assert task.first_failure == "ValueError: a drill: the compiler cannot do this"
    assert winner(task) == ""


def test_who_dies_in_the_finals_is_found_and_the_rest_play_again(
    settings: Settings,
) -> None:  # BL-064
    task, trials = swept(settings, "correct", "aborts_in_finals", "slow_but_correct")
    finals = {
        trial.route.config.text("kind"): (trial.state, len(trial.samples_us), trial.facts)
        for trial in trials
        if trial.stage == "final" and trial.route.family == "fault"
    }
    assert finals == {
        "aborts_in_finals": ("crashed", 0, {}),
        "correct": ("ok", 100, {"heat": 1}),
        "slow_but_correct": ("ok", 100, {"heat": 1}),
    }
    assert winner(task) == "correct"


def test_a_drill_that_is_broken_off_leaves_no_child(settings: Settings) -> None:
    before = children()
    events: Iterator[Drilled] = drill_on(CPU, faults_for("cpu"), settings)
    next(events)
    assert children() > before
    events.close()  # type: ignore[attr-defined]
    assert children() == before


def test_a_fault_that_is_not_survived_is_named_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxtune.tuner.drill.drill", lambda *_: iter([BAD]))
    shown = CliRunner().invoke(app, ["doctor", "--drill"])
    assert shown.exit_code == 1
    assert shown.stdout == "   1.2 s  cpu  NOT SURVIVED  aborts: ok, expected crashed\n"


def test_a_survived_fault_is_a_line_with_its_reason() -> None:
    good = replace(BAD, found="crashed", reason="SIGABRT", passed=True)
    assert line(good) == "   1.2 s  cpu  survived  aborts: crashed (SIGABRT)"


def test_where_drills_are_held() -> None:
    assert [ground.place for ground in grounds(HERE)] == ["cpu"]
    with_gpu = replace(HERE, gpus=(MI355X,), bus_ids=("0000:75:00.0",), note="")
    assert [(ground.place, ground.gpu) for ground in grounds(with_gpu)] == [
        ("cpu", "cpu"),
        ("hip", "cuda:0"),
    ]
    assert len(grounds(replace(with_gpu, note="triton is missing"))) == 1
    with pytest.raises(MissingError, match="torch is not installed"):
        grounds(replace(HERE, torch=None))
