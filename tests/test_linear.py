"""The layer: its numbers, what it takes and what it refuses."""

import gc
import weakref

import pytest
import torch
from tests.plain_linear import layer, linear, normal, plain_gemm
from torch import Tensor, nn

from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats, layouts
from mxtune.kernels.activation import Mxfp4Activation
from mxtune.kernels.linear import Mxfp4Linear
from mxtune.kernels.weight import Mxfp4Weight


def rounded(x: Tensor) -> Tensor:
    return formats.dequantise(*formats.quantise(x))


def expected(x: Tensor, given: nn.Linear) -> Tensor:
    product = rounded(x).double() @ rounded(given.weight.detach()).double().T
    return product.float().bfloat16() + given.bias.detach()


# --- numbers


def test_a_product_worked_out_by_hand() -> None:
    given = nn.Linear(32, 2, dtype=torch.bfloat16)
    given.weight.data = torch.ones(2, 32).bfloat16()
    given.weight.data[1] = torch.tensor([2.0, -2.0] * 16)
    given.bias.data = torch.tensor([0.5, -1.0]).bfloat16()
    x = torch.zeros(1, 32).bfloat16()
    x[0, :3] = torch.tensor([1.0, 2.0, 3.0])  # each on the grid, so nothing is rounded
    assert Mxfp4Linear.from_linear(given, plain_gemm)(x).tolist() == [[6.5, 3.0]]


def test_the_bias_is_added_to_the_rounded_product_and_the_sum_rounded_again() -> None:
    given = nn.Linear(64, 1, dtype=torch.bfloat16)
    given.weight.data.fill_(1.0)
    given.bias.data.fill_(1.0)
    x = torch.zeros(1, 64).bfloat16()
    x[0, 0], x[0, 32] = 256.0, 1.0
    # 257 rounds to 256, and so does 256 + 1; rounded once, 258 would come out
    assert Mxfp4Linear.from_linear(given, plain_gemm)(x).tolist() == [[256.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_linear_of_each_dtype_is_quantised_as_it_is_and_its_bias_rounded(
    dtype: torch.dtype,
) -> None:
    given = nn.Linear(96, 48, dtype=dtype)
    fine = torch.full((48,), 1 + 2**-8 + 2**-10, dtype=dtype)  # above half-way to the next bf16
    given.bias.data = fine
    made = Mxfp4Linear.from_linear(given, plain_gemm)
    assert torch.equal(made.weight, formats.quantise(given.weight.detach())[0])
    assert torch.equal(made.weight_scale, formats.quantise(given.weight.detach())[1])
    assert made.bias is not None
    assert made.bias.tolist() == [float(fine.bfloat16()[0])] * 48
    assert made.bias.dtype == torch.bfloat16


@pytest.mark.parametrize("size", [(96,), (0, 96), (7, 96), (2, 0, 96), (2, 3, 5, 96)])
def test_any_leading_dimensions_come_out_as_they_went_in(size: tuple[int, ...]) -> None:
    given = linear()
    x = normal(*size)
    y = Mxfp4Linear.from_linear(given, plain_gemm)(x)
    assert y.shape == (*size[:-1], 48)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y.reshape(-1, 48), expected(x.reshape(-1, 96), given))


def test_an_input_of_any_strides_is_taken_by_value() -> None:
    made, x = layer(), normal(3, 4, 96)
    wanted = made(x)
    assert torch.equal(made(x.permute(2, 0, 1).contiguous().permute(1, 2, 0)), wanted)
    assert torch.equal(made(x.transpose(0, 1)), wanted.transpose(0, 1))
    assert torch.equal(made(x[:1, :1].expand(2, 2, 96)), wanted[:1, :1].expand(2, 2, 48))


def test_an_activation_quantised_before_gives_the_same() -> None:
    given, x = linear(), normal(5, 96)
    codes, scales = formats.quantise(x)
    made = Mxfp4Linear.from_linear(given, plain_gemm)
    assert torch.equal(made(Mxfp4Activation(codes, {"plain": scales})), expected(x, given))


def test_without_a_bias_none_is_added() -> None:
    given, x = linear(bias=False), normal(5, 96)
    made = Mxfp4Linear.from_linear(given, plain_gemm)
    assert made.bias is None
    assert list(made.state_dict()) == ["weight", "weight_scale"]
    assert torch.equal(made(x), (rounded(x) @ rounded(given.weight.detach()).T).bfloat16())


@pytest.mark.parametrize("layout", ["plain", "shuffled"])
def test_packed_tensors_of_either_layout_make_the_same_layer(layout: str) -> None:
    given = linear(32, 64)
    codes, scales = formats.quantise(given.weight.detach())
    if layout == "shuffled":
        packed = layouts.shuffle_weight(codes), layouts.shuffle_scales(scales)
    else:
        packed = codes, scales
    made = Mxfp4Linear.from_packed(*packed, given.bias, plain_gemm, layout)
    assert torch.equal(made.weight, codes)
    assert torch.equal(made.weight_scale, scales)
    assert torch.equal(made(normal(4, 64)), expected(normal(4, 64), given))


def test_a_weight_is_taken_without_a_copy_and_its_layouts_are_kept() -> None:
    weight = Mxfp4Weight.quantise(normal(32, 64))
    made = Mxfp4Linear.from_weight(weight, None, plain_gemm)
    assert made.packed() is weight
    assert made.weight is weight.codes()


# --- memory


def test_of_the_linear_nothing_is_kept() -> None:
    given = linear()
    made = Mxfp4Linear.from_linear(given, plain_gemm)
    kept: list[object] = [given, given.weight, given.bias]
    gone = [weakref.ref(one) for one in kept]
    kept.clear()
    assert made.bias is not None
    assert made.bias.data_ptr() != given.bias.data_ptr()
    del given
    gc.collect()
    assert [one() for one in gone] == [None, None, None]
    held = {name: buffer.nbytes for name, buffer in made.named_buffers()}
    assert held == {"weight": 48 * 48, "weight_scale": 48 * 3, "bias": 48 * 2}
    assert list(made.parameters()) == []


# --- mistakes


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            torch.zeros(4, 96),
            "the input must be bfloat16, not torch.float32: x.bfloat16() rounds it",
        ),
        (
            torch.zeros(4, 96).half(),
            "the input must be bfloat16, not torch.float16: x.bfloat16() rounds it",
        ),
        (torch.zeros(4, 95).bfloat16(), "the input must be [..., 96], not [4, 95]"),
        (torch.zeros(96, 4).bfloat16(), "the input must be [..., 96], not [96, 4]"),
        (torch.tensor(1.0).bfloat16(), "the input must be [..., 96], not []"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_in_one_line(x: Tensor, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        layer()(x)
    assert str(error.value) == message


def test_an_input_that_wants_a_gradient_is_refused_unless_none_is_recorded() -> None:
    made, x = layer(), normal(2, 96)
    wanted = made(x)
    x.requires_grad_()
    with pytest.raises(ConfigError) as error:
        made(x)
    assert str(error.value) == (
        "Mxfp4Linear has no gradient: call it under torch.no_grad(), or detach the input"
    )
    with torch.no_grad():
        assert torch.equal(made(x), wanted)
    assert torch.equal(made(x.detach()), wanted)


@pytest.mark.parametrize(("k", "n"), [(0, 4), (48, 4), (-32, 4), (32, 0)])
def test_a_layer_of_impossible_size_is_refused(k: int, n: int) -> None:
    with pytest.raises(ConfigError) as error:
        Mxfp4Linear(k, n)
    assert str(error.value) == (
        "Mxfp4Linear needs in_features in multiples of 32 and an out_features above 0, "
        f"not {k} and {n}"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            nn.Linear(96, 4, dtype=torch.float64),
            "cannot quantise torch.float64: expected bfloat16,",
        ),
        (nn.Linear(48, 4), r"cannot quantise \[4, 48\]: expected \[rows, K\], K a multiple of 32"),
        (
            nn.Linear(96, 4, device="meta"),
            "cannot quantise a weight on the meta device: load its values first",
        ),
    ],
)
def test_a_linear_that_cannot_be_quantised_is_refused(given: nn.Linear, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mxfp4Linear.from_linear(given)


@pytest.mark.parametrize(
    ("bias", "told"),
    [
        (torch.zeros(5).bfloat16(), r"torch\.bfloat16 \[5\]"),
        (torch.zeros(4, dtype=torch.uint8), r"torch\.uint8 \[4\]"),
    ],
)
def test_a_bias_that_does_not_fit_is_refused(bias: Tensor, told: str) -> None:
    codes, scales = formats.quantise(normal(4, 64))
    wanted = r"^bias: expected \[4\] in bfloat16, float16 or float32, not "
    with pytest.raises(ConfigError, match=wanted + told):
        Mxfp4Linear.from_packed(codes, scales, bias, plain_gemm)
