"""What crashed or hung is kept away from shapes like the one where it did."""

import pytest

from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.trial import Stage, State, Trial
from mxtune.tuner.quarantine import dangerous, quarantined, shape_class, without_dangerous

A, B = (Route("fused", Config.of({"BLOCK_M": m})) for m in (16, 32))
STATES: tuple[State, ...] = (
    "ok",
    "wrong",
    "failed_compile",
    "out_of_resources",
    "crashed",
    "hung",
    "oom",
    "skipped",
    "quarantined",
)


def trial(m: int, state: State, route: Route = A, *, n: int = 32, stage: Stage = "screen") -> Trial:
    return Trial(Shape(m, n, 128), route, stage, state, "SIGSEGV")


@pytest.mark.parametrize(
    ("m", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (16, 16), (17, 32), (1000, 1024)]
)
def test_shapes_are_alike_up_to_the_same_power_of_two(m: int, power: int) -> None:
    assert shape_class(Shape(m, 2112, 7168)) == (power, 2112, 7168)


def test_a_route_that_crashed_is_not_tried_at_shapes_alike() -> None:
    trials = [trial(9, "crashed")]
    for m in (9, 12, 16):
        assert quarantined(Shape(m, 32, 128), trials) == {A: "crashed at 9x32x128: SIGSEGV"}


@pytest.mark.parametrize("shape", [Shape(8, 32, 128), Shape(17, 32, 128), Shape(9, 33, 128)])
def test_a_route_that_crashed_is_tried_at_other_shapes(shape: Shape) -> None:
    assert quarantined(shape, [trial(9, "crashed")]) == {}
    assert quarantined(Shape(9, 32, 160), [trial(9, "crashed")]) == {}


def test_only_what_crashed_or_hung_is_dangerous() -> None:
    trials = [trial(16, state, Route("fused", Config.of({"at": state}))) for state in STATES]
    assert [t.state for t in dangerous(trials)] == ["crashed", "hung"]
    assert list(quarantined(Shape(16, 32, 128), trials).values()) == [
        "crashed at 16x32x128: SIGSEGV",
        "hung at 16x32x128: SIGSEGV",
    ]


def test_a_route_that_failed_in_the_finals_is_dangerous_too() -> None:
    late = [trial(16, "ok"), trial(16, "hung", stage="final"), trial(16, "ok", B)]
    assert quarantined(Shape(16, 32, 128), late) == {A: "hung at 16x32x128: SIGSEGV"}


def test_each_route_is_quarantined_for_what_it_did_last() -> None:
    trials = [trial(16, "crashed"), trial(16, "crashed", B), trial(13, "hung")]
    assert quarantined(Shape(14, 32, 128), trials) == {
        A: "hung at 13x32x128: SIGSEGV",
        B: "crashed at 16x32x128: SIGSEGV",
    }


def test_without_its_danger_a_route_looks_untried() -> None:
    trials = [trial(16, state) for state in STATES]
    assert [t.state for t in without_dangerous(trials)] == [
        "ok",
        "wrong",
        "failed_compile",
        "out_of_resources",
        "oom",
        "skipped",
    ]
