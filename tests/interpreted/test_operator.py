"""The GEMM inside torch.compile: one whole graph, for fixed and for changing M. Interpreted."""

import pytest
import torch
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.linear import Mxfp4Linear
from mxtune.kernels.weight import Mxfp4Weight


def weight_of(n: int = 48, k: int = 64) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(torch.randn(n, k, generator=torch.Generator().manual_seed(n)))


def normal(m: int, k: int = 64) -> Tensor:
    return torch.randn(m, k, generator=torch.Generator().manual_seed(m)).bfloat16()


def test_a_whole_graph_gives_what_eager_gives() -> None:
    gemm, first, second = Dispatcher(None), weight_of(), weight_of(32, 48 + 16)

    def model(a: Tensor) -> Tensor:
        return gemm(torch.relu(a) + 1, first).float() @ torch.ones(48, 1) + gemm(a, second)[:, :1]

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for m in (16, 17, 16):
        assert torch.equal(compiled(normal(m)), model(normal(m)))


def test_a_model_of_layers_is_one_graph_also_once_it_was_loaded() -> None:
    gemm = Dispatcher(None)
    first, second = (Mxfp4Linear.from_linear(torch.nn.Linear(64, n), gemm).eval() for n in (64, 48))
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert torch.equal(compiled(normal(5)), model(normal(5)))
        other = Mxfp4Linear.from_linear(torch.nn.Linear(64, 48)).state_dict()
        before = model(normal(5))
        second.load_state_dict(other)
        assert torch.equal(compiled(normal(5)), model(normal(5)))
        assert not torch.equal(model(normal(5)), before)


def test_one_graph_serves_every_m() -> None:
    gemm, weight = Dispatcher(None), weight_of()
    graphs: list[torch.fx.GraphModule] = []

    def noting(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        del inputs
        graphs.append(graph)
        return graph

    def model(a: Tensor) -> Tensor:
        return gemm(a, weight) * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=noting)
    for m in range(2, 65, 7):
        assert torch.equal(compiled(normal(m)), model(normal(m)))
    assert len(graphs) == 1
    called = [node.target for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert torch.ops.mxtune.gemm in called


def test_a_given_output_is_overwritten() -> None:
    gemm, weight = Dispatcher(None), weight_of()

    def model(a: Tensor, c: Tensor) -> Tensor:
        return gemm(a, weight, out=c)

    c = torch.full((16, 48), 7.0).bfloat16()
    torch.compile(model, fullgraph=True, backend="aot_eager")(normal(16), c)
    assert torch.equal(c, gemm(normal(16), weight))


def test_the_operator_says_what_it_returns_without_computing() -> None:
    fake = torch.ops.mxtune.gemm(torch.empty(5, 64, dtype=torch.bfloat16, device="meta"), 0, 0, 48)
    assert (fake.shape, fake.dtype, fake.device.type) == ((5, 48), torch.bfloat16, "meta")
    gemm, weight = Dispatcher(None), weight_of()
    gemm(normal(3), weight)
    engine = gemm._engine
    assert engine is not None
    sample = (normal(3), engine.handle, weight.handle, 48)
    torch.library.opcheck(torch.ops.mxtune.gemm.default, sample)


def test_what_a_graph_uses_must_live() -> None:
    with pytest.raises(ConfigError, match="is gone: keep both alive, or compile again"):
        torch.ops.mxtune.gemm(normal(3), 2**40, 2**40, 48)


def test_a_gradient_is_refused() -> None:
    gemm, weight = Dispatcher(None), weight_of()
    gemm(normal(3), weight)
    engine = gemm._engine
    assert engine is not None
    c = torch.ops.mxtune.gemm(normal(3).requires_grad_(), engine.handle, weight.handle, 48)
    with pytest.raises(ConfigError, match="an MXFP4 GEMM has no gradient"):
        c.float().sum().backward()
