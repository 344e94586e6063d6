"""A task: every candidate of a shape is accounted for, and none is tried twice."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import Candidates
from mxtune.kernels.registry import own_families
from mxtune.results.trial import BASELINE, FLOOR, Stage, State, Trial
from mxtune.tuner.model import score_us
from mxtune.tuner.task import Task, make_task, state_of
from mxtune.tuner.worker import Outcome

MI355X = load_device("gfx950")
OTHER = replace(MI355X, arch="gfx1250")  # tries few values, as devices without a space do
SHAPE = Shape(1, 32, 128)
A, B, C, D = (Route("fused", Config.of({"BLOCK_M": m})) for m in (16, 32, 64, 128))


def task(*trials: Trial, rejected: Mapping[str, int] | None = None) -> Task:
    """Return the task of four candidates, the last of them beyond the limit."""
    found = Candidates((A, B, C, D), points=9, collapsed=2, rejected=rejected or {}, pruned=())
    return Task(SHAPE, MI355X, found, (A, B, C), list(trials), goal=3)


def trial(
    route: Route, stage: Stage = "screen", state: State = "ok", reason: str = "", score: float = 5.0
) -> Trial:
    return Trial(SHAPE, route, stage, state, reason, facts={"score_us": score})


def all_families(most: int | None, *known: Trial) -> Task:
    return make_task(Shape(16, 128, 128), own_families(), OTHER, most, known)


def test_a_candidate_is_untried_until_its_first_look() -> None:
    half = task(trial(A), trial(C, state="crashed"))
    assert half.untried == [B]
    assert (half.looked_at, len(half.ranked), half.skipped) == (2, 3, 2)


def test_a_check_is_no_first_look() -> None:
    assert task(trial(A, "check")).untried == [A, B, C]


def test_every_candidate_that_was_tried_has_one_state() -> None:
    states = task(trial(A), trial(B, state="hung"), trial(C, state="failed_compile")).states()
    assert states == {"ok": 1, "hung": 1, "failed_compile": 1}


def test_the_latest_word_on_a_candidate_counts() -> None:
    states = task(trial(A), trial(B), trial(A, "check", "wrong"), trial(B, "check")).states()
    assert states == {"wrong": 1, "ok": 1}


def test_what_was_timed_beside_the_candidates_is_none() -> None:
    assert task(trial(BASELINE, "final"), trial(FLOOR, "final")).states() == {}


def test_a_shape_is_solved_once_a_route_was_found_right() -> None:
    assert not task(trial(A)).solved
    assert not task(trial(A), trial(A, "check", "wrong")).solved
    assert task(trial(A), trial(A, "check", "wrong"), trial(B), trial(B, "check")).solved


def test_the_first_failure_tells_why_a_shape_is_unsolved() -> None:
    failed = task(trial(A), trial(B, state="crashed", reason="SIGSEGV"), trial(C, state="hung"))
    assert failed.first_failure == "SIGSEGV"


def test_without_a_trial_the_commonest_refusal_tells() -> None:
    refused = task(rejected={"fused: too wide": 3, "direct: too deep": 40})
    assert refused.first_failure == "direct: too deep"


def test_a_limit_takes_the_best_and_every_third_from_the_families_in_turn() -> None:
    everything = all_families(None)
    fused, direct, ready = ["fused"], ["direct"], ["fused_preshuffle"]
    begin = 4 * fused + ready + 2 * fused + direct + ready
    assert [r.family for r in everything.ranked] == begin + 5 * direct
    assert [r.family for r in all_families(8).ranked] == begin[:8]
    assert all_families(3).ranked == everything.ranked[:3]
    assert len(everything.ranked) == 14
    assert all_families(3).skipped == 14


def test_each_family_ranks_its_candidates_by_the_model() -> None:
    everything = all_families(None)
    for name, count in (("fused", 6), ("direct", 6), ("fused_preshuffle", 2)):
        routes = [route for route in everything.ranked if route.family == name]
        scores = [score_us(everything.steps(route), OTHER) for route in routes]
        assert len(scores) == count
        assert scores == sorted(scores)


def test_known_trials_are_taken_in_but_for_families_that_are_gone() -> None:
    best, worst = all_families(None).ranked[0], all_families(None).ranked[-1]
    known = (trial(best), trial(worst), trial(FLOOR, "final"), trial(Route("gone", Config())))
    resumed = all_families(2, *known)
    assert resumed.trials == list(known[:3])
    assert resumed.untried == list(resumed.ranked[1:])


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome("crashed", reason="SIGSEGV"), "crashed"),
        (Outcome("crashed", reason="SIGTERM"), "skipped"),
        (Outcome("hung"), "hung"),
        (Outcome("raised", error="OutOfLdsError"), "out_of_resources"),
        (Outcome("raised", error="OutOfResources"), "out_of_resources"),
        (Outcome("raised", error="OutOfMemoryError"), "oom"),
        (Outcome("raised", error="MemoryError"), "oom"),
        (Outcome("raised", error="CompilationError"), "failed_compile"),
    ],
)
def test_an_outcome_is_translated_into_a_state(outcome: Outcome, state: State) -> None:
    assert state_of(outcome, otherwise="failed_compile") == state


def test_what_the_machine_lacks_is_no_fault_of_a_candidate() -> None:
    lacking = Outcome("raised", error="MissingError", reason="MissingError: numpy is not installed")
    with pytest.raises(MissingError, match=r"^numpy is not installed$"):
        state_of(lacking, otherwise="failed_compile")
