"""The dispatcher's implicit cache of one quantised A: BL-036, BL-038. Interpreted."""

import gc
import io
import json
import weakref

import torch
from torch import Tensor

from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.observe import Observer
from mxtune.kernels.registry import family
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import case_of, judge

SHAPE = Shape(16, 32, 64)


def normal(rows: int, columns: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=source).bfloat16()


def weight_of(seed: int = 1) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(normal(SHAPE.n, SHAPE.k, seed))


def table_of(name: str, **settings: Value) -> RouteTable:
    """A table with one route at the shape."""
    route = Route(name, family(name).fallback(SHAPE).changed(**settings))
    entry = Entry(
        shape=(SHAPE.m, SHAPE.n, SHAPE.k),
        family=route.family,
        config=dict(route.config),
        evidence=Reported(source="a test"),
    )
    return RouteTable(
        device=DeviceInfo(arch="gfx950", name="a test", compute_units=256),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=(entry,),
        default=None,
    )


def right(a: Tensor, w: Mxfp4Weight, c: Tensor) -> bool:
    return judge(case_of(a.contiguous(), w), c).ok


class Told:
    """A dispatcher that reuses, and which stages it has launched since last asked."""

    def __init__(self, table: RouteTable | None = None) -> None:
        self._lines = io.StringIO()
        observe = Observer(timings=self._lines)
        self.gemm = Dispatcher(table, reuse_activations=True, observe=observe)

    def stages(self) -> list[str]:
        lines = [json.loads(line) for line in self._lines.getvalue().splitlines()]
        self._lines.seek(0)
        self._lines.truncate()
        return [stage["stage"] for line in lines for stage in line["stages"]]


def test_it_is_off_unless_asked_for() -> None:
    lines = io.StringIO()
    gemm, a, w = Dispatcher(None, observe=Observer(timings=lines)), normal(16, 64), weight_of()
    for _ in range(2):
        gemm(a, w)
    assert lines.getvalue().count('"quantise"') == 2


def test_the_same_tensor_is_quantised_once_for_several_weights() -> None:
    told, a, weights = Told(), normal(16, 64), [weight_of(seed) for seed in (1, 2, 3)]
    results = [told.gemm(a, w) for w in weights]
    assert told.stages() == ["quantise", "gemm", "gemm", "gemm"]
    for w, c in zip(weights, results, strict=True):
        assert torch.equal(c, Dispatcher(None)(a, w))


def test_a_change_in_place_is_seen() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    told.gemm(a, w)
    a.mul_(2)
    assert right(a, w, told.gemm(a, w))
    a.view(-1)[5] = 40  # through a view
    assert right(a, w, told.gemm(a, w))
    torch.add(a, 1, out=a)
    assert right(a, w, told.gemm(a, w))


def test_a_change_that_no_version_counts_is_seen() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    values = a.view(torch.int16).numpy()
    first, version = told.gemm(a, w), a._version
    a.data.neg_()
    assert torch.equal(told.gemm(a, w), -first)
    values[:] = 0x3F80  # 1.0 in every place, past torch
    assert right(a, w, told.gemm(a, w))
    a.data[3, 7] = 40
    c = told.gemm(a, w)
    assert right(a, w, c)
    a.data[[3, 4]] = a.data[[4, 3]]  # the same values in another order
    assert torch.equal(told.gemm(a, w)[[4, 3]], c[[3, 4]])
    assert a._version == version
    assert told.stages() == ["quantise", "gemm"] * 5


def test_a_zero_that_changes_its_sign_is_a_change() -> None:
    told, a, w = Told(), torch.zeros(16, 64).bfloat16(), weight_of()
    told.gemm(a, w)
    a.data.neg_()
    told.gemm(a, w)
    assert told.stages() == ["quantise", "gemm"] * 2


def test_a_nan_that_stays_is_no_change() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    a[1, 5] = float("nan")
    for _ in range(2):
        c = told.gemm(a, w)
        assert c[1].isnan().all()
        assert c[0].isfinite().all()
    assert told.stages() == ["quantise", "gemm", "gemm"]


def test_other_memory_behind_the_same_tensor_is_seen() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    told.gemm(a, w)
    a.data = normal(16, 64, 7)
    assert right(a, w, told.gemm(a, w))
    a.data = normal(64, 16, 8).t()
    assert right(a, w, told.gemm(a, w))


def test_fifty_tensors_that_come_and_go_are_never_mistaken() -> None:
    gemm, seen = Dispatcher(None, reuse_activations=True), list[weakref.ref[Mxfp4Weight]]()
    for turn in range(50):
        a, w = normal(16, 64, turn), weight_of(turn + 100)
        assert right(a, w, gemm(a, w)), turn
        seen.append(weakref.ref(w))
        del a, w
    gc.collect()
    assert [ref() for ref in seen] == [None] * 50


def test_a_view_or_a_clone_is_another_tensor() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    results = [told.gemm(x, w) for x in (a, a[:], a.view(16, 64), a.clone(), a.detach())]
    assert told.stages() == ["quantise", "gemm"] * 5
    assert [torch.equal(results[0], c) for c in results[1:]] == [True] * 4
    assert right(a[:8], w, told.gemm(a[:8], w))
    assert right(a[8:], w, told.gemm(a[8:], w))


def test_inference_mode_is_never_trusted() -> None:
    told, w = Told(), weight_of()
    with torch.inference_mode():
        a = normal(16, 64)
        first = told.gemm(a, w)
        a.neg_()
        assert torch.equal(told.gemm(a, w), -first)
    assert torch.equal(told.gemm(a, w), -first)  # such a tensor outside
    b = normal(16, 64)
    with torch.inference_mode():
        told.gemm(b, w)
        told.gemm(b, w)  # and another inside
    assert told.stages() == ["quantise", "gemm"] * 5


def test_reuse_never_changes_the_route() -> None:
    told, a, w = Told(table_of("fused")), normal(16, 64), weight_of()
    for _ in range(2):
        told.gemm(a, w)
    assert told.stages() == ["fused"] * 2
    told = Told(table_of("splitk", split_k=1))
    for _ in range(2):
        told.gemm(a, w)
    assert told.stages() == ["quantise", *["gemm", "reduce"] * 2]


def test_a_bound_plan_quantises_every_time() -> None:
    told, a, w = Told(), normal(16, 64), weight_of()
    launch, c = told.gemm.plan(16, w), torch.zeros(16, 32).bfloat16()
    for _ in range(2):
        launch(a, c)
    assert told.stages() == ["quantise", "gemm"] * 2
