"""The clock: what each regime reads of a product whose bytes are known."""

from statistics import median

import pytest
import torch

from mxtune.configs.devices import Device
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import fallback_route, family
from mxtune.tuner.measure import FinalJob, ScreenJob, gpu_service
from mxtune.tuner.model import bound_us
from mxtune.tuner.timing import Clock, Timed

pytestmark = pytest.mark.gpu

GPU = "cuda:0"
SHAPE = Shape(16, 2112, 7168)  # B is 8 MB: 1.7 us at the most this GPU moves
REGIMES = ["cold-eager", "cold-graph", "rotating-eager", "rotating-graph", "hot-eager", "hot-graph"]


@pytest.fixture(scope="module")
def device() -> Device:
    return running_device(0)


@pytest.mark.parametrize("name", REGIMES)
def test_every_regime_reads_more_than_its_floor_and_its_bound(name: str, device: Device) -> None:
    regime = Regime.parse(name)
    bench = gpu_service(device, GPU, regime)
    finals = bench.finals(FinalJob(SHAPE, (fallback_route(SHAPE),), 20))
    us = median(finals.routes[0])
    assert len(finals.routes[0]) == 20
    assert us > median(finals.floor)
    assert us > bound_us(SHAPE, device, regime)


def test_cold_caches_read_slower_than_hot_ones(device: Device) -> None:
    times = {
        name: median(
            gpu_service(device, GPU, Regime.parse(name))
            .finals(FinalJob(SHAPE, (fallback_route(SHAPE),), 40))
            .baseline
        )
        for name in ("cold-eager", "hot-eager")
    }
    assert times["hot-eager"] < times["cold-eager"]


def test_twice_the_work_reads_as_twice_the_time_and_nothing_as_less(device: Device) -> None:
    clock = Clock(device, GPU, Regime())  # BL-077
    a = torch.randn(2048, 2048, device=GPU).bfloat16()
    c = torch.empty_like(a)

    def once() -> None:
        torch.mm(a, a, out=c)

    def twice() -> None:
        once()
        once()

    nothing, one, two = (
        median(samples)
        for samples in clock.rounds(
            [Timed((lambda: None,)), clock.prepare([once]), clock.prepare([twice])], 40
        )
    )
    assert nothing < one / 3
    assert 1.6 < (two - nothing) / (one - nothing) < 2.4


def test_a_clear_loser_is_timed_three_times_and_no_more(device: Device) -> None:
    bench = gpu_service(device, GPU, Regime())
    slow = Route("direct", family("direct").fallback(SHAPE))
    assert len(bench.screen(ScreenJob(SHAPE, slow, best_us=0.5)).samples_us) == 3
    assert len(bench.screen(ScreenJob(SHAPE, slow, best_us=1e6)).samples_us) == 20


def test_a_compiled_kernel_of_a_pool_is_a_hit_when_it_is_launched(device: Device) -> None:
    from mxtune.configs.settings import read_settings
    from mxtune.tuner.ask import ask
    from mxtune.tuner.objects import CompileJob, compile_service

    settings = read_settings()
    shape = Shape(16, 160, 544)
    config = family("fused").fallback(shape).changed(BLOCK_N=32, num_stages=2)
    route = Route("fused", config)
    cache = {"TRITON_CACHE_DIR": str(settings.triton_cache)}
    list(ask(compile_service, [CompileJob(route, shape, device)], cache, 60.0))
    assert compiled_while_binding(route, shape, device) == []


def compiled_while_binding(route: Route, shape: Shape, device: Device) -> list[str]:
    """Bind a route and return the kernels that had to be compiled for it."""
    from triton import knobs

    from mxtune.kernels.bind import bind
    from mxtune.kernels.family import Problem
    from mxtune.tuner.check import make_case

    compiled: list[str] = []

    def listen(*, src: object, cache_hit: bool, **others: object) -> None:
        del others
        if not cache_hit:
            compiled.append(str(getattr(src, "name", src)))

    case = make_case(shape, 1, GPU)
    before = knobs.compilation.listener
    knobs.compilation.listener = listen
    try:
        launch = bind(route, Problem.contiguous(shape, device), case.weight)
        launch(case.a, torch.empty(shape.m, shape.n, dtype=torch.bfloat16, device=GPU))
    finally:
        knobs.compilation.listener = before
    return compiled
