"""Every second of a worker is entered once, in the account of what it was for."""

import time

import pytest

from mxtune.tuner.check import Verdict
from mxtune.tuner.ledger import Ledger
from mxtune.tuner.measure import Screened
from mxtune.tuner.worker import Outcome

RIGHT = Verdict(ok=True)


def begun(seconds_ago: float) -> Ledger:
    return Ledger(begin_s=time.monotonic() - seconds_ago)


def test_seconds_add_up_by_account_and_family() -> None:
    ledger = begun(0)
    ledger.spent("compile", "fused", Outcome("done", seconds=1.0))
    ledger.spent("compile", "fused", Outcome("raised", seconds=0.5))
    ledger.spent("compile", "direct", Outcome("done", seconds=2.0))
    ledger.spent("time", "finals", Outcome("done", seconds=4.0))
    assert ledger.seconds == {
        ("compile", "fused"): 1.5,
        ("compile", "direct"): 2.0,
        ("time", "finals"): 4.0,
    }


def test_what_a_crash_or_a_hang_took_of_a_gpu_is_lost() -> None:
    ledger = begun(0)
    ledger.spent("compile", "fused", Outcome("crashed", seconds=1.0))
    ledger.spent("time", "fused", Outcome("hung", seconds=10.0))
    ledger.screened("direct", Outcome("hung", seconds=7.0))
    assert ledger.seconds == {
        ("compile", "fused"): 1.0,
        ("lost", "fused"): 10.0,
        ("lost", "direct"): 7.0,
    }


def test_a_first_look_is_a_check_and_its_timing() -> None:
    ledger = begun(0)
    looked = Screened(RIGHT, (5.0,), check_s=0.25, time_s=0.5)
    ledger.screened("fused", Outcome("done", looked, seconds=2.0))
    assert ledger.seconds == {("check", "fused"): 1.5, ("time", "fused"): 0.5}


def test_a_first_look_that_raised_was_spent_checking() -> None:
    ledger = begun(0)
    ledger.screened("fused", Outcome("raised", seconds=2.0))
    assert ledger.seconds == {("check", "fused"): 2.0}


def test_lanes_are_idle_for_what_they_were_not_busy() -> None:
    ledger = begun(100)
    ledger.spent("compile", "fused", Outcome("done", seconds=70.0))  # on the cores
    ledger.spent("check", "fused", Outcome("done", seconds=30.0))
    ledger.spent("time", "direct", Outcome("done", seconds=20.0))
    ledger.spent("time", "direct", Outcome("hung", seconds=10.0))
    totals = ledger.totals(lanes=2)
    assert totals == pytest.approx(
        {"compile": 70, "check": 30, "time": 20, "lost": 10, "idle": 140, "wall": 100}, abs=1
    )


def test_without_lanes_nothing_is_idle() -> None:
    assert begun(100).totals(lanes=0)["idle"] == 0.0


def test_lanes_that_were_busy_all_the_time_were_never_idle() -> None:
    ledger = begun(1)
    ledger.spent("time", "fused", Outcome("done", seconds=500.0))
    assert ledger.totals(lanes=1)["idle"] == 0.0


def test_rows_are_sorted_and_rounded_to_a_millisecond() -> None:
    ledger = begun(0)
    ledger.spent("time", "fused", Outcome("done", seconds=1.23456))
    ledger.spent("compile", "splitk", Outcome("done", seconds=2.0))
    ledger.spent("compile", "direct", Outcome("done", seconds=3.0))
    assert list(ledger.rows()) == [
        {"account": "compile", "family": "direct", "seconds": 3.0},
        {"account": "compile", "family": "splitk", "seconds": 2.0},
        {"account": "time", "family": "fused", "seconds": 1.235},
    ]
