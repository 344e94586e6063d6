"""MXFP4 numbers against written-out vectors, ml_dtypes, torchao and exhaustive bf16 input."""

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings, strategies

from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats

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
    "one-spike": ([6.0] + [0.240234375] * 31, 127, [7] + [0] * 31, [6.0] + [0.0] * 31),
    "all-negative": (
        [-float(value) for value in range(1, 33)],
        130,
        [8] * 2 + [9] * 3 + [10] * 5 + [11] * 3 + [12] * 7 + [13] * 7 + [14] * 5,
        [0.0] * 2 + [-4.0] * 3 + [-8.0] * 5 + [-12.0] * 3 + [-16.0] * 7 + [-24.0] * 7 + [-32.0] * 5,
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

RULES = ["even", "floor", "round_up"]
each_rule = pytest.mark.parametrize("rule", RULES)


def block(values: list[float], dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.tensor([values + [0.0] * (32 - len(values))], dtype=dtype)


def blocks_below(tops: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """One block for each of ``tops``, which is its largest value and stands anywhere in it."""
    source = torch.Generator().manual_seed(seed)
    # 7 octaves below the maximum all values round to zero
    parts = torch.exp2(-7 * torch.rand(len(tops), 32, generator=source))
    parts = torch.where(torch.rand(len(tops), 32, generator=source) < 0.5, parts, -parts)
    x = (tops.double().unsqueeze(1) * parts).to(tops.dtype)
    x[torch.arange(len(tops)), torch.randint(32, (len(tops),), generator=source)] = tops
    return x


def expected_bytes(top: npt.NDArray[np.float64], rule: str) -> npt.NDArray[np.int64]:
    """The scale byte of finite block maxima, from the definition of each rule, without bits."""
    if rule == "round_up":  # the smallest scale that does not clip
        return np.searchsorted(6 * np.exp2(np.arange(-127.0, 128)), top)
    if rule == "floor":  # the largest scale with 4 * scale <= top
        return np.searchsorted(4 * np.exp2(np.arange(-126.0, 128)), top, side="right")
    significand, exponent = np.frexp(top)
    rounded = np.ldexp(np.rint(significand * 4), exponent - 2)  # two significant bits
    byte = np.clip(np.frexp(rounded)[1] - 3, -127, 127) + 127
    return np.where(top == 0, 0, np.where(rounded == 2.0**128, 254, byte)).astype(np.int64)


def check_against_oracle(x: torch.Tensor, rule: str = "even") -> None:
    """Compare finite rows with the rules' definitions and the rounding of ml_dtypes."""
    values = x.double().numpy().reshape(-1, 32)
    scales = expected_bytes(np.abs(values).max(1, keepdims=True), rule)
    scaled = np.clip(values * np.exp2(127.0 - scales), -6, 6).astype(np.float32)
    codes = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    packed, scale_bytes = formats.quantise(x, rule)
    np.testing.assert_array_equal(scale_bytes.numpy().reshape(-1, 1), scales)
    np.testing.assert_array_equal(formats.unpack(packed).numpy().reshape(-1, 32), codes)


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
    ("value", "scales"),
    [
        (1.5625, [125, 125, 126]),  # BL-004
        (1.6, [125, 125, 126]),
        (1.75, [126, 125, 126]),  # BL-004
        (1.8, [126, 125, 126]),
        (2.0**127, [252, 252, 252]),
        (EVEN_TOP, [254, 252, 253]),
    ],
)
def test_probe_blocks_tell_even_floor_and_round_up_apart(value: float, scales: list[int]) -> None:
    assert [formats.quantise(block([value]), rule)[1].item() for rule in RULES] == scales


def test_fp32_and_fp16_keep_their_precision_below_the_threshold() -> None:
    # BL-013: a detour through bf16 would make both 1.75, which gets byte 126
    packed, scales = formats.quantise(block([1.7499], torch.float32))
    assert (packed[0, 0].item(), scales.item()) == (7, 125)
    assert formats.dequantise(packed, scales)[0, 0].item() == 1.5
    assert formats.quantise(block([1.7490234375], torch.float16))[1].item() == 125


@each_rule
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_block_with_any_nan_or_infinity_becomes_nan(rule: str, dtype: torch.dtype) -> None:
    # BL-008: a maximum that drops the NaN would see 60000
    x = torch.ones(256, 96, dtype=dtype)
    x[:, 32], x[:, 40] = 60000, BF16[~BF16.isfinite()]
    packed, scales = formats.quantise(x, rule)
    assert scales.tolist() == [[125, 255, 125]] * 256
    values = formats.dequantise(packed, scales)
    assert values[:, 32:64].isnan().all()
    assert (values.nan_to_num(1) == 1).all()


@pytest.mark.parametrize(("byte", "small", "large"), DECODED)
def test_a_scale_byte_multiplies_as_fp32_does(byte: int, small: float, large: float) -> None:
    packed = torch.tensor([[value] + [0] * 15 for value in (1, 7, 9, 15)], dtype=torch.uint8)
    values = formats.dequantise(packed, torch.full((4, 1), byte, dtype=torch.uint8))
    assert values[:, 0].tolist() == [small, large, -small, -large]
    assert formats.product(torch.ones(1, 32), values).tolist() == [[small, large, -small, -large]]


def test_every_code_under_every_scale_byte_decodes_as_ml_dtypes_does() -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (256, 2))
    scales = np.arange(256, dtype=np.uint8).reshape(256, 1)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN of byte 255; 4 * 2^126 is infinite
        powers = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        wanted = (values * powers).astype(np.float32)
    packed = formats.pack(torch.from_numpy(codes))
    decoded = formats.dequantise(packed, torch.from_numpy(scales)).numpy()
    np.testing.assert_array_equal(decoded, wanted)
    np.testing.assert_array_equal(np.signbit(decoded[:255]), np.signbit(wanted[:255]))


@each_rule
def test_block_maxima_of_every_dtype_agree_with_the_definition(rule: str) -> None:
    halves = BF16.view(torch.float16)
    # both neighbours of every point where a rule may turn, in every fp32 binade
    turns = torch.arange(4 * 255, dtype=torch.int32).reshape(-1, 1) << 21
    bits = (turns + torch.tensor([-1, 0, 1], dtype=torch.int32)).flatten().clamp_min(0)
    for tops in (FINITE_BF16, halves[halves.isfinite()], bits.view(torch.float32)):
        for seed in range(3):
            check_against_oracle(blocks_below(tops, seed), rule)


def test_every_bf16_under_every_scale_byte_gets_the_code_of_ml_dtypes() -> None:
    for byte in [*range(253), 254]:  # the even rule never gives 253
        anchor = 6 * 2.0 ** (byte - 127) if byte < 254 else EVEN_TOP
        keeps = min(7 * 2.0 ** (byte - 127), EVEN_TOP) if byte < 254 else math.inf
        below = FINITE_BF16[FINITE_BF16.double().abs() < keeps]
        rest = torch.nn.functional.pad(below, (0, -len(below) % 31)).reshape(-1, 31)
        x = torch.cat((torch.full((len(rest), 1), anchor, dtype=torch.bfloat16), rest), 1)
        assert (formats.quantise(x)[1] == byte).all()
        check_against_oracle(x)


@each_rule
def test_quantising_a_second_time_changes_no_value(rule: str) -> None:
    x = blocks_below(FINITE_BF16[FINITE_BF16.float().abs() < EVEN_TOP])  # else it turns infinite
    packed, scales = formats.quantise(x, rule)
    values = formats.dequantise(packed, scales)
    again, bytes_again = formats.quantise(values, rule)
    assert torch.equal(formats.dequantise(again, bytes_again), values)
    if rule != "round_up":  # a maximum rounded down to 3 fits half the scale as 6
        assert torch.equal(again, packed)
        assert torch.equal(bytes_again, scales)


@settings(deadline=None, database=None)
@given(
    strategies.lists(strategies.floats(-8, 8, width=16), min_size=31, max_size=31),
    strategies.integers(-90, 90),
    strategies.sampled_from(RULES),
)
def test_a_power_of_two_moves_only_the_scale(values: list[float], power: int, rule: str) -> None:
    x = torch.tensor([[8.0, *values]])  # without the 8 it could be the zero block
    codes, scales = formats.quantise(x, rule)
    moved_codes, moved_scales = formats.quantise(x * 2.0**power, rule)
    assert moved_scales.item() == scales.item() + power
    assert moved_codes.tolist() == codes.tolist()


def test_any_strides_are_quantised_by_value() -> None:  # BL-033
    base = torch.randn(64, 192, generator=torch.Generator().manual_seed(0)).bfloat16()
    expanded = base[:1].expand(5, -1)
    for view in (base.t()[:, :32], base[:, ::2], base[:, 64:128], base.flip(0), expanded):
        check_against_oracle(view)


def test_no_rows_and_no_columns_are_quantised_to_nothing() -> None:
    for rows, k in ((0, 64), (3, 0)):  # BL-028
        codes, scales = formats.quantise(torch.zeros(rows, k))
        assert (codes.shape, scales.shape) == ((rows, k // 2), (rows, k // 32))
        assert formats.dequantise(codes, scales).shape == (rows, k)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(1, 32).double(), "torch.float64: expected bfloat16, float16 or float32"),
        (torch.ones(2, 33), "[2, 33]: expected [rows, K], K a multiple of 32"),
    ],
)
def test_what_cannot_be_quantised_is_refused_in_one_line(x: torch.Tensor, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        formats.quantise(x)
    assert str(error.value) == f"cannot quantise {message}"


def test_an_unknown_rule_is_refused_with_the_rules_there_are() -> None:
    with pytest.raises(ConfigError) as error:
        formats.quantise(torch.ones(1, 32), "ceil")
    assert str(error.value) == "unknown scale rule 'ceil': one of even, floor, round_up"


def test_the_low_nibble_comes_first_and_every_byte_survives_unpacking() -> None:
    assert formats.pack(torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)).tolist() == [[0x21, 0x0F]]
    every = torch.arange(256, dtype=torch.uint8).reshape(4, 64)
    assert torch.equal(formats.pack(formats.unpack(every)), every)


def test_a_power_of_two_is_exact_or_nan() -> None:
    powers = formats.power_of_two(torch.arange(-127, 128))
    assert powers.tolist() == [math.ldexp(1, exponent) for exponent in range(-127, 128)]
    assert formats.power_of_two(torch.tensor([-128, 128, 300, -300])).isnan().all()


def test_a_product_is_summed_in_fp64_and_rounded_once() -> None:
    a = torch.tensor([[2.0**40, 1, -(2.0**40)], [1, 2, 3]])
    c = formats.product(a, torch.tensor([[1.0, 1, 1], [0, 0.5, -1]]))
    assert (c.dtype, c.tolist()) == (torch.float32, [[1, 2.0**40], [6, -2]])
    assert formats.product(a, torch.ones(0, 3)).shape == (2, 0)
    assert formats.product(torch.ones(2, 0), torch.ones(1, 0)).tolist() == [[0], [0]]


def test_torchao_even_mode_gives_the_same_bits_between_the_ends_of_the_range() -> None:
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")

    def torchao(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scales, codes = mx.to_mx(x, torch.float4_e2m1fn_x2, 32, mx.ScaleCalculationMode.EVEN)
        return codes.view(torch.uint8), scales.view(torch.uint8)

    x = blocks_below(FINITE_BF16)
    top = FINITE_BF16.float().abs()
    (codes, scales), (their_codes, their_scales) = formats.quantise(x), torchao(x)
    low, high = (top > 0) & (top < 1.75 * 2.0**-125), top >= EVEN_TOP
    assert torch.equal(their_codes[~low & ~high], codes[~low & ~high])  # zero blocks included
    assert torch.equal(their_scales[~high], scales[~high])
    # at scale byte 0 torchao divides by 2^-126, so its codes stand for half the value
    assert torch.equal(their_codes[low], formats.quantise(x[low].float() / 2)[0])
    # where the maximum rounds to infinity AITER, and so mxtune, takes 2^127, torchao 2^126
    assert (scales[high] == 254).all()
    assert (their_scales[high] == 253).all()
    # both keep a NaN; torchao stores an infinity as 6 * 2^126
    odd = torch.tensor([[math.nan] + [1.0] * 31, [math.inf] + [1.0] * 31])
    assert formats.quantise(odd)[1].tolist() == [[255], [255]]
    assert torchao(odd)[1].tolist() == [[255], [253]]
    gauss = torch.randn(4096, 256, generator=torch.Generator().manual_seed(0))
    octaves = torch.exp2(torch.arange(4096) % 240 - 120.0).unsqueeze(1)
    for x in (gauss, gauss.bfloat16(), gauss * octaves):
        for ours, theirs in zip(formats.quantise(x), torchao(x), strict=True):
            assert torch.equal(ours, theirs)
