"""Families are found by name, and a route is complete and known before anybody uses it."""

from typing import Any, cast

import pytest

from mxtune.configs.devices import known_devices, load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import (
    checked_route,
    chosen,
    fallback_route,
    families,
    family,
    own_families,
)

OWN = [
    "direct",
    "fused",
    "fused_atomic",
    "fused_preshuffle",
    "fused_preshuffle_atomic",
    "splitk",
    "splitk_atomic",
]
AITERS = ["aiter", "aiter_a16", "aiter_preshuffle", "asm"]
ODD = ["1x1x32", "3x70x96", "1x7168x32", "17x33x64", "1000x1x160", "4097x129x7168", "65536x16x32"]


def refusal(family_name: str, settings: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        checked_route(Route(family_name, Config.of(settings)))
    return str(caught.value)


def test_the_families_are_known_by_their_names() -> None:
    assert [owner.name for owner in own_families()] == OWN
    assert sorted([*OWN, *AITERS]) == list(families())
    assert [owner.name for owner in families().values()] == list(families())


def test_an_unknown_family_is_answered_with_the_known_ones() -> None:
    known = ", ".join(sorted(families()))
    with pytest.raises(ConfigError) as caught:
        family("stream_k")
    assert str(caught.value) == f"no family is called 'stream_k': one of {known}"
    assert refusal("", {}) == f"no family is called '': one of {known}"


def test_the_families_asked_for_are_taken_in_order_and_all_if_none_are() -> None:
    assert [owner.name for owner in chosen(["splitk", "direct"])] == ["splitk", "direct"]
    assert [owner.name for owner in chosen([])] == list(families())


def test_missing_settings_get_their_defaults() -> None:
    route = checked_route(Route("fused", Config.of({"BLOCK_M": 32, "num_warps": 8})))
    assert dict(route.config) == {
        "BLOCK_K": 256,
        "BLOCK_M": 32,
        "BLOCK_N": 64,
        "cache_modifier": "",
        "convert": "portable",
        "group_m": 1,
        "matrix_instr_nonkdim": 0,
        "multiply": "scaled",
        "num_stages": 2,
        "num_warps": 8,
        "waves_per_eu": 0,
        "xcd_remap": 0,
    }
    assert checked_route(route) == route


def test_an_unknown_setting_is_answered_with_those_there_are() -> None:
    message = refusal("fused", {"BLOCK_SIZE_M": 32})
    assert message.startswith("fused has no 'BLOCK_SIZE_M': it has BLOCK_M, BLOCK_N, BLOCK_K, ")


# BL-054: tile 24, 3 warps, tile 0, -1 stages
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("BLOCK_M", 24, "BLOCK_M must be one of 4, 8, 16, 32, 64, 128, 256, not 24"),
        ("BLOCK_K", 0, "BLOCK_K must be one of 64, 128, 256, 512, 1024, not 0"),
        ("num_warps", 3, "num_warps must be one of 1, 2, 4, 8, 16, not 3"),
        ("num_warps", True, "num_warps must be one of 1, 2, 4, 8, 16, not True"),
        ("num_warps", "4", "num_warps must be one of 1, 2, 4, 8, 16, not '4'"),
        ("num_stages", -1, "num_stages must be one of 1, 2, 3, 4, 5, not -1"),
        ("split_k", 0, "split_k must be a whole number of at least 1, not 0"),
        ("split_k", True, "split_k must be a whole number of at least 1, not True"),
        ("split_k", "2", "split_k must be a whole number of at least 1, not '2'"),
        ("waves_per_eu", -1, "waves_per_eu must be a whole number of at least 0, not -1"),
        ("partial_dtype", "fp16", "partial_dtype must be one of 'fp32', 'bf16', not 'fp16'"),
        ("weights", "packed", "weights must be one of 'plain', 'shuffled', not 'packed'"),
        ("convert", True, "convert must be one of 'portable', 'hardware', not True"),
        ("multiply", "fp16", "multiply must be one of 'scaled', 'bf16', not 'fp16'"),
        ("xcd_remap", True, "xcd_remap must be one of 0, 1, not True"),
        ("cache_modifier", 0, "cache_modifier must be one of '', '.ca', '.cg', '.cv', not 0"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused(
    setting: str, value: object, message: str
) -> None:
    assert refusal("splitk", {setting: value}) == f"splitk: {message}"


@pytest.mark.parametrize("value", [16.0, None, [16], float("nan")])
def test_a_number_of_another_type_is_refused(value: object) -> None:
    assert "split_k must be a whole number of at least 1" in refusal("splitk", {"split_k": value})


@pytest.mark.parametrize("arch", known_devices())
@pytest.mark.parametrize("word", ODD)
def test_the_fallback_is_legal_for_any_shape_on_any_device(word: str, arch: str) -> None:
    shape = Shape.parse(word)
    route = fallback_route(shape)
    assert route.family == "direct"
    assert checked_route(route) == route
    verdict = family("direct").legality(route.config, shape, load_device(arch))
    assert verdict.grade == "legal"


@pytest.mark.parametrize("name", sorted(families()))
def test_the_defaults_of_every_family_are_values_they_take(name: str) -> None:
    for tunable in family(name).tunables:
        assert tunable.obstacle(tunable.default) is None
        assert tunable.about


def test_the_registry_cannot_be_edited() -> None:
    with pytest.raises(TypeError):
        cast("dict[str, object]", families())["mine"] = None
