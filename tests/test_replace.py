"""Which modules of a model are replaced, and why the others are left."""

import gc
import weakref

import pytest
import torch
from tests.plain_linear import linear, normal, plain_gemm
from torch import nn

from mxtune.configs.errors import ConfigError
from mxtune.kernels.linear import Mxfp4Linear
from mxtune.kernels.replace import Left, Replacement, replace_linears


class Block(nn.Module):
    """Two layers that fit, a router that does not, and a head with the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 64, dtype=torch.bfloat16)
        self.mlp = nn.Sequential(linear(96, 64), nn.ReLU(), linear(64, 96))
        self.router = linear(4, 40)
        self.head = nn.Linear(64, 16, bias=False, dtype=torch.bfloat16)
        self.head.weight = self.embed.weight


TIED = Left("head", "its weight is embed.weight too")
ODD = Left("router", "K = 40 is no multiple of 32, or there are no rows")


def test_a_small_model_computes_the_same_but_for_its_odd_layer() -> None:
    first, odd = linear(40, 64), linear(8, 40)
    model = nn.Sequential(first, nn.ReLU(), odd)
    x = normal(5, 64)
    wanted = odd(torch.relu(Mxfp4Linear.from_linear(first, plain_gemm)(x)))
    done = replace_linears(model, plain_gemm)
    why = "K = 40 is no multiple of 32, or there are no rows"
    assert done == Replacement(("0",), (Left("2", why),))
    assert [type(module) for module in model] == [Mxfp4Linear, nn.ReLU, nn.Linear]
    assert model[2] is odd
    assert torch.equal(model(x), wanted)


def test_a_weight_that_another_module_has_too_stays() -> None:
    model = Block()
    assert replace_linears(model, plain_gemm) == Replacement(("mlp.0", "mlp.2"), (ODD, TIED))
    assert model.head.weight is model.embed.weight


@pytest.mark.parametrize(
    ("skip", "reason"),
    [
        ("mlp.2", "skip has 'mlp.2'"),
        (["*.2"], "skip has '*.2'"),
        (lambda name, module: name == "mlp.2" and module.in_features == 96, "skip says so"),
    ],
)
def test_skip_takes_names_patterns_and_functions(skip: object, reason: str) -> None:
    done = replace_linears(Block(), plain_gemm, skip=skip)  # type: ignore[arg-type]
    assert done == Replacement(("mlp.0",), (Left("mlp.2", reason), ODD, TIED))


def test_a_pattern_that_fits_nothing_is_refused_before_anything_is_replaced() -> None:
    model = Block()
    with pytest.raises(ConfigError) as error:
        replace_linears(model, plain_gemm, skip=["mlp.0", "lm_head"])
    assert str(error.value) == "skip: 'lm_head' is the name of no nn.Linear in the model"
    assert not any(isinstance(module, Mxfp4Linear) for module in model.modules())


def test_a_module_with_two_names_stays_one() -> None:
    shared = linear(64, 64)
    inner = nn.Sequential(shared)
    model = nn.Sequential(shared, inner)
    assert replace_linears(model, plain_gemm) == Replacement(("0", "1.0"), ())
    assert isinstance(model[0], Mxfp4Linear)
    assert model[0] is inner[0]


def test_subclasses_hooks_and_weights_without_values_are_left() -> None:
    hooked, patched = linear(64, 64), linear(64, 64)
    hooked.register_forward_pre_hook(lambda *_: None)
    vars(patched)["forward"] = torch.relu
    model = nn.ModuleDict(
        {
            "attention": nn.MultiheadAttention(64, 2, dtype=torch.bfloat16),
            "hooked": hooked,
            "patched": patched,
            "meta": nn.Linear(64, 64, device="meta"),
            "wide": nn.Linear(64, 64, dtype=torch.float64),
        }
    )
    lost = "it has hooks or a forward of its own, which would be lost"
    assert replace_linears(model, plain_gemm).left == (
        Left(
            "attention.out_proj",
            "it is a NonDynamicallyQuantizableLinear, which may do more than an nn.Linear",
        ),
        Left("hooked", lost),
        Left("patched", lost),
        Left("meta", "its weight is on the meta device and has no values yet"),
        Left("wide", "its weight is torch.float64"),
    )


def test_the_layers_of_torchs_encoder_are_left_whose_fast_path_reads_their_weights() -> None:
    model = nn.TransformerEncoderLayer(64, 2, 64, batch_first=True, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        wanted = model(normal(1, 4, 64))
        left = replace_linears(model, plain_gemm).left
        assert torch.equal(model(normal(1, 4, 64)), wanted)
    reads = "its TransformerEncoderLayer reads the weight itself"
    assert left[-2:] == (Left("linear1", reads), Left("linear2", reads))


def test_the_weights_go_as_they_are_replaced_and_the_mode_stays() -> None:
    model = Block()
    model.mlp[0].eval()
    gone = weakref.ref(model.mlp[0].weight)
    replace_linears(model, plain_gemm)
    gc.collect()
    assert gone() is None
    assert [module.training for module in model.mlp] == [False, True, True]


def test_a_model_that_is_itself_a_linear_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        replace_linears(linear(), plain_gemm)
    assert str(error.value) == (
        "the model is itself an nn.Linear: use Mxfp4Linear.from_linear(model)"
    )


def test_a_model_without_linears_stays_as_it_is() -> None:
    assert replace_linears(nn.ReLU(), plain_gemm) == Replacement((), ())
