"""One quantised A for several GEMMs. Interpreted."""

import pytest
import torch
from torch import Tensor

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels import formats, layouts
from mxtune.kernels.activation import quantise
from mxtune.kernels.bind import bind
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route, family
from mxtune.kernels.shared import bind_shared
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.check import case_of, judge, make_case

GFX950 = load_device("gfx950")
SHAPE = Shape(16, 32, 64)


def normal(rows: int, columns: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=source).bfloat16()


def weight_of(seed: int = 1, n: int = SHAPE.n, k: int = SHAPE.k) -> Mxfp4Weight:
    return Mxfp4Weight.quantise(normal(n, k, seed))


def route_of(name: str, shape: Shape, **settings: Value) -> Route:
    return Route(name, family(name).fallback(shape).changed(**settings))


def table_of(*routes: Route, shape: Shape = SHAPE) -> RouteTable:
    """A table with each route at the shape, the first exactly, the others at M further off."""
    entries = [
        Entry(
            shape=(shape.m << at, shape.n, shape.k),
            family=route.family,
            config=dict(route.config),
            evidence=Reported(source="a test"),
        )
        for at, route in enumerate(routes)
    ]
    return RouteTable(
        device=DeviceInfo(arch="gfx950", name="a test", compute_units=256),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=tuple(entries),
        default=None,
    )


def right(a: Tensor, w: Mxfp4Weight, c: Tensor) -> bool:
    return judge(case_of(a.contiguous(), w), c).ok


# --- quantise


@pytest.mark.parametrize(("m", "k"), [(1, 32), (19, 416), (300, 96)])
def test_the_bytes_are_those_of_the_format_in_both_layouts(m: int, k: int) -> None:
    a = make_case(Shape(m, 32, k), 1, "cpu").a
    codes, scales = formats.quantise(a)
    for layout in ("plain", "shuffled"):
        activation = quantise(a, scale_layout=layout)
        assert torch.equal(activation.codes, codes)
        assert torch.equal(activation.scales(), scales)
        assert torch.equal(activation.scales("shuffled"), layouts.shuffle_scales(scales))


def test_any_strides_are_quantised() -> None:
    for a in (normal(64, 19).t(), normal(19, 128)[:, ::2], normal(1, 64).expand(19, 64)):
        codes, scales = formats.quantise(a.contiguous())
        activation = quantise(a)
        assert torch.equal(activation.codes, codes)
        assert torch.equal(activation.scales(), scales)


def test_no_rows_are_an_activation_too() -> None:
    for layout in ("plain", "shuffled"):
        empty = quantise(normal(0, 64), scale_layout=layout)
        assert Dispatcher(None)(empty, weight_of()).shape == (0, 32)
        assert empty.scales().shape == (0, 2)
        assert empty.scales("shuffled").shape == (0, 8)


def test_an_activation_keeps_its_values_when_a_changes_and_others_are_made() -> None:
    a = normal(16, 64)
    first = quantise(a)
    expected = formats.quantise(a)
    a.mul_(-3)
    second = quantise(a)
    for activation, (codes, scales) in ((first, expected), (second, formats.quantise(a))):
        assert torch.equal(activation.codes, codes)
        assert torch.equal(activation.scales(), scales)


# --- GEMMs that share one

VARIED: list[tuple[str, dict[str, Value]]] = [
    ("direct", {}),
    ("direct", {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128, "group_m": 4}),
    ("splitk", {"split_k": 1}),
    ("splitk", {"BLOCK_K": 128, "split_k": 3}),
    ("splitk_atomic", {"split_k": 1}),
]


@pytest.mark.parametrize(("name", "settings"), VARIED, ids=str)
@pytest.mark.parametrize("shape", [Shape(3, 70, 352), Shape(33, 96, 1056)], ids=str)
def test_the_bits_are_those_of_the_route_that_quantises_itself(
    name: str, settings: dict[str, Value], shape: Shape
) -> None:
    case, problem = make_case(shape, 2, "cpu"), Problem.contiguous(shape, GFX950)
    route = route_of(name, shape, **settings)
    own, shared = torch.zeros(2, shape.m, shape.n).bfloat16()
    bind(route, problem, case.weight)(case.a, own)
    launch = bind_shared(route, problem, case.weight)
    launch(quantise(case.a), shared)
    assert torch.equal(shared, own)
    assert judge(case, shared).ok
    assert "quantise" not in [step.name for step in launch.plan.steps]
    assert "a_codes" not in launch.workspaces


def test_two_weights_share_one_activation() -> None:
    a, gemm = normal(16, 64), Dispatcher(None)
    activation = quantise(a)
    for w in (weight_of(1), weight_of(2, n=96)):
        out = torch.full((16, w.n), 1e4).bfloat16()
        assert gemm(activation, w, out) is out
        assert torch.equal(out, gemm(a, w))
        assert right(a, w, out)


def test_one_launch_takes_one_activation_after_another() -> None:
    gemm, w = Dispatcher(None), weight_of()
    for seed in range(3):
        a = normal(16, 64, seed)
        assert right(a, w, gemm(quantise(a), w))


def test_routes_that_cannot_take_it_are_passed_over() -> None:
    fused, bf16 = route_of("fused", SHAPE), route_of("direct", SHAPE, multiply="bf16")
    splitk = route_of("splitk", SHAPE, split_k=1)
    gemm = Dispatcher(table_of(fused, bf16, splitk))
    assert gemm.choose(SHAPE, GFX950).route == fused
    choice = gemm.choose(SHAPE, GFX950, quantised=True)
    assert (choice.route, choice.why) == (splitk, "nearest: the table has 64x32x64")
    assert Dispatcher(table_of(fused, bf16)).choose(SHAPE, GFX950, quantised=True).why == (
        "always legal: the table has nothing that fits"
    )
    a, w = normal(16, 64), weight_of()
    for table in (table_of(fused, bf16, splitk), table_of(bf16)):
        assert right(a, w, Dispatcher(table)(quantise(a), w))


def test_what_does_not_fit_is_refused() -> None:
    activation, gemm = quantise(normal(4, 64)), Dispatcher(None)
    with pytest.raises(ConfigError, match=r"A must be \[M, 128\] for this weight, not \[4, 64\]"):
        gemm(activation, weight_of(k=128))
    with pytest.raises(ConfigError, match=r"out must be torch\.bfloat16 \[4, 32\] on cpu"):
        gemm(activation, weight_of(), torch.zeros(4, 32))
    launch = bind_shared(
        checked_route(Route("direct", Config())), Problem.contiguous(SHAPE, GFX950), weight_of()
    )
    with pytest.raises(ConfigError, match=r"bound for 16x32x64, called with A \[4, 64\]"):
        launch(activation, torch.zeros(16, 32).bfloat16())
