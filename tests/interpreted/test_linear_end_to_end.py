"""The layer on a real dispatcher: interpreted kernels against the reference product."""

import copy

import pytest
import torch
from torch import Tensor, nn

import mxtune
from mxtune import Dispatcher, Mxfp4Linear, replace_linears
from mxtune.configs.errors import ConfigError
from mxtune.kernels import formats
from mxtune.kernels.linear import bundled


def whole(*size: int) -> Tensor:
    """Small whole numbers: every product and sum of them is exact in fp32, whatever its order."""
    source = torch.Generator().manual_seed(sum(size))
    return torch.randint(-4, 5, size, generator=source).bfloat16()


def linear(n: int, k: int) -> nn.Linear:
    made = nn.Linear(k, n, dtype=torch.bfloat16)
    made.weight.data, made.bias.data = whole(n, k), whole(n)
    return made


def expected(x: Tensor, given: nn.Linear) -> Tensor:
    a = formats.dequantise(*formats.quantise(x.reshape(-1, x.shape[-1])))
    b = formats.dequantise(*formats.quantise(given.weight.detach()))
    c = formats.product(a, b).bfloat16() + given.bias.detach()
    return c.reshape(*x.shape[:-1], b.shape[0])


@pytest.mark.parametrize("size", [(96,), (0, 96), (2, 3, 96)])
def test_a_layer_computes_what_the_reference_does(size: tuple[int, ...]) -> None:
    given, x = linear(40, 96), whole(*size)
    made = Mxfp4Linear.from_linear(given, Dispatcher(None))
    assert torch.equal(made(x), expected(x, given))


def test_an_activation_quantised_once_serves_several_layers() -> None:
    first, second, x = linear(32, 64), linear(48, 64), whole(5, 64)
    gemm, a = Dispatcher(None), mxtune.quantise(x)
    for given in (first, second):
        assert torch.equal(Mxfp4Linear.from_linear(given, gemm)(a), expected(x, given))


def test_layers_without_a_dispatcher_share_the_bundled_one() -> None:
    given, x = linear(32, 64), whole(3, 64)
    made = Mxfp4Linear.from_linear(given)
    assert torch.equal(made(x), expected(x, given))
    assert bundled() is bundled()
    assert made.gemm is None


def test_a_model_computes_the_same_before_and_after_its_state_is_loaded_and_copied() -> None:
    first, odd, last, x = linear(64, 96), linear(64, 40), linear(40, 64), whole(2, 4, 96)
    model = nn.Sequential(first, last, odd, nn.ReLU())
    done = replace_linears(model, Dispatcher(None))
    assert done.replaced == ("0", "1")
    wanted = model(x)
    middle = expected(expected(x, first), last)
    assert torch.equal(wanted, torch.relu(odd(middle)))
    copied = copy.deepcopy(model)
    for entry in model.state_dict().values():
        entry.zero_()
    assert torch.equal(copied(x), wanted)
    assert torch.equal(model(x), torch.zeros_like(wanted))
    model.load_state_dict(copied.state_dict())
    assert torch.equal(model(x), wanted)


def test_what_the_dispatcher_refuses_comes_through() -> None:
    made = Mxfp4Linear.from_linear(linear(32, 64), Dispatcher(None))
    a = mxtune.quantise(whole(2, 96))
    with pytest.raises(ConfigError, match=r"A must be \[M, 64\] for this weight, not \[2, 96\]"):
        made(a)
