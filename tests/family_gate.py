"""Configs of any family, bound and put through the gate on a CPU."""

from functools import cache

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem
from mxtune.kernels.launch import Launch
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import SEEDS, Case, check, make_case

GFX950 = load_device("gfx950")


def config_of(name: str, shape: Shape, **settings: Value) -> Config:
    """The fallback changed by those settings that the family has, in no more splits than blocks."""
    owner = family(name)
    config = owner.fallback(shape)
    config = config.changed(**{key: value for key, value in settings.items() if key in config})
    if "split_k" in config:
        blocks = -(-shape.k // config.number("BLOCK_K"))
        config = config.changed(split_k=min(blocks, config.number("split_k")))
    return owner.normalise(config, shape)


def bound(name: str, config: Config, shape: Shape, weight: Mxfp4Weight) -> Launch:
    return bind(Route(name, config), Problem.contiguous(shape, GFX950), weight)


def accept(name: str, config: Config, shape: Shape) -> None:
    """Let the gate judge a config with both of its seeds."""
    cases = tuple(case_of_seed(shape, seed) for seed in SEEDS)
    verdict = check(cases, lambda weight: bound(name, config, shape, weight))
    assert verdict.ok, f"{name} {config} at {shape}: {verdict.reason}"
    assert 0 < verdict.worst <= 1


@cache
def case_of_seed(shape: Shape, seed: int) -> Case:
    return make_case(shape, seed, "cpu")
