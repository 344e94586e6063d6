"""MXFP4 numbers against written-out vectors, ml_dtypes, torchao and exhaustive bf16 input."""

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

# First values of a block of 32 in bf16 (the rest is 0): values, scale byte, codes, dequantised.
VECTORS: dict[str, tuple[list[float], int, list[int], list[float]]] = {
    # BL-001: every half-way point goes to the even code
    "ties": (
        [4, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5],
        127,
        [6, 0, 2, 2, 4, 4, 6, 6, 8, 10, 10, 12, 12, 14, 14],
        [4, 0, 1, 1, 2, 2, 4, 4, 0, -1, -1, -2, -2, -4, -4],
    ),
    "tie-small-scale": ([2, -0.625], 126, [6, 10], [2, -0.5]),
    # BL-005: between 6 and 7 times the scale a value clips, from 7 on the scale doubles
    "clip": ([6.96875], 127, [7], [6]),
    "noclip": ([7], 128, [6], [8]),
    # BL-004: the two blocks that tell the rules apart
    "rule-probe-a": ([1.5625], 125, [7], [1.5]),
    "rule-probe-b": ([1.75], 126, [6], [2]),
    # BL-006: E8M0 has no zero, so a zero block has byte 0 and zero codes
    "zero": ([0], 0, [0], [0]),
    "neg-zero": ([-0.0, -1], 125, [8, 14], [0, -1]),
    "one-spike": ([6] + [0.240234375] * 31, 127, [7] + [0] * 31, [6] + [0] * 31),
    "all-negative": (
        [-float(value) for value in range(1, 33)],
        130,
        [8] * 2 + [9] * 3 + [10] * 5 + [11] * 3 + [12] * 7 + [13] * 7 + [14] * 5,
        [0] * 2 + [-4] * 3 + [-8] * 5 + [-12] * 3 + [-16] * 7 + [-24] * 7 + [-32] * 5,
    ),
    # BL-011: a negative exponent survives its way into an unsigned byte
    "neg-exponent": (
        [0.10009765625, -0.01251220703125, 0.050048828125],
        121,
        [7, 10, 5],
        [0.09375, -0.015625, 0.046875],
    ),
}
# BL-010: scale byte, then the values of codes 1 and 7; codes 9 and 15 are their negatives.
DECODED = [
    (0, 2.938735877055719e-39, 3.5264830524668625e-38),  # 2^-127 times the code, not zero
    (1, 5.877471754111438e-39, 7.052966104933725e-38),
    (126, 0.25, 3.0),
    (127, 0.5, 6.0),
    (128, 1.0, 12.0),
    (253, 4.253529586511731e37, math.inf),
    (254, 8.507059173023462e37, math.inf),
]
EVEN_TOP = 1.75 * 2.0**127  # from here on the even rule rounds the block maximum to infinity
BF16 = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
FINITE_BF16 = BF16[BF16.isfinite()]


def block(values: list[float], dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.tensor([values + [0.0] * (32 - len(values))], dtype=dtype)


def scale_byte(values: list[float], rule: str, dtype: torch.dtype = torch.bfloat16) -> int:
    return int(formats.quantise(block(values, dtype), rule)[1])


def blocks_below(tops: Tensor, seed: int = 0) -> Tensor:
    """One block for each of ``tops``, which is its largest value and stands anywhere in it."""
    source = torch.Generator().manual_seed(seed)
    size = (len(tops), 32)
    # 7 octaves below the maximum reach from saturation to zero, subnormals of the grid included
    parts = torch.exp2(-7 * torch.rand(size, generator=source))
    parts = torch.where(torch.rand(size, generator=source) < 0.5, parts, -parts)
    x = (tops.double().unsqueeze(1) * parts).to(tops.dtype)
    x[torch.arange(len(tops)), torch.randint(32, (len(tops),), generator=source)] = tops
    return x


def expected_bytes(top: Floats, rule: str) -> npt.NDArray[np.int64]:
    """The scale byte of finite block maxima, from the definition of each rule, without bits."""
    if rule == "round_up":  # the smallest scale that does not clip
        return np.searchsorted(6 * np.exp2(np.arange(-127.0, 128)), top)
    if rule == "floor":  # the largest scale with 4 * scale <= top
        return np.searchsorted(4 * np.exp2(np.arange(-126.0, 128)), top, side="right")
    significand, exponent = np.frexp(top)
    rounded = np.ldexp(np.rint(significand * 4), exponent - 2)  # two significant bits
    byte = np.clip(np.frexp(rounded)[1] - 3, -127, 127) + 127
    return np.where(top == 0, 0, np.where(rounded == 2.0**128, 254, byte)).astype(np.int64)


def expected(x: Tensor, rule: str) -> tuple[Bytes, Bytes]:
    """Packed codes and scale bytes of finite [R, 32], from ml_dtypes and the rules' definitions."""
    values = x.double().numpy()
    scales = expected_bytes(np.abs(values).max(1, keepdims=True), rule)
    scaled = np.clip(values * np.exp2(127.0 - scales), -6, 6).astype(np.float32)
    codes = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return codes[:, 0::2] | (codes[:, 1::2] << 4), scales.astype(np.uint8)


def check_against_oracle(x: Tensor, rule: str = "even") -> None:
    codes, scales = formats.quantise(x, rule)
    expected_codes, expected_scales = expected(x, rule)
    np.testing.assert_array_equal(scales.numpy(), expected_scales)
    np.testing.assert_array_equal(codes.numpy(), expected_codes)


@pytest.mark.parametrize(("values", "byte", "codes", "dequantised"), VECTORS.values(), ids=VECTORS)
def test_a_block_gets_the_codes_of_the_contest_reference(
    values: list[float], byte: int, codes: list[int], dequantised: list[float]
) -> None:
    packed, scales = formats.quantise(block(values))
    rest = [0] * (32 - len(values))
    assert scales.tolist() == [[byte]]
    assert formats.unpack(packed).tolist() == [codes + rest]
    assert formats.dequantise(packed, scales).tolist() == [dequantised + rest]


@pytest.mark.parametrize(
    ("value", "even", "floor", "round_up"),
    [
        (1.5, 125, 125, 125),
        (1.5625, 125, 125, 126),  # BL-004
        (1.6, 125, 125, 126),
        (1.75, 126, 125, 126),  # BL-004
        (1.8, 126, 125, 126),
        (2.0**127, 252, 252, 252),
        (EVEN_TOP, 254, 252, 253),
        (2.0**-133, 0, 0, 0),
    ],
)
def test_probe_blocks_tell_the_rules_apart(
    value: float, even: int, floor: int, round_up: int
) -> None:
    assert scale_byte([value], "even") == even
    assert scale_byte([value], "floor") == floor
    assert scale_byte([value], "round_up") == round_up


def test_fp32_and_fp16_keep_their_precision_below_the_threshold() -> None:
    # BL-013: a detour through bf16 would make both 1.75, which gets byte 126
    packed, scales = formats.quantise(block([1.7499], torch.float32))
    assert (packed[0, 0].item(), scales.item()) == (7, 125)
    assert formats.dequantise(packed, scales)[0, 0].item() == 1.5
    assert scale_byte([1.7490234375], "even", torch.float16) == 125
    assert scale_byte([1.75], "even", torch.float16) == 126


@pytest.mark.parametrize("rule", ["even", "floor", "round_up"])
@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_block_with_a_nan_or_an_infinity_becomes_nan(
    rule: str, bad: float, dtype: torch.dtype
) -> None:
    # BL-008: a maximum that drops the NaN would see 60000
    x = torch.ones(2, 96, dtype=dtype)
    x[1, 32], x[1, 40] = 60000, bad
    packed, scales = formats.quantise(x, rule)
    assert scales.tolist() == [[125] * 3, [125, 255, 125]]
    values = formats.dequantise(packed, scales)
    assert values[1, 32:64].isnan().all()
    assert values[0].tolist() == [1.0] * 96
    assert values[1, :32].tolist() + values[1, 64:].tolist() == [1.0] * 64


def test_every_non_finite_bf16_pattern_gives_byte_255() -> None:
    x = torch.ones(256, 32, dtype=torch.bfloat16)
    x[:, 17] = BF16[~BF16.isfinite()]
    assert formats.quantise(x)[1].tolist() == [[255]] * 256


@pytest.mark.parametrize(("byte", "small", "large"), DECODED)
def test_a_scale_byte_multiplies_exactly(byte: int, small: float, large: float) -> None:
    packed = formats.pack(torch.tensor([[1, 7, 9, 15] * 8], dtype=torch.uint8))
    values = formats.dequantise(packed, torch.tensor([[byte]], dtype=torch.uint8))
    assert values.tolist() == [[small, large, -small, -large] * 8]


def test_every_code_under_every_scale_byte_decodes_as_ml_dtypes_does() -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (256, 2))
    scales = np.arange(256, dtype=np.uint8).reshape(256, 1)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN of byte 255; 4 * 2^126 is infinite
        wide = values * scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        wanted = wide.astype(np.float32)
    packed = formats.pack(torch.from_numpy(codes))
    decoded = formats.dequantise(packed, torch.from_numpy(scales)).numpy()
    np.testing.assert_array_equal(decoded, wanted)
    np.testing.assert_array_equal(np.signbit(decoded[:255]), np.signbit(wanted[:255]))


@pytest.mark.parametrize("rule", ["even", "floor", "round_up"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_finite_bf16_as_block_maximum_agrees_with_the_definition(
    rule: str, seed: int
) -> None:
    check_against_oracle(blocks_below(FINITE_BF16, seed), rule)


@pytest.mark.parametrize("byte", [0, 1, 2, 3, 63, 121, 125, 126, 127, 128, 190, 251, 252, 254])
def test_every_bf16_under_a_scale_byte_gets_the_code_of_ml_dtypes(byte: int) -> None:
    anchor = EVEN_TOP if byte == 254 else 6 * 2.0 ** (byte - 127)
    clips = math.inf if byte == 254 else EVEN_TOP if byte == 252 else 7 * 2.0 ** (byte - 127)
    below = FINITE_BF16[FINITE_BF16.double().abs() < clips]
    x = torch.zeros(-(-len(below) // 31), 32, dtype=torch.bfloat16)
    x[:, 0] = anchor
    x[:, 1:].copy_(torch.nn.functional.pad(below, (0, -len(below) % 31)).reshape(-1, 31))
    assert formats.quantise(x)[1].unique().tolist() == [byte]
    check_against_oracle(x)


@pytest.mark.parametrize("rule", ["even", "floor", "round_up"])
def test_fp16_and_fp32_maxima_agree_with_the_definition(rule: str) -> None:
    halves = BF16.view(torch.float16)
    check_against_oracle(blocks_below(halves[halves.isfinite()]), rule)
    # both neighbours of every point where a rule may turn, in every fp32 binade
    turns = torch.tensor([0, 0x200000, 0x400000, 0x600000, 0x7FFFFF])
    bits = torch.arange(255).mul(1 << 23).reshape(-1, 1, 1) + turns.reshape(-1, 1)
    bits = (bits + torch.tensor([-1, 0, 1])).flatten().clamp(0, 0x7F7FFFFF)
    check_against_oracle(blocks_below(bits.int().view(torch.float32)), rule)


@pytest.mark.parametrize("rule", ["even", "floor", "round_up"])
def test_quantising_a_second_time_changes_no_value(rule: str) -> None:
    x = blocks_below(FINITE_BF16[FINITE_BF16.float().abs() < EVEN_TOP], 3)
    packed, scales = formats.quantise(x, rule)
    values = formats.dequantise(packed, scales)
    again, bytes_again = formats.quantise(values, rule)
    assert torch.equal(formats.dequantise(again, bytes_again), values)
    if rule != "round_up":  # a maximum rounded down to 3 fits half the scale as 6
        assert torch.equal(again, packed)
        assert torch.equal(bytes_again, scales)


def test_round_up_gives_a_maximum_that_fell_to_3_half_the_scale_next_time() -> None:
    packed, scales = formats.quantise(block([3.25, 1]), "round_up")
    assert (packed[0, 0].item(), scales.item()) == (0x25, 127)
    packed, scales = formats.quantise(formats.dequantise(packed, scales), "round_up")
    assert (packed[0, 0].item(), scales.item()) == (0x47, 126)


@settings(deadline=None, database=None)
@given(
    st.lists(st.floats(-8, 8, width=16), min_size=32, max_size=32),
    st.integers(-90, 90),
    st.sampled_from(["even", "floor", "round_up"]),
)
def test_a_power_of_two_moves_only_the_scale(values: list[float], power: int, rule: str) -> None:
    x = torch.tensor([[8.0, *values] + [0.0] * 31])  # 8 keeps the first block off the zero block
    codes, scales = formats.quantise(x, rule)
    moved_codes, moved_scales = formats.quantise(x * 2.0**power, rule)
    assert moved_scales[0, 0] == scales[0, 0] + power
    assert moved_codes[0, :16].tolist() == codes[0, :16].tolist()


def test_any_strides_give_the_codes_of_the_contiguous_copy() -> None:
    # BL-033
    base = torch.randn(64, 192, generator=torch.Generator().manual_seed(0)).bfloat16()
    views = [base.t()[:, :32], base[:, ::2], base[:, 64:128], base.flip(0), base[:1].expand(5, -1)]
    for view in views:
        codes, scales = formats.quantise(view)
        expected_codes, expected_scales = formats.quantise(view.clone(memory_format=torch.contiguous_format))
        assert torch.equal(codes, expected_codes)
        assert torch.equal(scales, expected_scales)
