"""Settings are a mapping that hashes, in one order whatever order they were given in."""

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route

TILE = Config.of({"num_warps": 4, "BLOCK_M": 16, "cache_modifier": ""})


def test_settings_given_in_another_order_are_the_same_settings() -> None:
    other = Config.of({"cache_modifier": "", "BLOCK_M": 16, "num_warps": 4})
    assert other == TILE
    assert len({other, TILE}) == 1


def test_settings_come_in_order_of_their_names() -> None:
    assert list(TILE.items()) == [("BLOCK_M", 16), ("cache_modifier", ""), ("num_warps", 4)]
    assert len(TILE) == 3


def test_one_other_value_makes_other_settings() -> None:
    assert Config.of({"BLOCK_M": 16}) != Config.of({"BLOCK_M": 32})
    assert Config.of({"BLOCK_M": 16}) != Config.of({"BLOCK_N": 16})


def test_changed_settings_are_a_copy() -> None:
    assert dict(TILE.changed(BLOCK_M=32, split_k=2)) == {
        "BLOCK_M": 32,
        "cache_modifier": "",
        "num_warps": 4,
        "split_k": 2,
    }
    assert TILE["BLOCK_M"] == 16


def test_a_number_is_read_as_one() -> None:
    assert TILE.number("BLOCK_M") == 16
    assert TILE.text("BLOCK_M") == "16"


def test_a_word_is_no_number() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of({"BLOCK_M": "16"}).number("BLOCK_M")
    assert str(caught.value) == "BLOCK_M must be a whole number, not '16'"


def test_a_setting_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="split_k"):
        TILE["split_k"]
    assert TILE.get("split_k") is None


def test_settings_print_by_name_without_empty_ones() -> None:
    assert str(TILE) == "BLOCK_M=16 num_warps=4"


def test_a_route_prints_its_family_first() -> None:
    assert str(Route("direct", TILE)) == "direct BLOCK_M=16 num_warps=4"
    assert str(Route("empty event pair", Config())) == "empty event pair"


def test_routes_are_equal_by_family_and_settings() -> None:
    same = Route("direct", Config.of({"cache_modifier": "", "num_warps": 4, "BLOCK_M": 16}))
    assert {Route("direct", TILE): "found"}[same] == "found"
    assert Route("direct", TILE) != Route("fused", TILE)
