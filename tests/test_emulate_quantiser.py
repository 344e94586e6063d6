"""The quantiser, portable and by the hardware's conversion, executed on every finite bf16 value."""

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

import torch
from tests.emulated_routes import GFX950
from torch import Tensor

from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Buffer, Plan, Problem, Step, Work
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.emulate.launch import Report
from mxtune.tuner.emulate.route import EmulatedRoute, KernelObject, kernel_objects

FINITE = 0x7F80  # magnitudes of bf16, zero among them
NON_FINITE = 0x80  # infinity and the NaNs
BLOCKS = 128  # that a program of the converting kernel takes
UNTOUCHED = 0x7F
WHOLE_RANGE = (0, 1, 2, 64, 127, 128, 200, 253, 254)  # scale bytes
TIES = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=torch.float64)
GRID_EVEN_FIRST = torch.tensor([0.0, 1.0, 2.0, 4.0, 0.5, 1.5, 3.0, 6.0], dtype=torch.float64)
CODES_EVEN_FIRST = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7], dtype=torch.uint8)


def of_bits(bits: Tensor) -> Tensor:
    """bf16 with these 16-bit patterns."""
    return bits.to(torch.int32).to(torch.int16).view(torch.bfloat16)


def company(top: Tensor, byte: Tensor) -> Tensor:
    """31 magnitudes for each largest one: around all ties of its scale, the limits, the smallest.

    Takes and gives bf16 bits; none is larger than the largest.
    """
    unit = torch.exp2(byte.double() - 127).unsqueeze(1)
    ties = (TIES * unit).bfloat16().view(torch.int16).int()
    limit = (6 * unit).bfloat16().view(torch.int16).int()
    smallest = torch.tensor([0, 0, 1, 1, 0x7F, 0x80, 0x81]).expand(len(top), -1)
    largest = top.unsqueeze(1) - 1
    bits = torch.cat([ties - 1, ties, ties + 1, limit, limit + 1, largest, smallest], 1)
    return bits.clamp_min(0).minimum(top.unsqueeze(1))


def every_maximum() -> Tensor:
    """Blocks of 32 bf16, one for each finite value of either sign as the largest of its block."""
    top = torch.arange(FINITE, dtype=torch.int32)
    byte = formats.scale_bytes(of_bits(top).float().unsqueeze(1))
    bits = torch.cat([top.unsqueeze(1), company(top, byte)], 1)
    place = (torch.arange(32) + torch.arange(FINITE).unsqueeze(1)) % 32
    bits = bits.gather(1, place).repeat(2, 1)
    sign = torch.arange(32) % 2
    sign = torch.stack([sign, 1 - sign]).repeat_interleave(FINITE, 0)
    return of_bits(bits | sign << 15)


def execute(
    held: KernelObject, a: Tensor, scales: Tensor | None = None
) -> tuple[Tensor, Tensor, Report]:
    """Run a quantising kernel on blocks of A; ``scales`` are put where it may read them."""
    plan, reports = Plan((held.step,)), list[Report]()
    weight = Mxfp4Weight.quantise(torch.zeros(32, 32).bfloat16())
    route = EmulatedRoute((held,), plan, weight, lambda _, report: reports.append(report))
    for tensor in route.workspaces.values():
        tensor.fill_(UNTOUCHED)
    if scales is not None:
        route.workspaces["a_scales"].copy_(scales.reshape(route.workspaces["a_scales"].shape))
    route(a, torch.zeros(1).bfloat16())
    codes, bytes_ = route.workspaces["a_codes"], route.workspaces["a_scales"]
    return codes.reshape(-1, 16), bytes_.reshape(-1), reports[0]


def portable(rows: int, columns: int) -> KernelObject:
    """Return the quantiser of the direct family, 64 by 1024 values a program."""
    shape = Shape(rows, 32, columns)
    config = family("direct").fallback(shape).changed(quant_m=64, quant_k=1024)
    problem = Problem.contiguous(shape, GFX950)
    assert planned(Route("direct", config), problem).steps[0].name == "quantise"
    return kernel_objects(Route("direct", config), problem)[0]


def converting(blocks: int, *, given: bool) -> KernelObject:
    """Compile the kernel that has inline assembly."""
    import triton
    from tests.device_kernels.convert import convert
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"a_ptr": "*i32", "codes_ptr": "*i32", "scales_ptr": "*u8"}
    constants: dict[str, Value | bool] = {"BLOCKS": BLOCKS, "GIVEN": given}
    source = ASTSource(
        convert,
        types | dict.fromkeys(constants, "constexpr"),
        constants,
        {(at,): [["tt.divisibility", 16]] for at in range(3)},
    )
    kernel = triton.compile(
        source,
        target=GPUTarget("hip", "gfx950", 64),
        options={"num_warps": 1, "enable_fp_fusion": False},
    )
    assert kernel.asm["amdgcn"].count("v_cvt_scalef32_pk_fp4_bf16") == BLOCKS // 4
    step = Step(
        name="convert",
        kernel="convert:convert",
        grid=(blocks // BLOCKS, 1),
        buffers={
            "a_ptr": Buffer("a", "bf16", (blocks, 32)),
            "codes_ptr": Buffer("a_codes", "u8", (blocks, 16)),
            "scales_ptr": Buffer("a_scales", "u8", (blocks, 1)),
        },
        integers={},
        constants=constants,
        options={},
        work=Work(blocks // BLOCKS, 1, 0, 0, 0, 0, 0),
    )
    return KernelObject(step, kernel.asm["hsaco"], tuple(types), 64, kernel.metadata.shared)


def assert_quantised(held: KernelObject) -> None:
    blocks = every_maximum()
    codes, scales, report = execute(held, blocks)
    wanted_codes, wanted_scales = formats.quantise(blocks)
    assert (int(wanted_scales.min()), int(wanted_scales.max())) == (0, 254)
    assert report.findings == ()
    assert int((scales != wanted_scales.reshape(-1)).sum()) == 0
    assert int((codes != wanted_codes).sum()) == 0


def test_the_blocks_hold_every_finite_value_as_their_maximum_and_all_ties() -> None:
    blocks = every_maximum()
    bits = blocks.view(torch.int16).int()
    magnitude = bits & 0x7FFF
    assert blocks.shape == (65280, 32)
    assert torch.equal(magnitude.amax(1), torch.arange(FINITE).repeat(2))
    largest = bits[magnitude == magnitude.amax(1, keepdim=True)] & 0xFFFF
    assert int(torch.bincount(largest).count_nonzero()) == 65280
    scaled = magnitude.to(torch.int16).view(torch.bfloat16).double()
    scaled /= torch.exp2(formats.quantise(blocks)[1].double() - 127)
    # not all of them: the smallest maxima do not reach far, and half of them reach 5
    held = [int((scaled == tie).any(1).sum()) for tie in TIES]
    assert held == [65248, 65184, 65120, 65056, 64896, 64768, 32384]


def test_the_portable_quantiser_is_right_on_every_block_maximum() -> None:
    assert_quantised(portable(2040, 1024))


def test_the_hardware_conversion_is_right_on_every_block_maximum() -> None:
    assert_quantised(converting(65280, given=False))


def nearest(values: Tensor, byte: Tensor) -> Tensor:
    """Return the codes of bf16 values over 2^(byte - 127): nearest, ties to even, 6 at most."""
    real = values.double()
    size = (real.abs() * torch.exp2(127 - byte.double())).clamp_max(8)
    code = CODES_EVEN_FIRST[(size.unsqueeze(-1) - GRID_EVEN_FIRST).abs().argmin(-1)]
    return code | torch.signbit(real).to(torch.uint8) << 3


def conversions() -> tuple[Tensor, Tensor]:
    """Blocks of values and the byte of each: every byte with every finite value near its scale,
    some bytes with every finite value.
    """
    bytes_ = torch.arange(255, dtype=torch.int32)
    near = (bytes_.unsqueeze(1) - 3 << 7) + torch.arange(7 << 7)  # from 2^-3 to 2^4 of the scale
    near = near.clamp(0, FINITE - 1)
    near = torch.cat([near, near | 0x8000], 1).reshape(-1, 32)
    finite = torch.arange(FINITE)
    finite = torch.cat([finite, finite | 0x8000]).reshape(-1, 32)
    blocks = torch.cat([near, finite.repeat(len(WHOLE_RANGE), 1)])
    whole = torch.tensor(WHOLE_RANGE).repeat_interleave(len(finite))
    return of_bits(blocks), torch.cat([bytes_.repeat_interleave(56), whole])


def test_the_hardware_conversion_rounds_every_value_by_every_scale() -> None:
    blocks, bytes_ = conversions()
    assert blocks.numel() == 255 * 1792 + 9 * 65280
    held = converting(len(blocks), given=True)
    codes, _, report = execute(held, blocks, bytes_)
    assert report.findings == ()
    wanted = formats.pack(nearest(blocks, bytes_.unsqueeze(1)))
    assert int((codes != wanted).sum()) == 0


@pytest.mark.parametrize("kind", ["portable", "converting"])
def test_blocks_with_a_nan_or_an_infinity_have_scale_byte_255(kind: str) -> None:
    bits = torch.arange(2 * NON_FINITE).unsqueeze(1).repeat(1, 32)
    bits = (bits * 0x4F + torch.arange(32) * 0x1234) % FINITE  # whatever is finite
    pattern = torch.arange(FINITE, FINITE + NON_FINITE)
    at = torch.arange(2 * NON_FINITE).unsqueeze(1) % 32
    bits.scatter_(1, at, torch.cat([pattern, pattern | 0x8000]).unsqueeze(1))
    held = portable(8, 1024) if kind == "portable" else converting(256, given=False)
    _, scales, report = execute(held, of_bits(bits))
    assert report.findings == ()
    assert scales.tolist() == [255] * 256
