"""What every route family promises, in numbers; a new family is tested because it is registered."""

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import Launch, bind
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import families, family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import SEEDS, check, make_case

SHAPES = [
    Shape(1, 32, 32),
    Shape(3, 70, 96),
    Shape(17, 130, 320),
    Shape(33, 96, 1056),
    Shape(1, 64, 192),
    Shape(16, 64, 1024),
    Shape(64, 64, 320),
]
# Whole 32 x 8 groups of scales are read as they lie; other tiles gather them byte by byte.
VARIED: list[dict[str, Value]] = [
    {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "group_m": 4, "split_k": 4, "reduce_n": 16},
    {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 256, "group_m": 2, "split_k": 2, "quant_m": 1},
]
GFX950 = load_device("gfx950")
NAMES = sorted(families())


def changed(name: str, shape: Shape, settings: dict[str, Value]) -> Config:
    """The fallback of a family with those of the settings that it has, as far as K allows."""
    owner = family(name)
    config = owner.fallback(shape)
    config = config.changed(**{key: settings[key] for key in settings if key in config})
    if "split_k" in config:
        blocks = -(-shape.k // config.number("BLOCK_K"))
        config = config.changed(split_k=min(blocks, config.number("split_k")))
    return owner.normalise(config, shape)


def bound(name: str, config: Config, shape: Shape, weight: Mxfp4Weight) -> Launch:
    return bind(Route(name, config), Problem.contiguous(shape, GFX950), weight)


def accept(name: str, config: Config, shape: Shape) -> None:
    cases = (make_case(shape, SEEDS[0], "cpu"), make_case(shape, SEEDS[1], "cpu"))
    verdict = check(cases, lambda weight: bound(name, config, shape, weight))
    assert verdict.ok, f"{name} {config} at {shape}: {verdict.reason}"
    assert verdict.worst <= 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_fallback_gives_the_reference(name: str, shape: Shape) -> None:
    accept(name, family(name).fallback(shape), shape)


@pytest.mark.parametrize("settings", VARIED, ids=["32x32x128", "16x16x256"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_other_tiles_and_groups_give_the_reference(
    name: str, shape: Shape, settings: dict[str, Value]
) -> None:
    accept(name, changed(name, shape, settings), shape)
