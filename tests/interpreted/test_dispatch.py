"""The dispatcher: which route it takes and why, and what it refuses. Interpreted."""

import copy
import gc
import pickle
import re
from pathlib import Path

import pytest
import torch

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Route
from mxtune.configs.shape_lists import load_calls
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import fallback_route, family
from mxtune.kernels.weight import Mxfp4Weight

GFX950 = load_device("gfx950")


def fused(**changes: int) -> Route:
    return Route("fused", family("fused").fallback(Shape(16, 64, 256)).changed(**changes))


SMALL, LARGE = fused(BLOCK_N=32), fused(BLOCK_M=32)


def table(arch: str = "gfx950") -> RouteTable:
    entries = [
        Entry(
            shape=shape,
            family=route.family,
            config=dict(route.config),
            evidence=Reported(source="a test"),
        )
        for shape, route in (((16, 64, 256), SMALL), ((64, 64, 256), LARGE))
    ]
    default = fallback_route(Shape(1, 32, 32))
    return RouteTable(
        device=DeviceInfo(arch=arch, name="a test", compute_units=256),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=tuple(entries),
        default=Default(family=default.family, config=dict(default.config)),
    )


def test_a_call_and_a_plan_take_the_route_of_the_table() -> None:
    gemm = Dispatcher(table())
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    for m, route in ((16, SMALL), (64, LARGE), (17, LARGE)):
        assert gemm.choose(Shape(m, 64, 256), GFX950).route == route
        steps = gemm.plan(m, weight).plan.steps
        assert steps == family("fused").plan(route.config, problem(m)).steps
    a = torch.randn(17, 256).bfloat16()
    c = torch.full((17, 64), 7.0).bfloat16()
    assert torch.equal(gemm(a, weight), gemm.plan(17, weight)(a))
    assert gemm.plan(17, weight)(a, out=c) is c
    assert torch.equal(c, gemm(a, weight))


def problem(m: int) -> Problem:
    return Problem.contiguous(Shape(m, 64, 256), GFX950)


def test_the_steps_of_a_lookup_are_told() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    steps = Dispatcher(table()).explain(17, weight)
    assert [(tried.step, tried.obstacle) for tried in steps] == [
        ("exact", "the table does not have it"),
        ("bucket", ""),
    ]
    assert steps[-1].route == LARGE


def test_what_the_table_does_not_have_is_counted_by_calls(tmp_path: Path) -> None:
    gemm = Dispatcher(table())
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    for m in (16, 17, 17, 64):
        gemm(torch.zeros(m, 256).bfloat16(), weight)
    plan = gemm.plan(17, weight)
    plan(torch.zeros(17, 256).bfloat16())
    assert gemm.misses == {Shape(17, 64, 256): 3}
    assert gemm.record(tmp_path / "shapes.yaml") == {Shape(17, 64, 256): 3}
    assert gemm.misses == {}


def test_misses_are_recorded_as_a_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXTUNE_RECORD", str(tmp_path / "shapes.yaml"))
    gemm = Dispatcher(None)
    gemm(torch.zeros(3, 32).bfloat16(), Mxfp4Weight.quantise(torch.ones(8, 32)))
    del gemm
    gc.collect()
    assert load_calls(str(tmp_path / "shapes.yaml")) == {Shape(3, 8, 32): 1}


def test_a_bound_launch_refuses_other_sizes_than_it_was_bound_for() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    launch = Dispatcher(None).plan(16, weight)
    a, c = torch.zeros(8, 256).bfloat16(), torch.zeros(8, 64).bfloat16()
    with pytest.raises(ConfigError, match=r"bound for 16x64x256 on cpu, called with A .*8, 256"):
        launch(a, c)


def test_a_bound_launch_refuses_operands_that_lie_otherwise() -> None:
    launch = Dispatcher(None).plan(16, Mxfp4Weight.quantise(torch.randn(64, 256)))
    a = torch.zeros(16, 256).bfloat16()
    for wrong, what in (
        (a.float(), "called with A torch.float32"),
        (torch.zeros(256, 16).bfloat16().t(), "bound for A with strides [256, 1]"),
        (torch.zeros(16, 512).bfloat16()[:, :256], "it has [512, 1]"),
        (torch.zeros(16 * 256 + 1).bfloat16()[1:].view(16, 256), "not aligned"),
    ):
        with pytest.raises(ConfigError, match=re.escape(what)):
            launch(wrong)
    with pytest.raises(ConfigError, match=re.escape("called with C torch.bfloat16 [64, 16]")):
        launch(a, torch.zeros(64, 16).bfloat16())
    with pytest.raises(ConfigError, match=re.escape("bound for C with strides [64, 1]")):
        launch(a, torch.zeros(16, 128).bfloat16()[:, :64])


def test_a_single_row_lies_as_it_must_whatever_its_stride() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    launch = Dispatcher(None).plan(1, weight)
    row = torch.randn(1, 256).bfloat16()
    assert torch.equal(launch(row.as_strided((1, 256), (9, 1))), launch(row))


def test_a_gradient_is_refused() -> None:
    gemm, weight = Dispatcher(None), Mxfp4Weight.quantise(torch.randn(64, 256))
    a = torch.zeros(4, 256).bfloat16().requires_grad_()
    for _ in range(2):
        with pytest.raises(ConfigError, match="an MXFP4 GEMM has no gradient"):
            gemm(a, weight)
        with torch.no_grad():
            assert gemm(a, weight).shape == (4, 64)


def test_a_weight_is_copied_and_pickled_with_a_number_of_its_own() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    for again in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight)), weight.copy()):
        assert again.handle != weight.handle
        assert torch.equal(again.codes(), weight.codes())
        assert torch.equal(again.scales(), weight.scales())


def test_without_a_gpu_the_bundled_table_is_none_and_everything_still_works() -> None:
    weight = Mxfp4Weight.quantise(torch.ones(32, 32))
    c = Dispatcher.bundled()(torch.ones(2, 32).bfloat16(), weight)
    assert torch.equal(c, torch.full((2, 32), 32.0).bfloat16())


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (torch.zeros(4, 256), "A must be bfloat16, not torch.float32"),
        (
            torch.zeros(4, 128).bfloat16(),
            "A must be \\[M, 256\\] for this weight, not \\[4, 128\\]",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused_in_one_line(a: torch.Tensor, message: str) -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    with pytest.raises(ConfigError, match=message):
        Dispatcher(None)(a, weight)


def test_an_output_that_does_not_fit_is_refused() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    a = torch.zeros(4, 256).bfloat16()
    with pytest.raises(ConfigError, match="out must have unit stride along N"):
        Dispatcher(None)(a, weight, out=torch.zeros(64, 4).bfloat16().t())
    with pytest.raises(ConfigError, match=r"out must be torch\.bfloat16"):
        Dispatcher(None)(a, weight, out=torch.zeros(4, 64))
