"""What every route family promises, in numbers; a new family is tested because it is registered."""

import pytest
import torch
from tests.family_gate import bound, config_of
from tests.family_shapes import NAMES, takes

from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats
from mxtune.tuner.check import make_case

VARIED: dict[str, Value] = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "group_m": 4}
VARIED |= {"split_k": 4, "quant_m": 32, "quant_k": 64, "reduce_m": 32, "reduce_n": 128}


@pytest.mark.parametrize("name", NAMES)
def test_a_deterministic_plan_gives_the_same_bits_five_times(name: str) -> None:
    # BL-022
    shape = Shape(17, 70, 352) if takes(name, Shape(17, 70, 352)) else Shape(17, 80, 320)
    case = make_case(shape, 3, "cpu")
    launch = bound(name, config_of(name, shape, **VARIED), shape, case.weight)
    results = []
    for byte in (0x00, 0xFF, 0x7F, 0x40, 0xBF):
        for tensor in launch.workspaces.values():
            tensor.view(torch.uint8).fill_(byte)
        c = torch.empty(17, shape.n, dtype=torch.bfloat16)
        launch(case.a, c)
        results.append(c.view(torch.int16))
    # One program after the other: here those that add to a total do so in one order
    assert [torch.equal(results[0], again) for again in results[1:]] == [True] * 4
    assert launch.plan.deterministic == (not name.endswith("_atomic"))


@pytest.mark.parametrize("name", NAMES)
def test_a_family_quantises_a_as_the_format_says(name: str) -> None:
    shape = Shape(19, 32, 416) if takes(name, Shape(19, 32, 416)) else Shape(19, 32, 448)
    case = make_case(shape, 4, "cpu")
    launch = bound(name, config_of(name, shape, **VARIED), shape, case.weight)
    for tensor in launch.workspaces.values():
        tensor.view(torch.uint8).fill_(0xFF)
    launch(case.a, torch.empty(19, 32, dtype=torch.bfloat16))
    codes, scales = formats.quantise(case.a)
    written = launch.workspaces
    assert torch.equal(written.get("a_codes", codes), codes)
    assert torch.equal(written.get("a_scales", scales), scales)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_that_rounds_a_to_bf16_keeps_the_values_of_the_format(name: str) -> None:
    shape = Shape(19, 32, 448)
    case = make_case(shape, 4, "cpu")
    launch = bound(name, config_of(name, shape, multiply="bf16", **VARIED), shape, case.weight)
    launch(case.a, torch.empty(19, 32, dtype=torch.bfloat16))
    values = formats.dequantise(*formats.quantise(case.a)).bfloat16()
    written = launch.workspaces
    assert ("a_rounded" in written) == (not name.startswith("fused"))
    assert torch.equal(written.get("a_rounded", values), values)
    assert "a_codes" not in written
