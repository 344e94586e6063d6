"""How A is converted and how products are formed is a setting; the numbers are the same."""

import pytest
import torch
from tests.family_gate import accept, bound, case_of_seed, config_of
from tests.family_shapes import NAMES, READINGS, shapes_of

from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.tuner.check import SEEDS

BF16: dict[str, Value] = {"multiply": "bf16", "num_warps": 1, "BLOCK_N": 32}
RUNS = [(name, weights, shape) for name, weights in READINGS for shape in shapes_of(weights)[:-1]]


# What only the hardware does is portable here, and on gfx950 the emulator compares it
@pytest.mark.parametrize("shape", [Shape(17, 160, 320), Shape(3, 64, 64)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_conversion_of_the_hardware_gives_the_bits_of_the_portable_one(
    name: str, shape: Shape
) -> None:
    case = case_of_seed(shape, SEEDS[0])
    results = []
    for convert in ("portable", "hardware"):
        launch = bound(name, config_of(name, shape, convert=convert), shape, case.weight)
        said = [step.constants.get("HARDWARE") for step in launch.plan.own]
        assert [fact for fact in said if fact is not None] == [convert == "hardware"]
        c = torch.empty(shape.m, shape.n, dtype=torch.bfloat16)
        launch(case.a, c)
        results.append(c.view(torch.int16))
    assert torch.equal(*results)
    accept(name, config_of(name, shape, convert="hardware"), shape)


@pytest.mark.parametrize(("name", "weights", "shape"), RUNS, ids=str)
def test_products_in_bf16_give_the_reference(name: str, weights: str, shape: Shape) -> None:
    config = config_of(name, shape, weights=weights, BLOCK_K=256, split_k=2, **BF16)
    accept(name, config, shape)


# One split of K has the last block alone, and it is a tail
@pytest.mark.parametrize("block_k", [128, 512])
@pytest.mark.parametrize(("name", "weights"), READINGS)
def test_products_in_bf16_take_other_steps_of_k(name: str, weights: str, block_k: int) -> None:
    shape = Shape(5, 48, 2 * block_k + 64)
    settings: dict[str, Value] = {"weights": weights, "BLOCK_K": block_k, "split_k": 3}
    accept(name, config_of(name, shape, **settings, **BF16), shape)
