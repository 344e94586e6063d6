"""The dispatcher: which route it takes and why, and what it refuses. Interpreted."""

import pytest
import torch

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.dispatch import Dispatcher
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


def test_an_exact_shape_comes_first() -> None:
    choice = Dispatcher(table()).choose(Shape(64, 64, 256), GFX950)
    assert (choice.route, choice.why) == (LARGE, "exact: the table has this shape")


def test_the_nearest_m_of_the_same_n_and_k_comes_next() -> None:
    gemm = Dispatcher(table())
    assert gemm.choose(Shape(17, 64, 256), GFX950).route == SMALL
    near = gemm.choose(Shape(1000, 64, 256), GFX950)
    assert (near.route, near.why) == (LARGE, "nearest M: the table has 64x64x256")


def test_half_way_between_two_the_larger_m_is_taken() -> None:
    assert Dispatcher(table()).choose(Shape(32, 64, 256), GFX950).route == LARGE


def test_another_n_or_k_takes_the_default() -> None:
    choice = Dispatcher(table()).choose(Shape(16, 96, 256), GFX950)
    assert choice.why == "default: the table has no such (N, K)"


def test_a_table_of_another_gpu_is_passed_over_and_says_so() -> None:  # BL-040
    choice = Dispatcher(table("gfx942")).choose(Shape(16, 64, 256), GFX950)
    assert choice.route == fallback_route(Shape(16, 64, 256))
    assert choice.why == "always legal: the table is for gfx942, this is gfx950"


def test_a_bound_launch_refuses_other_sizes_than_it_was_bound_for() -> None:
    weight = Mxfp4Weight.quantise(torch.randn(64, 256))
    launch = Dispatcher(None).plan(16, weight)
    a, c = torch.zeros(8, 256).bfloat16(), torch.zeros(8, 64).bfloat16()
    with pytest.raises(ConfigError, match="bound for 16x64x256, called with A \\[8, 256\\]"):
        launch(a, c)


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
