"""The fastest of what was right is chosen, and the table says what that rests on."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mxtune.configs.errors import NoRouteError
from mxtune.configs.evidence import Measured, Modelled
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.results.choose import ranking, table_of
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial

SHAPE = Shape(64, 128, 512)
Trials = Callable[..., Trial]
Sessions = Callable[[Mapping[str, Any]], Session]
OBJECTS = {"lds_bytes": 4096, "vgpr": 128, "spills": 0, "scaled_mfma": 16}


def order(*trials: Trial) -> list[int]:
    """Return the BLOCK_M of the trials that may be chosen, the best first."""
    return [trial.route.config.number("BLOCK_M") for trial in ranking(trials)]


def measured(table: RouteTable) -> Measured:
    evidence = table.routes[0].evidence
    assert isinstance(evidence, Measured)
    return evidence


def test_the_smaller_median_wins(trial_of: Trials) -> None:
    assert order(trial_of(16, 1.0, 9.0, 9.0), trial_of(32, 8.0, 8.0, 99.0)) == [32, 16]


@pytest.mark.parametrize(
    "state",
    ["wrong", "failed_compile", "out_of_resources", "crashed", "hung", "oom", "skipped"],
)
def test_a_candidate_that_failed_never_wins_however_fast(trial_of: Trials, state: str) -> None:
    assert order(trial_of(16, 0.5, state=state), trial_of(32, 8.0)) == [32]


def test_finals_beat_screening_and_the_rest_comes_after_them(trial_of: Trials) -> None:
    screened = [trial_of(16, 5.0), trial_of(32, 4.0), trial_of(64, 3.0), trial_of(128, 1.0)]
    finals = [trial_of(16, 6.0, stage="final"), trial_of(32, 7.0, stage="final")]
    assert order(*screened, *finals) == [16, 32, 128, 64]


def test_finals_that_were_lost_leave_the_screening_to_decide(trial_of: Trials) -> None:
    lost = [trial_of(m, stage="final", state="crashed") for m in (16, 32)]
    assert order(trial_of(16, 5.0), trial_of(32, 4.0), *lost) == [32, 16]


def test_a_final_counts_only_for_a_route_that_passed_its_screening(trial_of: Trials) -> None:
    assert order(trial_of(16, 1.0, stage="final"), trial_of(32, 4.0)) == [32]
    crashed = trial_of(16, state="crashed")
    assert order(crashed, trial_of(16, 1.0, stage="final"), trial_of(32, 4.0)) == [32]


@pytest.mark.parametrize("stage", ["final", "check"])
def test_a_route_that_was_wrong_later_is_out(trial_of: Trials, stage: str) -> None:
    late = trial_of(16, stage=stage, state="wrong")
    assert order(trial_of(16, 1.0), trial_of(32, 4.0), late) == [32]


# BL-056: a clock too coarse reads zero or less
@pytest.mark.parametrize("reading", [0.0, -0.002, 0.0004, float("inf"), float("nan")])
def test_a_reading_that_is_no_time_never_wins(
    trial_of: Trials, session_with: Sessions, reading: float
) -> None:
    trials = [trial_of(16, reading, reading), trial_of(32, 5.0), trial_of(64, reading, 6.0)]
    assert order(*trials) == [32, 64]
    found = measured(table_of(session_with({}), trials))
    assert (found.median_us, found.rounds) == (5.0, 1)
    assert found.runner_up is not None
    assert found.runner_up.us == 6.0


def test_readings_that_are_no_times_are_left_out_of_every_figure(
    trial_of: Trials, session_with: Sessions
) -> None:
    found = measured(table_of(session_with({}), [trial_of(16, 0.0, 4.0, -1.0, 5.0)]))
    assert (found.median_us, found.low_us, found.high_us, found.rounds) == (4.5, 4.1, 4.9, 2)


def test_equal_times_go_by_name_whatever_the_order_of_the_trials(trial_of: Trials) -> None:
    trials = [trial_of(m, 5.0) for m in (16, 32, 64)]
    trials += [trial_of(m, 7.0, stage="final") for m in (16, 32)]
    orders = {tuple(order(*some)) for some in itertools.permutations(trials)}
    assert orders == {(16, 32, 64)}


def test_the_order_of_the_trials_does_not_change_the_table(
    trial_of: Trials, session_with: Sessions
) -> None:
    trials = [trial_of(m, 5.0, shape=(s, 128, 512)) for m in (16, 32) for s in (64, 256)]
    texts = {table_of(session_with({}), some).text() for some in itertools.permutations(trials)}
    assert len(texts) == 1


def test_nothing_right_is_no_route(trial_of: Trials, session_with: Sessions) -> None:
    for trials in ([], [trial_of(16, 1.0, state="wrong")], [trial_of(16)], [trial_of(16, 0.0)]):
        with pytest.raises(NoRouteError) as caught:
            table_of(session_with({}), trials)
        assert str(caught.value) == ("no shape has a route that was found right; nothing to write")


def test_a_shape_without_a_right_route_is_left_out(
    trial_of: Trials, session_with: Sessions
) -> None:
    trials = [trial_of(16, 5.0), trial_of(16, 5.0, state="wrong", shape=(32, 128, 512))]
    assert [e.shape for e in table_of(session_with({}), trials).routes] == [(64, 128, 512)]


def test_the_baseline_and_the_floor_are_told_and_never_chosen(
    trial_of: Trials, session_with: Sessions
) -> None:
    beside = [
        Trial(SHAPE, BASELINE, "final", "ok", samples_us=(3.0, 3.5, 9.0)),
        Trial(SHAPE, FLOOR, "final", "ok", samples_us=(1.0, 1.25, 1.5)),
    ]
    assert order(*beside, trial_of(16, 5.0), trial_of(16, 6.0, stage="final")) == [16]
    found = measured(table_of(session_with({}), [trial_of(16, 5.0), *beside]))
    assert (found.baseline, found.baseline_us, found.floor_us) == ("torch.mm bf16", 3.5, 1.25)
    assert found.runner_up is None


def test_a_baseline_that_failed_or_read_nothing_is_not_told(
    trial_of: Trials, session_with: Sessions
) -> None:
    beside = [
        Trial(SHAPE, BASELINE, "final", "crashed"),
        Trial(SHAPE, FLOOR, "final", "ok", samples_us=(0.0, -0.5)),
    ]
    found = measured(table_of(session_with({}), [trial_of(16, 5.0), *beside]))
    assert (found.baseline, found.baseline_us, found.floor_us) == ("", None, None)


def test_a_measured_route_tells_its_spread_its_check_and_who_came_second(
    trial_of: Trials, session_with: Sessions
) -> None:
    samples = (11.0, 1.0, 10.0, 2.0, 9.0, 3.0, 8.0, 4.0, 7.0, 5.0, 6.0)
    trials = [trial_of(16, 9.0), trial_of(32, 9.5), trial_of(16, *samples, stage="final")]
    table = table_of(session_with({}), trials)
    found = measured(table)
    assert (table.routes[0].family, table.routes[0].config["BLOCK_M"]) == ("direct", 16)
    assert (found.low_us, found.median_us, found.high_us, found.rounds) == (2.0, 6.0, 10.0, 11)
    assert found.deterministic
    assert (found.error.where, found.error.shape, found.error.seeds) == ("gpu", (64, 128, 512), 2)
    assert (found.error.worst, found.error.largest_error) == (0.25, 0.125)
    assert found.objects.lds_bytes == 4096
    assert found.runner_up is not None
    assert (found.runner_up.us, found.runner_up.config["BLOCK_M"]) == (9.5, 32)


def test_one_sample_is_its_own_spread(trial_of: Trials, session_with: Sessions) -> None:
    found = measured(table_of(session_with({}), [trial_of(16, 4.5678)]))
    assert (found.low_us, found.median_us, found.high_us) == (4.568, 4.568, 4.568)


def test_a_screening_that_was_repeated_counts_by_the_one_that_went_well(
    trial_of: Trials, session_with: Sessions
) -> None:
    trials = [trial_of(16, state="crashed", facts={}), trial_of(16, 5.0)]
    assert measured(table_of(session_with({}), trials)).median_us == 5.0


def test_a_table_names_the_device_the_versions_and_a_default(
    trial_of: Trials, session_with: Sessions
) -> None:
    table = table_of(session_with({}), [trial_of(16, 5.0)])
    assert (table.device.arch, table.device.compute_units) == ("sm_90", 132)
    assert (table.made.at, table.made.triton, table.made.aiter) == (
        "2026-01-02T03:04:05+00:00",
        "3.6.0",
        None,
    )
    assert table.default is not None
    assert (table.default.family, table.default.config["BLOCK_M"]) == ("direct", 64)


def modelled(trial: Trial, score_us: float) -> Trial:
    return replace(trial, facts={"objects": OBJECTS, "score_us": score_us})


def test_without_a_passed_check_nothing_modelled_is_chosen(trial_of: Trials) -> None:
    scored = [modelled(trial_of(16), 3.0), modelled(trial_of(32), 4.0)]
    assert order(*scored) == []
    assert order(*scored, trial_of(16, stage="check", state="wrong")) == []
    assert order(*scored, trial_of(16, stage="check", state="hung")) == []
    assert order(*scored, trial_of(32, stage="check")) == [32]
    twice = [trial_of(16, stage="check"), trial_of(16, stage="check", state="wrong")]
    assert order(*scored, *twice) == []


def test_a_check_of_a_route_that_did_not_compile_chooses_nothing(trial_of: Trials) -> None:
    assert order(trial_of(16, state="failed_compile"), trial_of(16, stage="check")) == []


def test_a_modelled_route_has_a_score_a_check_and_no_time(
    trial_of: Trials, session_with: Sessions
) -> None:
    trials = [modelled(trial_of(m), us) for m, us in ((16, 3.0), (32, 4.0), (64, 5.0))]
    trials += [trial_of(16, stage="check", state="wrong"), trial_of(32, stage="check")]
    found = table_of(session_with({"kind": "modelled"}), trials).routes[0].evidence
    assert isinstance(found, Modelled)
    assert (found.score_us, found.objects.scaled_mfma) == (4.0, 16)
    assert (found.error.where, found.error.worst) == ("interpreter", 0.25)
    assert found.runner_up is not None
    assert found.runner_up.us == 5.0  # the one of 3.0 was wrong
