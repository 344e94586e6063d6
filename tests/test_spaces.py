"""A search space names only settings that its family has, with values that they take."""

from importlib.resources import files
from typing import Any

import pytest
import yaml

from mxtune.configs.devices import known_devices
from mxtune.configs.errors import ConfigError
from mxtune.configs.spaces import ANY, load_space
from mxtune.kernels.registry import families, family

FAMILIES = sorted(families())


def sections(name: str) -> dict[str, Any]:
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
