"""The steps from a shape to a route, in order, and what each says of itself."""

from collections.abc import Mapping

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.lookup import Lookup, Tabled, Tried
from mxtune.kernels.registry import fallback_route

N, K = 64, 256


def route(name: str) -> Route:
    return Route(name, Config.of({"BLOCK_M": 16}))


def lookup(
    ms: Mapping[int, int | None],
    default: Route | None = None,
    refused: Mapping[tuple[int, int], str] | None = None,
    lack: str = "",
) -> Lookup:
    """A table with routes named after their M; ``refused`` by the route's M and the M asked for."""
    shapes = [Shape(m, N, K) for m in ms]
    tabled = {s: Tabled(s, route(f"for {s.m}"), ms[s.m]) for s in shapes}

    def obstacle(tabled: Tabled, shape: Shape) -> str:
        return (refused or {}).get((tabled.shape.m, shape.m), "")

    return Lookup(tabled, default, obstacle, lack)


def found(table: Lookup, m: int, n: int = N) -> tuple[str, str]:
    choice = table.find(m, n, K)
    return choice.route.family, choice.why


def test_the_exact_shape_comes_first() -> None:
    assert found(lookup({16: None, 64: None}), 64) == (
        "for 64",
        "exact: the table has this shape",
    )


@pytest.mark.parametrize(
    ("m", "family", "why"),
    [
        (1, "for 16", "the table has 16x64x256 for M from 1 to 16"),
        (17, "for 64", "the table has 64x64x256 for M from 17 to 64"),
        (63, "for 64", "the table has 64x64x256 for M from 17 to 64"),
        (65, "for 256", "the table has 256x64x256 for M from 65 up"),
        (4096, "for 256", "the table has 256x64x256 for M from 65 up"),
    ],
)
def test_between_two_the_larger_m_serves_and_the_largest_serves_all_above(
    m: int, family: str, why: str
) -> None:
    assert found(lookup({16: None, 64: None, 256: None}), m) == (family, f"bucket: {why}")


@pytest.mark.parametrize(
    ("m", "family", "why"),
    [
        (17, "for 16", "the table has 16x64x256 for M from 1 to 40"),
        (40, "for 16", "the table has 16x64x256 for M from 1 to 40"),
        (41, "for 64", "the table has 64x64x256 for M from 41 up"),
    ],
)
def test_a_route_serves_as_far_as_it_reaches(m: int, family: str, why: str) -> None:
    assert found(lookup({16: 40, 64: None}), m) == (family, f"bucket: {why}")


def test_a_bucket_that_is_not_legal_there_gives_way_to_the_nearest_that_is() -> None:
    refused = {(64, 40): "it writes rows in 32s", (32, 40): "it does not fit"}
    table = lookup({8: None, 32: None, 64: None, 128: None}, refused=refused)
    assert found(table, 40) == ("for 128", "nearest: the table has 128x64x256")
    assert list(table.steps(Shape(40, N, K)))[1:3] == [
        Tried(
            "bucket",
            "the table has 64x64x256 for M from 33 to 64",
            route("for 64"),
            "it writes rows in 32s",
        ),
        Tried("nearest", "the table has 32x64x256", route("for 32"), "it does not fit"),
    ]


def test_an_exact_route_that_is_not_legal_is_not_offered_twice() -> None:
    table = lookup({16: None, 64: None}, refused={(16, 16): "no"})
    steps = list(table.steps(Shape(16, N, K)))
    assert [(tried.step, tried.obstacle) for tried in steps] == [("exact", "no"), ("bucket", "")]
    assert found(table, 16)[0] == "for 64"


def test_another_n_or_k_takes_the_default_and_without_one_what_is_always_legal() -> None:
    why = "default: the table has no other for this (N, K)"
    assert found(lookup({16: None}, default=route("default")), 16, n=96) == ("default", why)
    assert found(lookup({16: None}), 16, n=96) == (
        fallback_route(Shape(16, 96, K)).family,
        "always legal: the table has nothing that fits",
    )


def test_a_default_that_is_not_legal_is_passed_over() -> None:
    table = lookup({}, default=route("default"), refused={(16, 16): "too large"})
    *_, default, last = table.steps(Shape(16, N, K))
    assert (default.step, default.obstacle) == ("default", "too large")
    assert (last.step, last.obstacle) == ("always legal", "")


def test_why_there_are_no_routes_is_said() -> None:
    assert found(lookup({}, lack="the table is for another GPU"), 16)[1] == (
        "always legal: the table is for another GPU"
    )


def test_every_step_is_told_up_to_the_one_that_is_taken() -> None:
    steps = list(lookup({16: None}, default=route("default")).steps(Shape(5, 96, K)))
    assert [(tried.step, tried.offer, tried.obstacle) for tried in steps] == [
        ("exact", "5x96x256", "the table does not have it"),
        ("bucket", "N=96, K=256", "the table has none there"),
        ("default", "the table has no other for this (N, K)", ""),
    ]


def test_a_shape_is_worked_out_once() -> None:
    asked: list[Shape] = []

    def obstacle(tabled: Tabled, shape: Shape) -> str:
        del tabled
        asked.append(shape)
        return ""

    shape = Shape(16, N, K)
    table = Lookup({shape: Tabled(shape, route("one"))}, None, obstacle, "")
    assert table.find(16, N, K) is table.find(16, N, K)
    assert asked == [shape]


def test_what_can_be_no_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="K must be a multiple of 32, not 33"):
        lookup({16: None}).find(1, 1, 33)
