"""The layer on the GPU that is here: made, moved, loaded and replaced there."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from tests.made_checkpoints import EXPERTS, one_file, random_bytes
from tests.plain_linear import normal
from torch import Tensor, nn

from mxtune import Dispatcher, Mxfp4Linear, load_mxfp4, replace_linears
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import case_of, judge

pytestmark = pytest.mark.gpu

GPU = "cuda:0"


def fault(layer: Mxfp4Linear, x: Tensor, y: Tensor) -> str:
    """What is wrong with a layer's product, its bias taken off exactly, or nothing."""
    assert layer.bias is None
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    return judge(case_of(rows, layer.packed()), y.reshape(len(rows), -1)).reason


@pytest.mark.parametrize("m", [1, 19, 300])
def test_a_layer_made_on_the_gpu_and_one_moved_there_compute_the_same(m: int) -> None:
    given = nn.Linear(416, 96, bias=False, dtype=torch.bfloat16)
    there = Mxfp4Linear.from_linear(deepcopy(given).to(GPU), Dispatcher(None))
    moved = Mxfp4Linear.from_linear(given, Dispatcher(None)).to(GPU)
    assert torch.equal(moved.weight, there.weight)
    assert torch.equal(moved.weight_scale, there.weight_scale)
    x = normal(m, 416).to(GPU)
    assert fault(there, x, there(x)) == ""
    assert fault(moved, x, moved(x)) == ""


def test_a_layer_that_computed_is_moved_loaded_and_computes_again() -> None:
    layer = Mxfp4Linear.from_linear(nn.Linear(128, 64, bias=False, device=GPU), Dispatcher(None))
    other = Mxfp4Linear.from_linear(nn.Linear(128, 64, bias=False), Dispatcher(None))
    x = normal(2, 3, 128).to(GPU)
    assert fault(layer, x, layer(x)) == ""
    layer.to("cpu").load_state_dict(other.state_dict())
    layer.to(GPU)
    assert torch.equal(layer.weight.cpu(), other.weight)
    y = layer(x)
    assert y.shape == (2, 3, 64)
    assert fault(layer, x, y) == ""


def test_the_bias_is_added_there_as_on_a_cpu() -> None:
    given = nn.Linear(128, 64, dtype=torch.bfloat16, device=GPU)
    bare = Mxfp4Linear.from_linear(given, Dispatcher(None))
    bias, bare.bias = bare.bias, None
    whole, x = Mxfp4Linear.from_linear(given, bare.gemm), normal(5, 128).to(GPU)
    assert bias is not None
    assert torch.equal(whole(x).cpu(), bare(x).cpu() + bias.cpu())


def test_a_model_is_replaced_there_under_inference_mode() -> None:
    model = nn.Sequential(nn.Linear(128, 64, bias=False), nn.ReLU()).to(GPU, torch.bfloat16)
    with torch.inference_mode():
        replace_linears(model, Dispatcher(None))
        layer, x = model[0], normal(4, 128).to(GPU)
        assert isinstance(layer, Mxfp4Linear)
        assert fault(layer, x, layer(x)) == ""
        assert torch.equal(model(x), torch.relu(layer(x)))


def test_weights_are_loaded_to_the_gpu(tmp_path: Path) -> None:
    blocks, scales = random_bytes(2, 32, 4, 16), 120 + random_bytes(2, 32, 4) % 8
    path = one_file(tmp_path, {f"{EXPERTS}_blocks": blocks, f"{EXPERTS}_scales": scales})
    x = normal(7, 128).to(GPU)
    for expert, (name, weight, bias) in enumerate(load_mxfp4(path, device=GPU)):
        assert (name, weight.device, bias) == (f"{EXPERTS}.{expert}", GPU, None)
        wanted = Mxfp4Weight.from_packed(blocks[expert].flatten(1), scales[expert])
        assert torch.equal(weight.dequantised().cpu(), wanted.dequantised())
        layer = Mxfp4Linear.from_weight(weight, None, Dispatcher(None))
        assert fault(layer, x, layer(x)) == ""
