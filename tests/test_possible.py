"""A reading that no GPU of the kind can have made is a fault of its clock, and never chosen."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mxtune.results.choose import ranking
from mxtune.results.trial import Trial
from mxtune.tuner.measured import possible

Trials = Callable[..., Trial]


@pytest.mark.parametrize("samples", [(2.0,), (2.0, 2.0, 0.5), (0.0, 2.0, 2.0), (9.0, 9.0, -1.0)])
def test_a_reading_that_is_not_below_the_bound_stands(
    trial_of: Trials, samples: tuple[float, ...]
) -> None:
    trial = trial_of(16, *samples)
    assert possible(trial, 2.0) == trial


@pytest.mark.parametrize(
    ("samples", "read"),
    [
        ((1.999,), "1.999"),
        ((0.5, 0.5, 9.0), "0.500"),
        ((0.0, 0.0, 9.0), "0.000"),  # most rounds read nothing, whatever the others read
        ((0.0, 9.0), "0.000"),
        ((), "0.000"),
        ((float("inf"), float("nan"), 9.0), "0.000"),
    ],
)
def test_a_reading_below_the_bound_is_wrong(
    trial_of: Trials, samples: tuple[float, ...], read: str
) -> None:
    trial = trial_of(16, *samples)
    judged = possible(trial, 2.0)
    assert judged.reason == f"impossible: it reads {read} us, moving its bytes takes 2.000"
    assert judged == replace(trial, state="wrong", reason=judged.reason)


def test_a_trial_that_failed_keeps_its_own_reason(trial_of: Trials) -> None:
    failed = replace(trial_of(16, state="wrong"), reason="3 of 64 wrong")
    assert possible(failed, 2.0) == failed


def test_an_impossible_final_takes_the_route_out(trial_of: Trials) -> None:
    screened = [trial_of(16, 3.0), trial_of(32, 4.0)]
    finals = [possible(trial_of(16, 0.5, stage="final"), 2.0), trial_of(32, 4.0, stage="final")]
    assert [t.route.config["BLOCK_M"] for t in ranking([*screened, *finals])] == [32]
