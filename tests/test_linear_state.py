"""The layer's state: what follows its buffers, and how they are saved, copied, moved and loaded."""

import io
import pickle
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from tests.plain_linear import layer, normal, plain_gemm, shuffled_gemm
from torch import Tensor, nn

from mxtune.configs.errors import ConfigError
from mxtune.kernels.linear import Mxfp4Linear

# --- what the weight is made of


def test_the_weight_is_made_once() -> None:
    made = layer()
    first = made.packed()
    made(normal(2, 96))
    assert made.packed() is first


def overwritten(made: Mxfp4Linear, other: Mxfp4Linear) -> None:
    made.weight.copy_(other.weight)
    made.weight_scale.copy_(other.weight_scale)
    assert made.bias is not None
    assert other.bias is not None
    made.bias.copy_(other.bias)


def assigned(made: Mxfp4Linear, other: Mxfp4Linear) -> None:
    made.weight, made.weight_scale, made.bias = other.weight, other.weight_scale, other.bias


def loaded(made: Mxfp4Linear, other: Mxfp4Linear) -> None:
    made.load_state_dict(other.state_dict())


def loaded_by_assignment(made: Mxfp4Linear, other: Mxfp4Linear) -> None:
    made.load_state_dict(other.state_dict(), assign=True)


# without overwriting in inference mode: torch does not count what is written to its tensors
CHANGES = [
    (change, inference)
    for change in (overwritten, assigned, loaded, loaded_by_assignment)
    for inference in (False, True)
    if not (inference and change is overwritten)
]


@pytest.mark.parametrize(("change", "inference"), CHANGES)
def test_changed_buffers_are_used_at_once(
    change: Callable[[Mxfp4Linear, Mxfp4Linear], None], *, inference: bool
) -> None:
    with torch.inference_mode(inference):
        made, other = (layer(32, 64, seed, gemm=shuffled_gemm) for seed in (1, 5))
        x = normal(3, 64)
        before = made(x)
        change(made, other)
        assert torch.equal(made(x), other(x))
        assert not torch.equal(made(x), before)


def test_only_the_scales_changed_is_noticed_too() -> None:
    made, x = layer(32, 64, bias=False, gemm=shuffled_gemm), normal(3, 64)
    before = made(x)
    made.weight_scale = made.weight_scale + 1  # a tensor written as often as the one before: never
    assert torch.equal(made(x), 2 * before)
    made.weight_scale += 1
    assert torch.equal(made(x), 4 * before)


# --- state


def test_a_state_dict_goes_into_an_empty_layer_which_computes_nan_until_then() -> None:
    given, x = layer(), normal(3, 96)
    state = given.state_dict()
    assert {name: (entry.dtype, tuple(entry.shape)) for name, entry in state.items()} == {
        "weight": (torch.uint8, (48, 48)),
        "weight_scale": (torch.uint8, (48, 3)),
        "bias": (torch.bfloat16, (48,)),
    }
    empty = nn.Sequential(Mxfp4Linear(96, 48, gemm=plain_gemm))
    assert bool(empty(x).isnan().all())
    assert bool(Mxfp4Linear(96, 48, bias=False, gemm=plain_gemm)(x).isnan().all())
    empty.load_state_dict({f"0.{name}": entry for name, entry in state.items()})
    assert torch.equal(empty(x), given(x))


def test_a_layer_made_on_the_meta_device_takes_its_values_by_assignment() -> None:
    given, x = layer(), normal(3, 96)
    made = Mxfp4Linear(96, 48, gemm=plain_gemm, device="meta")
    with pytest.raises(ConfigError, match=r"^the layer is on the meta device and has no values: "):
        made(x)
    made.load_state_dict(given.state_dict(), assign=True)
    assert torch.equal(made(x), given(x))


def test_a_layer_moved_to_the_meta_device_says_that_its_values_are_gone() -> None:
    made = layer()
    made(normal(1, 96))
    made.to("meta")
    with pytest.raises(ConfigError, match="the layer is on the meta device and has no values"):
        made(normal(1, 96))


def test_entries_in_the_dtypes_torch_has_for_fp4_and_e8m0_are_taken_as_bytes() -> None:
    given, made = layer(), Mxfp4Linear(96, 48, gemm=plain_gemm)
    state = given.state_dict()
    state["weight"] = state["weight"].view(torch.float4_e2m1fn_x2)
    state["weight_scale"] = state["weight_scale"].view(torch.float8_e8m0fnu)
    made.load_state_dict(state)
    assert torch.equal(made.weight, given.weight)
    assert torch.equal(made.weight_scale, given.weight_scale)


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        (
            "weight",
            torch.zeros(48, 96).bfloat16(),
            "head.weight: expected uint8 or torch.float4_e2m1fn_x2, not torch.bfloat16 [48, 96]; "
            "load other weights into nn.Linear and use from_linear",
        ),
        (
            "weight_scale",
            torch.zeros(48, 3).to(torch.float8_e4m3fn),
            "head.weight_scale: expected uint8 or torch.float8_e8m0fnu, not torch.float8_e4m3fn "
            "[48, 3]; load other weights into nn.Linear and use from_linear",
        ),
    ],
)
def test_entries_of_another_dtype_are_refused_by_name(
    name: str, entry: Tensor, message: str
) -> None:
    model = nn.ModuleDict({"head": layer()})
    with pytest.raises(ConfigError) as error:
        model.load_state_dict(model.state_dict() | {f"head.{name}": entry})
    assert str(error.value) == message


def test_missing_surplus_and_misshapen_entries_are_told_as_torch_tells_them() -> None:
    made = layer()
    state = made.state_dict()
    scales = state.pop("weight_scale")
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "weight_scale"'):
        made.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "scales"'):
        made.load_state_dict(state | {"weight_scale": scales, "scales": scales})
    with pytest.raises(RuntimeError, match="size mismatch for weight_scale"):
        made.load_state_dict(state | {"weight_scale": scales[:, :2]})


def test_a_deep_copy_has_its_own_weight_and_the_same_dispatcher() -> None:
    made, x = layer(), normal(3, 96)
    wanted = made(x)
    copied = deepcopy(nn.Sequential(made, made))
    assert isinstance(copied[0], Mxfp4Linear)
    assert copied[0] is copied[1]
    assert copied[0].gemm is plain_gemm
    made.weight.zero_()
    assert torch.equal(copied[0](x), wanted)
    assert made.gemm is plain_gemm


def test_pickle_and_torch_save_keep_everything_but_the_dispatcher() -> None:
    made, x = layer(), normal(3, 96)
    made.gemm = lambda a, w: plain_gemm(a, w)  # which pickle could not take
    wanted = made(x)
    saved = io.BytesIO()
    torch.save(made, saved)
    saved.seek(0)
    for back in (
        pickle.loads(pickle.dumps(made)),
        torch.load(saved, weights_only=False),
    ):
        assert back.gemm is None
        back.gemm = plain_gemm
        assert torch.equal(back(x), wanted)
    assert torch.equal(made(x), wanted)


def test_a_saved_state_dict_is_read_with_weights_only() -> None:
    given, made, saved = layer(), Mxfp4Linear(96, 48, gemm=plain_gemm), io.BytesIO()
    torch.save(given.state_dict(), saved)
    saved.seek(0)
    made.load_state_dict(torch.load(saved, weights_only=True))
    assert torch.equal(made(normal(3, 96)), given(normal(3, 96)))


def test_a_cast_leaves_the_codes_alone_and_a_bias_of_another_dtype_is_refused() -> None:
    made, x = layer(), normal(3, 96)
    wanted = made(x)
    made.float()
    assert made.weight.dtype == torch.uint8
    with pytest.raises(ConfigError) as error:
        made(x)
    assert str(error.value) == (
        "the bias is torch.float32, as the layer was cast: call .bfloat16() on it"
    )
    assert torch.equal(made.bfloat16()(x), wanted)


def test_it_shows_itself_as_nn_linear_does() -> None:
    assert str(layer()) == "Mxfp4Linear(in_features=96, out_features=48, bias=True)"
