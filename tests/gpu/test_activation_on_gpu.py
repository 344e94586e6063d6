"""One quantised A for several GEMMs on the GPU that is here, said or found out."""

import gc
import io
import json

import pytest
import torch
from torch import Tensor

from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels import formats, layouts
from mxtune.kernels.activation import quantise
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.gpu import running_device
from mxtune.kernels.observe import Observer
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import case_of, judge, make_case

pytestmark = pytest.mark.gpu

GPU = "cuda:0"
SHAPE = Shape(16, 64, 64)


def normal(rows: int, columns: int, seed: int = 0) -> Tensor:
    source = torch.Generator(GPU).manual_seed(seed)
    return torch.randn(rows, columns, generator=source, device=GPU).bfloat16()


def weight_of(seed: int = 1, n: int = SHAPE.n, k: int = SHAPE.k) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(normal(n, k, seed))


def fault(a: Tensor, w: Mxfp4Weight, c: Tensor) -> str:
    """What is wrong with C, or nothing."""
    return judge(case_of(a.contiguous(), w), c).reason


def reusing() -> Dispatcher:
    return Dispatcher(None, reuse_activations=True)


# --- quantise


@pytest.mark.parametrize("layout", ["plain", "shuffled"])
@pytest.mark.parametrize("word", ["1x16x32", "19x16x416", "300x16x96", "16x16x7168", "257x16x352"])
def test_the_bytes_are_those_of_the_format(word: str, layout: str) -> None:
    shape = Shape.parse(word)
    a = make_case(shape, 1, GPU).a
    codes, scales = formats.quantise(a)
    for byte in (0x7F, 0xFF):
        garbage = torch.full((1 << 20,), byte, dtype=torch.uint8, device=GPU)
        del garbage  # what is allocated next lies there
        activation = quantise(a, scale_layout=layout)
        assert torch.equal(activation.codes, codes)
        assert torch.equal(activation.scales(), scales)
        assert torch.equal(activation.scales("shuffled"), layouts.shuffle_scales(scales))


def test_any_strides_and_starts_are_quantised() -> None:
    wide, flat = normal(48, 256), normal(1, 48 * 64 + 8).flatten()
    far = torch.empty_strided((20, 64), (2**27, 1), dtype=torch.bfloat16, device=GPU)
    far.copy_(normal(20, 64))
    for a in (
        normal(64, 48).t(),
        wide[:, 64:192:2],
        wide[:, 64:128],
        wide[:1, :64].expand(48, 64),
        flat[1 : 1 + 48 * 64].view(48, 64),
        far,
    ):
        codes, scales = formats.quantise(a.contiguous())
        for _ in range(2):  # bound, and bound before
            activation = quantise(a)
            assert torch.equal(activation.codes, codes)
            assert torch.equal(activation.scales(), scales)


def test_many_shapes_one_after_another_are_each_their_own() -> None:
    for m in (*range(1, 80), 1, 2, 3):  # more than are kept bound
        a = normal(m, 64, m)
        assert torch.equal(quantise(a).codes, formats.quantise(a)[0])


# --- GEMMs that share one


@pytest.mark.parametrize("word", ["1x96x64", "16x2112x7168", "33x160x1056", "256x2880x512"])
def test_two_gemms_share_one_activation(word: str) -> None:
    shape, gemm = Shape.parse(word), Dispatcher(None)
    a = make_case(shape, 1, GPU).a
    activation = quantise(a)
    for w in (weight_of(1, shape.n, shape.k), weight_of(2, 128, shape.k)):
        c = gemm(activation, w)
        assert fault(a, w, c) == ""
        assert torch.equal(c, gemm(a, w))  # the same route, which quantises itself
        out = torch.full((shape.m, w.n), float("nan"), dtype=torch.bfloat16, device=GPU)
        assert gemm(activation, w, out) is out
        assert torch.equal(out, c)


@pytest.mark.parametrize("word", ["4x2880x512", "16x2112x7168", "64x7168x2048", "16x100x96"])
def test_the_bundled_table_takes_one_too(word: str) -> None:
    shape, gemm = Shape.parse(word), Dispatcher.bundled()
    a, w = make_case(shape, 1, GPU).a, weight_of(1, shape.n, shape.k)
    assert fault(a, w, gemm(quantise(a), w)) == ""
    assert fault(a, w, gemm(a, w)) == ""


def test_routes_that_multiply_otherwise_are_passed_over() -> None:
    entries = [
        Entry(
            shape=(SHAPE.m, SHAPE.n, SHAPE.k),
            family="direct",
            config=dict(family("direct").fallback(SHAPE).changed(multiply="bf16")),
            evidence=Reported(source="a test"),
        )
    ]
    device = running_device(0)
    table = RouteTable(
        device=DeviceInfo(arch=device.arch, name="a test", compute_units=device.compute_units),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=tuple(entries),
        default=None,
    )
    gemm, a, w = Dispatcher(table), normal(16, 64), weight_of()
    usual = gemm.choose(SHAPE, device)
    assert usual.route == Route("direct", family("direct").fallback(SHAPE).changed(multiply="bf16"))
    assert gemm.choose(SHAPE, device, quantised=True).why.startswith("always legal")
    assert fault(a, w, gemm(quantise(a), w)) == ""
    assert fault(a, w, gemm(a, w)) == ""


def test_fifty_activations_that_come_and_go_are_never_mistaken() -> None:
    gemm = Dispatcher(None)
    for turn in range(50):
        a, w = normal(16, 64, turn), weight_of(turn + 100)
        assert fault(a, w, gemm(quantise(a), w)) == "", turn
        del a, w


def test_an_activation_keeps_its_values_when_a_changes() -> None:
    gemm, a, w = Dispatcher(None), normal(16, 64), weight_of()
    activation = quantise(a)
    first = gemm(activation, w)
    a.data.mul_(-3)
    assert torch.equal(gemm(activation, w), first)
    assert fault(a, w, gemm(quantise(a), w)) == ""


# --- the implicit cache


def test_fifty_tensors_that_come_and_go_are_never_stale() -> None:  # BL-036
    gemm, w = reusing(), weight_of()
    sizes = list[int]()
    for turn in range(50):
        a = normal(16, 64, turn)
        assert fault(a, w, gemm(a, w)) == "", turn
        assert fault(a, w, gemm(a, w)) == "", turn
        del a
        gc.collect()
        sizes.append(torch.cuda.memory_allocated())
    assert max(sizes[10:]) <= max(sizes[:10])


def test_fifty_weights_that_come_and_go_are_never_stale() -> None:  # BL-036
    gemm, a = reusing(), normal(16, 64)
    sizes = list[int]()
    for turn in range(50):
        w = weight_of(turn)
        assert fault(a, w, gemm(a, w)) == "", turn
        del w
        gc.collect()
        sizes.append(torch.cuda.memory_allocated())
    assert max(sizes[10:]) <= max(sizes[:10])


def test_no_change_of_a_is_missed() -> None:  # BL-038
    gemm, a, weights = reusing(), normal(16, 64), (weight_of(1), weight_of(2))

    def check(what: str) -> None:
        for w in weights:
            assert fault(a, w, gemm(a, w)) == "", what

    check("as it is")
    a.mul_(2)
    check("in place")
    a.view(-1)[5] = 40
    check("through a view")
    a.detach().neg_()
    check("through detach")
    torch.add(a, 1, out=a)
    check("as an output")
    version = a._version
    a.data.neg_()
    check("through .data")
    a.data[[3, 4]] = a.data[[4, 3]]
    check("through .data, the same values elsewhere")
    assert a._version == version
    a.data = normal(16, 64, 7)
    check("other memory")
    a.data = normal(64, 16, 8).t()
    check("other memory, other strides")


def test_what_a_graph_writes_again_is_seen() -> None:
    gemm, w, source = reusing(), weight_of(), normal(16, 64)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        a = source * 2  # each replay writes it, and no version counts that
    for turn in range(5):
        source.copy_(normal(16, 64, turn))
        graph.replay()
        version = a._version
        assert fault(a, w, gemm(a, w)) == "", turn
        assert a._version == version


def test_a_captured_call_quantises_in_every_replay() -> None:
    for gemm in (reusing(), Dispatcher(None)):
        a, w, c = normal(16, 64), weight_of(), torch.zeros(16, 64, device=GPU).bfloat16()
        gemm(a, w, c)
        gemm(quantise(a), w, c)
        torch.cuda.synchronize()
        graph, shared = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gemm(a, w, c)
        with torch.cuda.graph(shared):
            gemm(quantise(a), w, c)
        for turn in range(3):
            a.copy_(normal(16, 64, turn))
            for captured in (graph, shared):
                c.fill_(float("nan"))
                captured.replay()
                assert fault(a, w, c) == "", turn
            assert fault(a, w, gemm(a, w)) == "", turn  # what was kept before is not stale


def test_another_stream_is_served_too() -> None:
    gemm, a, w = reusing(), normal(16, 64), weight_of()
    other = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    for _ in range(5):
        assert fault(a, w, gemm(a, w)) == ""
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            c = gemm(a, w)
        torch.cuda.current_stream().wait_stream(other)
        assert fault(a, w, c) == ""
        a.data.mul_(-1)


def test_inference_mode_is_never_stale() -> None:
    gemm, w = reusing(), weight_of()
    with torch.inference_mode():
        a = normal(16, 64)
        for turn in range(5):
            assert fault(a, w, gemm(a, w)) == "", turn
            a.copy_(normal(16, 64, turn))
        shared = gemm(quantise(a), w)
    assert fault(a, w, gemm(a, w)) == ""  # such a tensor outside
    assert fault(a, w, shared) == ""


def test_the_same_tensor_is_quantised_once() -> None:
    lines = io.StringIO()
    observe = Observer(timings=lines)
    gemm, a = Dispatcher(None, reuse_activations=True, observe=observe), normal(16, 64)
    for seed in range(3):
        gemm(a, weight_of(seed))
    observe.flush()
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["route"] for line in told] == ["quantise", "direct", "direct", "direct"]
