"""How far a route reaches in M, from what the winners lose at each other's M."""

from collections.abc import Sequence

import pytest

from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.reach import reaches
from mxtune.results.trial import State, Trial

LOW, HIGH = Shape(16, 64, 256), Shape(64, 64, 256)
FIRST, SECOND = (Route(name, Config.of({"BLOCK_M": 16})) for name in ("first", "second"))
WINNERS = {LOW: FIRST, HIGH: SECOND}


def trial(shape: Shape, route: Route, us: float, state: State = "ok") -> Trial:
    return Trial(shape, route, "screen", state, samples_us=(us,))


def timed(at_low: Sequence[float], at_high: Sequence[float]) -> dict[Shape, list[Trial]]:
    """The times of both routes at both shapes."""
    return {
        shape: [trial(shape, route, us) for route, us in zip((FIRST, SECOND), times, strict=True)]
        for shape, times in ((LOW, at_low), (HIGH, at_high))
    }


@pytest.mark.parametrize(
    ("at_low", "at_high", "reach"),
    [
        ((10, 12), (12, 10), 32),  # alike: half way in log M
        ((10, 30), (11, 10), 59),  # the upper one is bad below: 16 * 4 ** (20 / 21)
        ((10, 11), (30, 10), 17),  # the lower one is bad above: 16 * 4 ** (1 / 21)
        ((10, 10), (12, 10), None),  # the upper one loses nothing below
        ((10, 12), (10, 10), 63),  # the lower one loses nothing above
        ((10, 10), (10, 10), None),
    ],
)
def test_the_edge_is_where_both_lose_as_much(
    at_low: Sequence[float], at_high: Sequence[float], reach: int | None
) -> None:
    assert reaches(WINNERS, timed(at_low, at_high)) == ({LOW: reach} if reach else {})


def test_what_was_not_timed_at_both_is_not_known() -> None:
    trials = timed((10, 12), (12, 10))
    assert reaches(WINNERS, {**trials, LOW: trials[LOW][:1]}) == {}
    wrong = [trials[HIGH][1], trial(HIGH, FIRST, 12, "wrong")]
    assert reaches(WINNERS, {**trials, HIGH: wrong}) == {}


def test_only_neighbours_of_one_n_and_k_are_compared() -> None:
    other = Shape(64, 96, 256)
    trials = timed((10, 12), (12, 10))
    assert reaches({LOW: FIRST, other: SECOND}, {LOW: trials[LOW], other: trials[HIGH]}) == {}
    assert reaches({LOW: FIRST}, trials) == {}
