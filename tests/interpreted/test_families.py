"""What every route family promises, in numbers; a new family is tested because it is registered."""

import pytest
import torch

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats
from mxtune.kernels.bind import Launch, bind
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family, own_families
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
# Scales are read as they lie where a tile is whole 32 x 8 groups, as in every fallback; both of
# these gather them byte by byte, one for its BLOCK_K and one for its BLOCK_N.
FP32: dict[str, Value] = {"partial_dtype": "fp32"}
GROUPED: dict[str, Value] = FP32 | {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "group_m": 4}
NARROW: dict[str, Value] = FP32 | {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 256, "group_m": 2}
VARIED = [
    GROUPED | {"split_k": 4, "quant_m": 32, "quant_k": 64, "reduce_m": 32, "reduce_n": 128},
    NARROW | {"split_k": 2, "quant_m": 8, "quant_k": 512, "reduce_m": 16, "reduce_n": 16},
]
GFX950 = load_device("gfx950")
NAMES = sorted(owner.name for owner in own_families())
SPLITTING = [name for name in NAMES if any(t.name == "split_k" for t in family(name).tunables)]


def config_of(name: str, shape: Shape, settings: dict[str, Value]) -> Config:
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
    cases = (make_case(shape, SEEDS[0], "cpu"), make_case(shape, SEEDS[1], "cpu"))
    verdict = check(cases, lambda weight: bound(name, config, shape, weight))
    assert verdict.ok, f"{name} {config} at {shape}: {verdict.reason}"
    assert 0 < verdict.worst <= 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_fallback_gives_the_reference(name: str, shape: Shape) -> None:
    accept(name, family(name).fallback(shape), shape)


@pytest.mark.parametrize("settings", VARIED, ids=["32x32x128", "16x16x256"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_other_tiles_groups_and_splits_give_the_reference(
    name: str, shape: Shape, settings: dict[str, Value]
) -> None:
    accept(name, config_of(name, shape, settings), shape)


# 5 whole blocks as 2 2 1: a last split as long as the others would read past K, and no mask is on
@pytest.mark.parametrize(("k", "splits"), [(1024, 1), (1024, 2), (1024, 4), (1280, 3)])
@pytest.mark.parametrize("name", SPLITTING)
def test_every_number_of_splits_gives_the_reference(name: str, k: int, splits: int) -> None:
    shape = Shape(16, 64, k)
    config = config_of(name, shape, {"split_k": splits})
    assert config["split_k"] == splits
    accept(name, config, shape)


@pytest.mark.parametrize("name", NAMES)
def test_a_deterministic_plan_gives_the_same_bits_five_times(name: str) -> None:
    # BL-022
    shape = Shape(17, 70, 352)
    case = make_case(shape, 3, "cpu")
    launch = bound(name, config_of(name, shape, VARIED[0]), shape, case.weight)
    results = []
    for byte in (0x00, 0xFF, 0x7F, 0x40, 0xBF):
        for tensor in launch.workspaces.values():
            tensor.view(torch.uint8).fill_(byte)
        c = torch.empty(17, 70, dtype=torch.bfloat16)
        launch(case.a, c)
        results.append(c.view(torch.int16))
    if launch.plan.deterministic:
        assert [torch.equal(results[0], again) for again in results[1:]] == [True] * 4


@pytest.mark.parametrize("name", NAMES)
def test_a_family_quantises_a_as_the_format_says(name: str) -> None:
    shape = Shape(19, 32, 416)
    case = make_case(shape, 4, "cpu")
    launch = bound(name, config_of(name, shape, VARIED[0]), shape, case.weight)
    for tensor in launch.workspaces.values():
        tensor.view(torch.uint8).fill_(0xFF)
    launch(case.a, torch.empty(19, 32, dtype=torch.bfloat16))
    codes, scales = formats.quantise(case.a)
    written = launch.workspaces
    assert torch.equal(written.get("a_codes", codes), codes)
    assert torch.equal(written.get("a_scales", scales), scales)


@pytest.mark.parametrize("name", NAMES)
def test_a_fallback_is_legal_everywhere_and_already_normal(name: str) -> None:
    for arch in ("gfx950", "sm_90"):
        for shape in SHAPES:
            config = family(name).fallback(shape)
            assert family(name).legality(config, shape, load_device(arch)).grade == "legal"
            assert family(name).normalise(config, shape) == config
