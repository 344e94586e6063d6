"""The layer on a real dispatcher: interpreted kernels against the reference product."""

import copy
from collections import OrderedDict
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from tests.made_checkpoints import one_file, random_bytes
from torch import Tensor, nn

import mxtune
from mxtune import Dispatcher, Mxfp4Linear, replace_linears
from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Made, RouteTable
from mxtune.kernels import formats
from mxtune.kernels.linear import bundled
from mxtune.kernels.registry import fallback_route


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


def table() -> RouteTable:
    default = fallback_route(Shape(1, 32, 32))
    return RouteTable(
        device=DeviceInfo(arch="gfx950", name="a test", compute_units=256),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=(),
        default=Default(family=default.family, config=dict(default.config)),
    )


def example(section: str, folder: Path) -> str:
    """The indented code of a section of the README, with its paths in ``folder``."""
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    code = dedent("\n".join(line for line in body.splitlines() if line[:4] in ("    ", "")))
    return code.replace('"routes', f'"{folder}/routes').replace('"gpt', f'"{folder}/gpt')


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


def test_the_example_in_the_readme_runs(tmp_path: Path) -> None:
    tensors = {
        "model.layers.0.mlp.experts.down_proj_blocks": random_bytes(2, 16, 2, 16),
        "model.layers.0.mlp.experts.down_proj_scales": 120 + random_bytes(2, 16, 2) % 8,
        "model.layers.1.mlp.experts.down_proj_blocks": random_bytes(2, 16, 2, 16, seed=1),
        "model.layers.1.mlp.experts.down_proj_scales": random_bytes(2, 16, 2, seed=1),
    }
    (tmp_path / "gpt-oss-20b").mkdir()
    one_file(tmp_path / "gpt-oss-20b", tensors)
    table().save(tmp_path / "routes.json")
    fc, head, x = linear(32, 64), linear(8, 32), whole(2, 3, 64)
    names: dict[str, Any] = {"x": x, "model": nn.Sequential(OrderedDict(fc=fc, lm_head=head))}
    exec(example("In a model", tmp_path), names)
    assert names["done"].replaced == ("fc",)
    assert [left.name for left in names["done"].left] == ["lm_head"]
    assert torch.equal(names["y"], head(expected(x, fc)))
    stem = "model.layers.0.mlp.experts.down_proj"
    assert list(names["experts"]) == [f"{stem}.0", f"{stem}.1"]
    blocks = tensors[f"{stem}_blocks"]
    assert torch.equal(names["experts"][f"{stem}.1"].weight, blocks[1].flatten(1))
