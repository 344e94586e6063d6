"""A weight from every kind of input, and each of its layouts made once."""

import pytest
import torch
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats, layouts
from mxtune.kernels.weight import PLAIN, SHUFFLED, Mxfp4Weight

BOTH = (PLAIN, SHUFFLED)
GARBAGE = 0x7F  # as a scale byte it means 1.0, so a kernel that reads it adds the codes as they are


def random_packed(n: int, k: int) -> tuple[Tensor, Tensor]:
    """Plain codes and scales, every byte of both possible but the NaN scale."""
    source = torch.Generator().manual_seed(n * 10000 + k)
    codes = torch.randint(256, (n, k // 2), generator=source, dtype=torch.uint8)
    return codes, torch.randint(255, (n, k // 32), generator=source, dtype=torch.uint8)


def in_layout(codes: Tensor, scales: Tensor, layout: str, scale_layout: str) -> Mxfp4Weight:
    return Mxfp4Weight.from_packed(
        layouts.shuffle_weight(codes) if layout == SHUFFLED else codes,
        layouts.shuffle_scales(scales) if scale_layout == SHUFFLED else scales,
        layout=layout,
        scale_layout=scale_layout,
    )


def with_dirty_padding(scales: Tensor) -> Tensor:
    """Shuffled scales whose padding holds GARBAGE."""
    inside = layouts.shuffle_scales(torch.ones_like(scales)).bool()
    return torch.where(inside, layouts.shuffle_scales(scales), GARBAGE).to(torch.uint8)


@pytest.mark.parametrize(
    ("rule", "scale_bytes", "row"),
    [
        ("even", [[126, 0], [128, 127]], [2.0, -0.5, 1.0, 0.0]),
        ("floor", [[125, 0], [127, 127]], [1.5, -0.5, 1.0, 0.0]),
        ("round_up", [[126, 0], [128, 127]], [2.0, -0.5, 1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_weight_is_quantised_by_the_rule_it_names(
    rule: str, scale_bytes: list[list[int]], row: list[float], dtype: torch.dtype
) -> None:
    b = torch.zeros(2, 64, dtype=dtype)
    b[0, :4] = torch.tensor([1.75, -0.5, 1.0, 0.0])
    b[1, 0], b[1, 32] = 7.0, -6.0
    weight = Mxfp4Weight.quantise(b, rule)
    assert (weight.n, weight.k, weight.rule, weight.device) == (2, 64, rule, "cpu")
    assert weight.scales().tolist() == scale_bytes
    values = weight.dequantised()
    assert values[0].tolist() == row + [0.0] * 60
    assert values[1, 0].item() == (6.0 if rule == "floor" else 8.0)
    assert values[1, 32].item() == -6.0


def test_a_parameter_and_a_transposed_weight_are_quantised_by_value() -> None:
    b = torch.randn(96, 64, generator=torch.Generator().manual_seed(0))
    wanted = formats.quantise(b)[0]
    parameter = Mxfp4Weight.quantise(torch.nn.Parameter(b))
    assert torch.equal(parameter.codes(), wanted)
    assert not parameter.dequantised().requires_grad
    assert torch.equal(Mxfp4Weight.quantise(b.t().contiguous().t()).codes(), wanted)


@pytest.mark.parametrize("layout", BOTH)
@pytest.mark.parametrize("scale_layout", BOTH)
@pytest.mark.parametrize(("n", "k"), [(32, 64), (48, 320), (352, 384), (256, 256)])
def test_a_weight_is_the_same_from_every_layout_it_can_come_in(
    layout: str, scale_layout: str, n: int, k: int
) -> None:
    codes, scales = random_packed(n, k)
    weight = in_layout(codes, scales, layout, scale_layout)
    assert (weight.n, weight.k, weight.rule) == (n, k, "even")
    assert torch.equal(weight.codes(PLAIN), codes)
    assert torch.equal(weight.scales(PLAIN), scales)
    assert torch.equal(weight.codes(SHUFFLED), layouts.shuffle_weight(codes))
    assert torch.equal(weight.scales(SHUFFLED), layouts.shuffle_scales(scales))
    assert torch.equal(weight.dequantised(), formats.dequantise(codes, scales))
    made = [weight.codes(name) for name in BOTH] + [weight.scales(name) for name in BOTH]
    assert [tensor.is_contiguous() for tensor in made] == [True] * 4


@pytest.mark.parametrize("layout", BOTH)
@pytest.mark.parametrize("scale_layout", BOTH)
def test_each_layout_is_made_once(layout: str, scale_layout: str) -> None:
    weight = in_layout(*random_packed(32, 64), layout, scale_layout)
    for name in BOTH:
        assert weight.codes(name) is weight.codes(name)
        assert weight.scales(name) is weight.scales(name)


def test_scales_come_in_the_layout_of_the_codes_unless_told() -> None:
    codes, scales = random_packed(32, 64)
    shuffled = layouts.shuffle_weight(codes), layouts.shuffle_scales(scales)
    weight = Mxfp4Weight.from_packed(*shuffled, layout=SHUFFLED, rule="round_up")
    assert weight.rule == "round_up"
    assert torch.equal(weight.scales(PLAIN), scales)


def test_tensors_that_fit_are_taken_without_a_copy() -> None:
    codes, scales = random_packed(256, 256)
    weight = Mxfp4Weight.from_packed(codes, scales)
    assert weight.codes().data_ptr() == codes.data_ptr()
    assert weight.scales().data_ptr() == scales.data_ptr()
    exact = layouts.shuffle_scales(scales)  # 256 x 8 has no padding that could need zeroing
    weight = Mxfp4Weight.from_packed(codes, exact, scale_layout=SHUFFLED)
    assert weight.scales(SHUFFLED).data_ptr() == exact.data_ptr()


@pytest.mark.parametrize(("n", "k"), [(64, 128), (352, 352), (272, 320)])
def test_dirty_padding_of_given_scales_is_zeroed_in_a_copy(n: int, k: int) -> None:
    # BL-014
    codes, scales = random_packed(n, k)
    dirty = with_dirty_padding(scales)
    given = dirty.clone()
    weight = Mxfp4Weight.from_packed(codes, given, scale_layout=SHUFFLED)
    assert torch.equal(weight.scales(SHUFFLED), layouts.shuffle_scales(scales))
    assert torch.equal(weight.scales(PLAIN), scales)
    assert torch.equal(given, dirty)


def test_the_dtypes_torch_has_for_fp4_and_e8m0_are_taken_as_bytes() -> None:
    codes, scales = random_packed(32, 128)
    for code_dtype, scale_dtype in (
        (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu),
        (torch.int8, torch.int8),
    ):
        weight = Mxfp4Weight.from_packed(codes.view(code_dtype), scales.view(scale_dtype))
        assert (weight.codes().dtype, weight.scales().dtype) == (torch.uint8, torch.uint8)
        assert torch.equal(weight.codes(), codes)
        assert torch.equal(weight.scales(), scales)


def test_strided_tensors_are_taken_by_value() -> None:
    # BL-033; AITER's quantiser returns its scales column by column
    codes, scales = random_packed(32, 128)
    columns = scales.t().contiguous().t()
    for given in (columns, columns.view(torch.float8_e8m0fnu)):
        weight = Mxfp4Weight.from_packed(codes.repeat(1, 2)[:, :64], given)
        assert torch.equal(weight.codes(), codes)
        assert torch.equal(weight.scales(), scales)
        assert weight.scales().is_contiguous()


def test_n_need_be_a_multiple_of_16_only_for_shuffled_codes() -> None:
    codes, scales = random_packed(17, 64)
    weight = Mxfp4Weight.from_packed(codes, scales)
    assert torch.equal(weight.scales(SHUFFLED), layouts.shuffle_scales(scales))
    assert torch.equal(weight.dequantised(), formats.dequantise(codes, scales))
    with pytest.raises(ConfigError) as error:
        weight.codes(SHUFFLED)
    assert str(error.value) == "shuffled weights need N to be a multiple of 16, not 17"


def test_a_weight_without_rows_has_no_values() -> None:
    # BL-028
    assert Mxfp4Weight.quantise(torch.zeros(0, 64)).dequantised().shape == (0, 64)


def uint8(*size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("codes", "scales", "layout", "scale_layout", "message"),
    [
        (
            torch.zeros(16, 32),
            uint8(16, 2),
            PLAIN,
            PLAIN,
            "codes: expected a matrix of one-byte elements, not torch.float32 [16, 32]",
        ),
        (
            uint8(1, 16, 32),
            uint8(16, 2),
            PLAIN,
            PLAIN,
            "codes: expected a matrix of one-byte elements, not torch.uint8 [1, 16, 32]",
        ),
        (
            uint8(16, 32),
            uint8(16, 2).bfloat16(),
            PLAIN,
            PLAIN,
            "scales: expected a matrix of one-byte elements, not torch.bfloat16 [16, 2]",
        ),
        (
            uint8(16, 24),
            uint8(16, 2),
            PLAIN,
            PLAIN,
            "codes: 24 bytes a row are K = 48, no multiple of 32",
        ),
        (
            uint8(24, 32),
            uint8(24, 2),
            SHUFFLED,
            PLAIN,
            "codes: shuffled weights need N to be a multiple of 16, not 24",
        ),
        (
            uint8(16, 16),
            uint8(16, 1),
            SHUFFLED,
            PLAIN,
            "codes: shuffled weights need K to be a multiple of 64, not 32",
        ),
        (
            uint8(16, 32),
            uint8(256, 8),
            PLAIN,
            PLAIN,
            "scales: plain scales of N=16, K=64 are [16, 2], not [256, 8]",
        ),
        (
            uint8(16, 32),
            uint8(16, 2),
            PLAIN,
            SHUFFLED,
            "scales: shuffled scales of N=16, K=64 are [256, 8], not [16, 2]",
        ),
        (uint8(16, 32), uint8(16, 2), "tiled", PLAIN, "unknown layout 'tiled': plain or shuffled"),
        (uint8(16, 32), uint8(16, 2), PLAIN, "tiled", "unknown layout 'tiled': plain or shuffled"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    codes: Tensor, scales: Tensor, layout: str, scale_layout: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        Mxfp4Weight.from_packed(codes, scales, layout=layout, scale_layout=scale_layout)
    assert str(error.value) == message


def test_asking_for_an_unknown_layout_is_refused() -> None:
    # 256 x 256: here plain scales have the size of shuffled ones, so no size gives it away
    weight = Mxfp4Weight.from_packed(*random_packed(256, 256))
    for ask in (weight.codes, weight.scales):
        with pytest.raises(ConfigError) as error:
            ask("tiled")
        assert str(error.value) == "unknown layout 'tiled': plain or shuffled"
