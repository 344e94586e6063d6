"""The config that every family falls back to gives the reference wherever it has a route."""

import pytest
from tests.family_gate import accept, config_of
from tests.family_shapes import READINGS, is_legal, layouts_of, shapes_of

from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import family

# Where N and K are multiples of 16 and 64 every family has a route.
WHOLE = (Shape(1, 64, 192), Shape(16, 64, 1024), Shape(64, 64, 320))
OWN = [
    (name, shape)
    for name, weights in READINGS
    for shape in (*shapes_of(weights), *WHOLE)
    if weights == layouts_of(name)[0]
]
OTHER = [
    (name, weights, shape)
    for name, weights in READINGS
    for shape in shapes_of(weights)
    if weights != layouts_of(name)[0]
]
FEW_LAUNCHES: dict[str, Value] = {"quant_m": 32, "quant_k": 512}  # each takes a while here


@pytest.mark.parametrize(("name", "shape"), OWN, ids=str)
def test_the_fallback_gives_the_reference(name: str, shape: Shape) -> None:
    accept(name, family(name).fallback(shape), shape)


@pytest.mark.parametrize(("name", "weights", "shape"), OTHER, ids=str)
def test_the_fallback_reads_the_other_layout_of_weights(
    name: str, weights: str, shape: Shape
) -> None:
    config = config_of(name, shape, weights=weights, **FEW_LAUNCHES)
    assert config["weights"] == weights
    accept(name, config, shape)


@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_a_fallback_is_legal_where_the_family_has_a_route_and_already_normal(
    name: str, weights: str
) -> None:
    for arch in ("gfx950", "sm_90"):
        for shape in (*shapes_of(weights), *WHOLE):
            config = family(name).fallback(shape)
            assert is_legal(name, config, shape, arch)
            assert family(name).normalise(config, shape) == config
