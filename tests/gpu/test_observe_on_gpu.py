"""Ranges and stage timings on the GPU that is here."""

import io
import json

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from mxtune.kernels.activation import quantise
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.observe import Observer
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import case_of, judge

pytestmark = pytest.mark.gpu

GPU = "cuda:0"


def normal(rows: int, columns: int) -> Tensor:
    source = torch.Generator(GPU).manual_seed(rows)
    return torch.randn(rows, columns, generator=source, device=GPU).bfloat16()


def weight_of(n: int = 64, k: int = 64) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(normal(n, k))


def test_stages_are_timed_by_events_and_do_not_change_the_result() -> None:
    lines = io.StringIO()
    observe = Observer(ranges=True, timings=lines)
    gemm, a, w = Dispatcher(None, observe=observe), normal(64, 512), weight_of(96, 512)
    expected = Dispatcher(None)(a, w)
    for _ in range(100):  # more than are kept pending
        assert torch.equal(gemm(a, w), expected)
    gemm(quantise(a, observe=observe), w)
    observe.flush()
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["call"] for line in told] == list(range(1, 103))
    assert [stage["stage"] for stage in told[0]["stages"]] == ["quantise", "gemm"]
    assert (told[100]["route"], told[100]["shape"]) == ("quantise", [64, 512])
    assert [stage["stage"] for stage in told[101]["stages"]] == ["gemm"]
    assert {line["clock"] for line in told} == {"events"}
    assert all(0 < stage["us"] < 1e6 for line in told for stage in line["stages"])


def test_ranges_reach_the_profiler() -> None:
    gemm, a, w = Dispatcher(None, observe=Observer(ranges=True)), normal(16, 64), weight_of()
    gemm(a, w)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        gemm(a, w)
    names = [event.name for event in (profiler.events() or ()) if event.name.startswith("mxtune ")]
    assert names == ["mxtune direct/quantise 16x64x64", "mxtune direct/gemm 16x64x64"]


def test_a_captured_call_is_not_timed() -> None:
    lines = io.StringIO()
    observe = Observer(ranges=True, timings=lines)
    gemm, a, w = Dispatcher(None, observe=observe), normal(16, 64), weight_of()
    c = gemm(a, w)
    observe.flush()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm(a, w, c)
    c.fill_(float("nan"))
    graph.replay()
    observe.flush()
    assert judge(case_of(a, w), c).reason == ""
    assert len(lines.getvalue().splitlines()) == 1
