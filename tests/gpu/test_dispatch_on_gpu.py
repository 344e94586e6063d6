"""The dispatcher on a GPU: queues, graphs, torch.compile, hooks, and a second GPU if there is."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels import formats
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight

pytestmark = pytest.mark.gpu

N, K = 256, 512
SLEEP: Any = torch.cuda._sleep
ROUTES = {
    "fused": {},
    "direct": {},
    "splitk": {"split_k": 2},
    "splitk_atomic": {"split_k": 2},
    "fused_preshuffle": {"split_k": 2},
}


def dispatcher(name: str, *ms: int) -> Dispatcher:
    """A dispatcher whose table has one family."""
    device = running_device(0)
    owner = family(name)
    entries = [
        Entry(
            shape=(m, N, K),
            family=name,
            config=dict(
                owner.normalise(
                    owner.fallback(Shape(m, N, K)).changed(**ROUTES[name]), Shape(m, N, K)
                )
            ),
            evidence=Reported(source="a test"),
        )
        for m in ms
    ]
    info = DeviceInfo(arch=device.arch, name=device.name, compute_units=device.compute_units)
    made = Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0")
    return Dispatcher(RouteTable(device=info, made=made, routes=tuple(entries)))


def normal(m: int, seed: int = 1, place: str = "cuda:0") -> Tensor:
    random = torch.Generator(place).manual_seed(seed)
    return torch.randn(m, K, device=place, generator=random).bfloat16()


def weight_of(seed: int = 5, place: str = "cuda:0") -> Mxfp4Weight:
    random = torch.Generator(place).manual_seed(seed)
    return Mxfp4Weight.quantise(torch.randn(N, K, device=place, generator=random))


def queue() -> Any:
    """A queue beside the usual one."""
    kind: Any = torch.cuda.Stream
    return kind()


def right(a: Tensor, w: Mxfp4Weight, c: Tensor) -> bool:
    exact = formats.product(formats.dequantise(*formats.quantise(a)), w.dequantised())
    return torch.allclose(c.float(), exact, rtol=2**-7, atol=1e-2)


@pytest.fixture(params=list(ROUTES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_plan_computes_what_the_dispatcher_does(name: str) -> None:
    gemm, w, a = dispatcher(name, 16), weight_of(), normal(16)
    plan = gemm.plan(16, w)
    assert gemm.choose(Shape(16, N, K), running_device(0)).route.family == name
    c = torch.full((16, N), float("nan"), device="cuda:0", dtype=torch.bfloat16)
    assert plan(a, out=c) is c
    assert right(a, w, c)
    assert right(a, w, plan(a))
    assert right(a, w, gemm(a, w))


def test_nothing_is_allocated_once_a_plan_is_bound(name: str) -> None:
    plan, a = dispatcher(name, 16).plan(16, weight_of()), normal(16)
    c = plan(a)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(5):
        plan(a, out=c)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_a_plan_goes_to_the_current_queue(name: str) -> None:
    plan, a = dispatcher(name, 16).plan(16, weight_of()), normal(16)
    expected = plan(a)
    side = queue()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        SLEEP(200_000_000)
        c = torch.zeros_like(expected)
        plan(a, out=c)
    assert not side.query()
    torch.cuda.synchronize()
    assert torch.allclose(c.float(), expected.float(), rtol=2**-7, atol=1e-2)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch's, of the refused one
def test_a_capture_needs_a_warm_route_and_then_replays_what_a_holds(name: str) -> None:
    gemm, w, a = dispatcher(name, 16), weight_of(), normal(16)
    graph = torch.cuda.CUDAGraph()  # BL-090
    with pytest.raises(ConfigError, match="warm up first"), torch.cuda.graph(graph):
        gemm(a, w)
    torch.cuda.synchronize()
    gemm(a, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = gemm(a, w)
    for seed in (1, 2, 3):
        a.copy_(normal(16, seed))
        graph.replay()
        assert right(a, w, c)
        other = normal(16, seed + 10)
        assert right(other, w, gemm(other, w))  # eager calls between do not disturb the graph


def test_a_graph_and_eager_calls_at_once_share_no_workspace() -> None:
    gemm, w, a, other = dispatcher("splitk", 16), weight_of(), normal(16), normal(16, 2)
    side = queue()
    with torch.cuda.stream(side):
        gemm(a, w)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        c = gemm(a, w)
        for _ in range(49):
            c = gemm(a, w)
    torch.cuda.synchronize()
    for _ in range(20):
        graph.replay()
        with torch.cuda.stream(side):
            mine = [gemm(other, w) for _ in range(50)]
        torch.cuda.synchronize()
        assert right(a, w, c)
        assert all(right(other, w, one) for one in mine[::10])


def test_two_queues_at_once_are_right_a_thousand_times() -> None:
    gemm, w = dispatcher("splitk", 16), weight_of()
    sides = [queue(), queue()]
    operands = [normal(16, 1), normal(16, 2)]
    expected = [gemm(a, w) for a in operands]
    torch.cuda.synchronize()
    results: list[list[Tensor]] = [[], []]
    for _ in range(1000):
        for side, a, mine in zip(sides, operands, results, strict=True):
            with torch.cuda.stream(side):
                mine.append(gemm(a, w))
    torch.cuda.synchronize()
    for one, mine in zip(expected, results, strict=True):
        assert all(torch.equal(c, one) for c in mine)


compiling = pytest.mark.filterwarnings(  # of what inductor does itself
    "ignore::DeprecationWarning", "ignore:The CUDA Graph is empty"
)


@compiling
@pytest.mark.parametrize("name", ["fused", "splitk"])
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_compiled_graph_gives_what_eager_gives(name: str, mode: str | None) -> None:
    gemm, w = dispatcher(name, 16), weight_of()
    for m in (16, 17):
        gemm.plan(m, w)  # what a weight keeps may not lie in the pool of a graph

    def model(a: Tensor) -> Tensor:
        return gemm(a, w) * 2

    compiled = torch.compile(model, fullgraph=True, mode=mode, dynamic=False)
    for m in (16, 17):
        for seed in (1, 2, 3):
            assert torch.equal(compiled(normal(m, seed)).clone(), model(normal(m, seed)))


@compiling
def test_one_compiled_graph_serves_every_m() -> None:
    gemm, w = dispatcher("fused", 16), weight_of()

    def model(a: Tensor) -> Tensor:
        return gemm(a, w) * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    for m in range(1, 65):
        assert torch.equal(compiled(normal(m)), model(normal(m))), m


@pytest.fixture
def listener() -> Iterator[list[str]]:
    """Let a profiler listen, as Triton's own does."""
    from triton import knobs

    heard: list[str] = []

    def hear(metadata: object) -> None:
        del metadata
        heard.append("a launch")

    knobs.runtime.launch_enter_hook.add(hear)
    yield heard
    knobs.runtime.launch_enter_hook.remove(hear)


def test_a_profiler_of_triton_hears_of_every_launch(listener: list[str]) -> None:
    plan, a = dispatcher("splitk", 16).plan(16, weight_of()), normal(16)
    listener.clear()
    plan(a)
    assert len(listener) == len(plan.plan.steps)


def test_a_matrix_on_the_cpu_is_refused() -> None:
    plan = dispatcher("fused", 16).plan(16, weight_of())
    with pytest.raises(ConfigError, match="on cuda:0, called with A"):
        plan(normal(16).cpu())
    with pytest.raises(ConfigError, match="A is on cpu and the weight on cuda:0"):
        dispatcher("fused", 16)(normal(16).cpu(), weight_of())


two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@two_gpus  # BL-099
def test_tensors_on_another_gpu_are_computed_there(name: str) -> None:
    gemm = dispatcher(name, 16)
    for place in ("cuda:1", "cuda:0", "cuda:1"):
        w, a = weight_of(place=place), normal(16, place=place)
        torch.cuda.set_device(0)
        plan = gemm.plan(16, w)
        for c in (gemm(a, w), gemm(a, w), plan(a)):
            assert str(c.device) == place
            assert right(a, w, c)
        assert torch.cuda.current_device() == 0


@two_gpus
def test_operands_on_two_gpus_are_refused(name: str) -> None:
    gemm, w = dispatcher(name, 16), weight_of(place="cuda:1")
    with pytest.raises(ConfigError, match="A is on cuda:0 and the weight on cuda:1"):
        gemm(normal(16), w)
    with pytest.raises(ConfigError, match="on cuda:1, called with A"):
        gemm.plan(16, w)(normal(16))


@two_gpus
def test_a_capture_on_another_gpu_replays(name: str) -> None:
    gemm, w = dispatcher(name, 16), weight_of(place="cuda:1")
    a = normal(16, place="cuda:1")
    with torch.cuda.device(1):
        gemm(a, w)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = gemm(a, w)
        a.copy_(normal(16, 7, place="cuda:1"))
        graph.replay()
        torch.cuda.synchronize()
    assert right(a, w, c)
