"""The quantiser in Triton against the one in torch, bit by bit."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.build import arguments, kernel_function
from mxtune.kernels.family import Problem, Step, View
from mxtune.kernels.quantise_steps import quantise_step

UNTOUCHED = 0x7F


def step_for(a: Tensor, rows: int, columns: int) -> Step:
    launch: dict[str, Value] = {"quant_m": rows, "quant_k": columns, "quant_warps": 4}
    config = Config.of({**launch, "convert": "portable", "multiply": "scaled"})
    shape = Shape(a.shape[0], 32, a.shape[1])
    problem = Problem(shape, load_device("gfx950"), View(a.stride(0), a.stride(1)), View(32, 1))
    return quantise_step(config, problem)


def written(step: Step, a: Tensor, scales: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Launch the kernel with A and return its codes and scales; both held UNTOUCHED before."""
    tensors = {
        "a": a,
        "a_codes": torch.full((a.shape[0], a.shape[1] // 2), UNTOUCHED, dtype=torch.uint8),
        "a_scales": torch.full(scales, UNTOUCHED, dtype=torch.uint8),
    }
    kernel_function(step)[(*step.grid, 1)](**arguments(step, tensors))
    return tensors["a_codes"], tensors["a_scales"]


def quantised(a: Tensor, rows: int = 64, columns: int = 1024) -> tuple[Tensor, Tensor]:
    return written(step_for(a, rows, columns), a, (a.shape[0], a.shape[1] // 32))


def shuffling(step: Step, m: int, k: int) -> tuple[Step, tuple[int, int]]:
    """The step with its scales in the shuffled layout, and their shape."""
    height, width = layouts.padded_scales(m, k // 32)
    rows, columns = int(step.constants["BLOCK_M"]), int(step.constants["BLOCK_K"])
    changed = replace(
        step,
        grid=(height // rows, -(-32 * width // columns)),
        integers={**step.integers, "scale_width": width},
        constants={**step.constants, "SHUFFLED": True},
    )
    return changed, (height, width)


def normal(rows: int, columns: int) -> Tensor:
    source = torch.Generator().manual_seed(rows)
    return (torch.randn(rows, columns, generator=source) * 3).bfloat16()


def of_bits(bits: Tensor) -> Tensor:
    """bf16 with these 16-bit patterns."""
    return bits.to(torch.int32).to(torch.int16).view(torch.bfloat16)


def test_every_bf16_pattern_is_quantised_as_in_torch() -> None:
    a = of_bits(torch.arange(65536)).reshape(64, 1024)
    codes, scales = quantised(a)
    wanted_codes, wanted_scales = formats.quantise(a)
    assert torch.equal(scales, wanted_scales)
    # 128 patterns of either sign are not finite: 4 blocks of 32 each, and their codes mean nothing
    counted = wanted_scales != 255
    assert (~counted).sum().item() == 8
    differing = (codes != wanted_codes).reshape(64, 32, 16).any(2) & counted
    assert differing.nonzero().tolist() == []


@pytest.mark.parametrize("spread", [0x7F80, 0x280])  # anything smaller; within five binades
def test_every_finite_bf16_as_the_largest_of_its_block_is_quantised_as_in_torch(
    spread: int,
) -> None:
    source = torch.Generator().manual_seed(spread)
    top = torch.arange(0x7F80).repeat(2)  # each finite magnitude, under two random companies
    below = (top.unsqueeze(1) - torch.randint(spread, (65280, 32), generator=source)).clamp_min(0)
    at = torch.randint(32, (65280, 1), generator=source)
    bits = below.scatter(1, at, top.unsqueeze(1))
    bits += torch.randint(2, bits.shape, generator=source) << 15
    a = of_bits(bits).reshape(-1, 1024)
    codes, scales = quantised(a)
    wanted_codes, wanted_scales = formats.quantise(a)
    assert int(scales.max()) == 254
    assert (scales != wanted_scales).nonzero().tolist() == []
    assert (codes != wanted_codes).nonzero().tolist() == []


@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (4, 256), (16, 64), (64, 1024)])
def test_ragged_rows_and_columns_are_written_whole(rows: int, columns: int) -> None:
    a = normal(19, 416)
    codes, scales = quantised(a, rows, columns)
    wanted_codes, wanted_scales = formats.quantise(a)
    assert torch.equal(codes, wanted_codes)
    assert torch.equal(scales, wanted_scales)


def test_known_values_get_known_codes() -> None:
    a = torch.zeros(1, 32).bfloat16()
    a[0, :10] = torch.tensor([7.0, -7.0, 0.5, 1.0, -1.5, 3.0, 5.0, 0.25, -0.0, 2.5])
    codes, scales = quantised(a, 1, 32)
    assert scales.tolist() == [[128]]  # 7 rounds up to 8 in two significant bits: 8 is 4 * 2
    # halves: 3.5 -> 4 (a tie), 0.25 -> 0 (a tie), 0.5, -0.75 -> -1 (a tie), 1.5, 2.5 -> 2 (a tie)
    assert formats.unpack(codes)[0, :10].tolist() == [6, 14, 0, 1, 10, 3, 4, 0, 8, 2]


@pytest.mark.parametrize("strides", ["transposed", "every other column", "one row repeated"])
def test_a_is_read_by_its_strides(strides: str) -> None:
    a = {
        "transposed": normal(96, 21).t(),
        "every other column": normal(21, 192)[:, ::2],
        "one row repeated": normal(1, 96).expand(21, 96),
    }[strides]
    wanted = formats.quantise(a.contiguous())
    step = step_for(a, 4, 64)
    wide = replace(step, constants={**step.constants, "WIDE": True})
    for each in (step, wide):
        codes, scales = written(each, a, (21, 3))
        assert torch.equal(codes, wanted[0])
        assert torch.equal(scales, wanted[1])


@pytest.mark.parametrize(("rows", "columns"), [(32, 256), (16, 64)])
@pytest.mark.parametrize(("m", "k"), [(37, 416), (1, 32), (300, 96), (32, 256)])
def test_shuffled_scales_are_written_with_their_padding_zeroed(
    m: int, k: int, rows: int, columns: int
) -> None:
    # BL-014
    a = normal(m, k)
    step, shape = shuffling(step_for(a, rows, columns), m, k)
    codes, scales = written(step, a, shape)
    wanted_codes, wanted_scales = formats.quantise(a)
    assert torch.equal(codes, wanted_codes)
    assert torch.equal(scales, layouts.shuffle_scales(wanted_scales))
