"""A search space names only settings that its family has, with values that they take."""

from importlib.resources import files
from typing import Any

import pytest
import yaml

from mxtune.configs.devices import known_devices
from mxtune.configs.errors import ConfigError
from mxtune.configs.spaces import ALSO, ANY, Point, every_point, load_also, load_space
from mxtune.kernels.registry import families, family

FAMILIES = sorted(families())


def sections(name: str) -> dict[str, Any]:
    """What a file says of each device, but for what is tried besides."""
    return {
        device: {setting: values for setting, values in section.items() if setting != ALSO}
        for device, section in file_of(name).items()
    }


def file_of(name: str) -> dict[str, Any]:
    text = (files("mxtune.configs") / "spaces" / f"{name}.yaml").read_text("utf-8")
    body: dict[str, Any] = yaml.safe_load(text)
    return body


def test_every_space_belongs_to_a_family() -> None:
    folder = files("mxtune.configs") / "spaces"
    assert sorted(entry.name for entry in folder.iterdir()) == [f"{f}.yaml" for f in FAMILIES]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_section_is_a_known_device_or_any(name: str) -> None:
    assert ANY in sections(name)
    assert set(sections(name)) <= {*known_devices(), ANY}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_value_of_every_section_is_one_its_setting_takes(name: str) -> None:
    tunables = {tunable.name: tunable for tunable in family(name).tunables}
    for section in sections(name).values():
        for setting, values in section.items():
            assert setting in tunables
            assert [tunables[setting].obstacle(value) for value in values] == [None] * len(values)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_value_is_tried_twice_and_no_setting_has_none(name: str) -> None:
    for section in sections(name).values():
        for values in section.values():
            assert values
            assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_tried_besides_are_values_that_the_settings_take(name: str) -> None:
    tunables = {tunable.name: tunable for tunable in family(name).tunables}
    for arch in known_devices():
        for space in load_also(name, arch):
            for setting, values in space.items():
                assert setting in tunables
                assert [tunables[setting].obstacle(value) for value in values] == [None] * len(
                    values
                )
                assert len(set(values)) == len(values) > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_everything_besides_stands_under_a_device(name: str) -> None:
    assert all(isinstance(section.get(ALSO, []), list) for section in file_of(name).values())
    assert load_also(name, "gfx1250") == ()


def test_a_space_besides_may_have_one_value_instead_of_a_list() -> None:
    first, *_ = load_also("fused", "gfx950")
    assert first["BLOCK_N"] == (128,)
    assert first["num_warps"] == (4, 8)


def test_a_point_comes_once_and_is_one_that_won_if_any_of_its_spaces_says_so() -> None:
    main, won = {"x": (1, 2)}, ({"x": (2,), "y": (0, 5)}, {"x": (3,), "y": (5,)}, {"x": (2,)})
    assert list(every_point(main, won, {"x": 9, "y": 0})) == [
        Point({"x": 2, "y": 0}, won=True),
        Point({"x": 2, "y": 5}, won=True),
        Point({"x": 3, "y": 5}, won=True),
        Point({"x": 1, "y": 0}, won=False),
    ]


def test_a_setting_that_no_space_names_keeps_its_default() -> None:
    assert [point.settings for point in every_point({}, ({"x": (1,)},), {"x": 7, "y": "a"})] == [
        {"x": 1, "y": "a"},
        {"x": 7, "y": "a"},
    ]


def test_a_device_has_the_values_of_its_own_section() -> None:
    assert load_space("direct", "gfx950")["matrix_instr_nonkdim"] == (16,)
    assert "matrix_instr_nonkdim" not in load_space("direct", "sm_90")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_device_without_a_section_has_that_of_any(name: str) -> None:
    expected = {setting: tuple(values) for setting, values in sections(name)[ANY].items()}
    assert load_space(name, "gfx1250") == expected


def test_a_family_without_a_space_is_told_where_to_put_one() -> None:
    with pytest.raises(ConfigError) as caught:
        load_space("streamk", "gfx950")
    assert str(caught.value) == (
        "family 'streamk' has no search space; add configs/spaces/streamk.yaml"
    )
