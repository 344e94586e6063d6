"""Every point of a space is a route to try, the same as another, or rejected with a reason."""

from collections import Counter
from functools import cache

import pytest
from tests.family_shapes import NAMES, is_legal, takes

from mxtune.configs.devices import known_devices, load_device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.candidates import Candidates, candidates
from mxtune.kernels.registry import checked_route, chosen, family, own_families

CONTEST = [
    "4x2880x512",
    "16x2112x7168",
    "32x4096x512",
    "32x2880x512",
    "64x7168x2048",
    "256x3072x1536",
]
ODD = ["1x1x32", "3x70x96"]


@cache
def of_all(word: str, arch: str) -> Candidates:
    return candidates(own_families(), Shape.parse(word), load_device(arch))


@pytest.mark.parametrize("arch", known_devices())
@pytest.mark.parametrize("word", [*CONTEST, *ODD])
def test_every_point_is_accounted_for(word: str, arch: str) -> None:
    found = of_all(word, arch)
    assert found.points == len(found.routes) + found.collapsed + sum(found.rejected.values())


@pytest.mark.parametrize("arch", known_devices())
@pytest.mark.parametrize("word", CONTEST)
def test_every_family_offers_distinct_legal_complete_routes(word: str, arch: str) -> None:
    shape, device = Shape.parse(word), load_device(arch)
    routes = of_all(word, arch).routes
    assert len(set(routes)) == len(routes)
    assert {route.family for route in routes} == {owner.name for owner in own_families()}
    for route in routes:
        owner = family(route.family)
        assert checked_route(route) == route
        assert owner.normalise(route.config, shape) == route.config
        assert owner.legality(route.config, shape, device).grade == "legal"


@pytest.mark.parametrize("arch", known_devices())
@pytest.mark.parametrize("word", CONTEST)
def test_every_split_has_work(word: str, arch: str) -> None:
    shape = Shape.parse(word)
    split = [route for route in of_all(word, arch).routes if "split_k" in route.config]
    assert len({route.family for route in split}) == 5
    for route in split:
        splits, block_k = route.config.number("split_k"), route.config.number("BLOCK_K")
        blocks = -(-shape.k // block_k)
        a_split = -(-blocks // splits)
        assert (1 if route.family == "fused_preshuffle" else 2) <= splits <= blocks
        assert (splits - 1) * a_split < blocks  # the last split begins before K ends


@pytest.mark.parametrize(
    ("k", "block_k", "asked", "left"),
    [
        (7168, 512, 8, 7),  # 14 blocks: 8 splits of 2 leave one idle, 7 do not
        (7168, 512, 6, 5),  # 5 splits of 3
        (7168, 512, 7, 7),
        (7168, 512, 14, 14),
        (7168, 512, 16, 14),
        (512, 512, 8, 1),
        (96, 64, 4, 2),
        (32, 128, 2, 1),
    ],
)
def test_a_split_too_many_is_taken_back(k: int, block_k: int, asked: int, left: int) -> None:
    owner, shape = family("splitk"), Shape(16, 2112, k)
    config = owner.fallback(shape).changed(BLOCK_K=block_k, split_k=asked)
    assert owner.normalise(config, shape)["split_k"] == left


def test_the_grouping_of_a_single_row_of_tiles_is_written_as_one() -> None:
    owner = family("direct")
    config = owner.fallback(Shape(16, 64, 512)).changed(BLOCK_M=16, group_m=4)
    assert owner.normalise(config, Shape(16, 64, 512))["group_m"] == 1
    assert owner.normalise(config, Shape(17, 64, 512))["group_m"] == 4


def test_points_that_launch_the_same_are_tried_once() -> None:
    found = candidates(chosen(["direct"]), Shape(16, 2112, 7168), load_device("gfx950"))
    assert found.collapsed > 0
    one_row = [route for route in found.routes if route.config.number("BLOCK_M") >= 16]
    assert {route.config["group_m"] for route in one_row} == {1}


def test_a_tile_that_won_somewhere_is_tried_though_its_warps_repeat_one_another() -> None:
    repeated = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 1024, "num_warps": 4, "waves_per_eu": 2}
    found = candidates(chosen(["direct"]), Shape(16, 2112, 7168), load_device("gfx950"))

    def of(settings: dict[str, int]) -> list[Route]:
        return [r for r in found.routes if all(r.config[k] == v for k, v in settings.items())]

    assert of(repeated)
    assert not of(repeated | {"waves_per_eu": 0})  # of the plain product
    assert of({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 1024})  # one size too large
    assert not of({"BLOCK_M": 64})
    assert not set(found.routes) & set(found.pruned)


def test_a_rejection_names_the_family_and_the_reason() -> None:
    found = of_all("16x2112x7168", "gfx950")
    assert "splitk: BLOCK_M far beyond M" in found.rejected
    assert "fused: fewer than 256 results a warp" in found.rejected


@pytest.mark.parametrize("arch", known_devices())
@pytest.mark.parametrize("word", ODD)
def test_an_odd_shape_has_a_route_at_least(word: str, arch: str) -> None:
    shape, found = Shape.parse(word), of_all(word, arch)
    for route in found.routes:
        assert is_legal(route.family, route.config, shape, arch)
    for name in NAMES:
        assert is_legal(name, family(name).fallback(shape), shape, arch) == takes(name, shape)
    assert {route.family for route in found.routes} >= {"direct", "fused"}
    untaken = {name for name in NAMES if not takes(name, shape)}
    assert untaken == {"fused_preshuffle", "fused_preshuffle_atomic"}
    assert untaken.isdisjoint(route.family for route in (*found.routes, *found.pruned))
    refusals = {reason.partition(": ")[2] for reason in found.rejected if ": " in reason}
    n = f"shuffled weights need N to be a multiple of 16, not {shape.n}"
    assert n in refusals


@pytest.mark.parametrize("arch", known_devices())
def test_every_family_offers_enough_to_choose_from_and_not_more_than_can_be_tried(
    arch: str,
) -> None:
    offered = Counter(route.family for route in of_all("16x2112x7168", arch).routes)
    assert sorted(offered) == NAMES
    assert min(offered.values()) >= 30
    assert max(offered.values()) <= 4000


def test_a_setting_outside_the_space_keeps_its_default() -> None:
    routes = of_all("64x7168x2048", "sm_90").routes
    assert {route.config["waves_per_eu"] for route in routes} == {0}
    assert {route.config["cache_modifier"] for route in routes} == {""}


def test_no_family_means_no_points() -> None:
    assert candidates([], Shape(16, 64, 64), load_device("gfx950")) == Candidates((), 0, 0, {}, ())
