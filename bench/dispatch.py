"""What a dispatcher costs: lookups and loading on any machine, host time of a call on a GPU.

    python -P bench/dispatch.py [--json]

Lookups stand beside a plain dict and functools.lru_cache, calls beside the same kernel launched by
Triton as it is, all in one run. Times of lookups are the best of several rounds, since whatever
disturbs a round makes it longer; host times are medians of rounds of many calls, with the queue
drained between rounds.
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mxtune.configs.devices import load_device
from mxtune.configs.evidence import Reported
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.dispatch import Dispatcher
from mxtune.kernels.lookup import Lookup
from mxtune.kernels.registry import family

ROUTES = 1500
CALLS = 400  # of one round of host times: fewer than a queue holds
ROUNDS = 15
SHAPE = Shape(16, 2880, 512)  # one short kernel, so that the host is what takes long


def main() -> None:
    """Print every figure, the GPU's too if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures = lookups() | files()
    if _gpu():
        figures |= host_times()
    if asked.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:32} {value:10.3f}")


def table_of(count: int) -> RouteTable:
    """Return a table of gfx950 with a ladder of 15 Ms for each of many (N, K)."""
    ladder = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096]
    shapes = [Shape(m, 64 * (1 + at), 512) for at in range(count // len(ladder)) for m in ladder]
    config = dict(family("fused").fallback(shapes[0]))
    entries = (
        Entry(shape=(s.m, s.n, s.k), family="fused", config=config, evidence=Reported(source="-"))
        for s in shapes
    )
    return RouteTable(
        device=DeviceInfo(arch="gfx950", name="MI355X", compute_units=256),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=tuple(entries),
    )


def lookups() -> dict[str, float]:
    """Return ns a lookup: the same shape again, a shape that is met for the first time apart."""
    table = table_of(ROUTES)
    lookup = Dispatcher(table).lookup(load_device("gfx950"))
    plain = {entry.shape: entry.route for entry in table.routes}
    cached = functools.lru_cache(maxsize=None)(lambda m, n, k: plain[(m, n, k)])
    return {
        "dict_hit_ns": _ns(lambda: plain[(16, 640, 512)]),
        "lru_cache_hit_ns": _ns(lambda: cached(16, 640, 512)),
        "exact_ns": _ns(lambda: lookup.find(16, 640, 512)),
        "bucket_ns": _ns(lambda: lookup.find(17, 640, 512)),
        "miss_ns": _ns(lambda: lookup.find(17, 96, 512)),
        "exact_first_ns": _first(lookup, [(8, 64 * n, 512) for n in range(1, 101)]),
        "bucket_first_ns": _first(lookup, [(m, 640, 512) for m in range(129, 255)]),
        "miss_first_ns": _first(lookup, [(m, 96, 512) for m in range(18, 200)]),
    }


def _ns(call: Callable[[], object]) -> float:
    """Return the time of one call, the empty call taken off."""
    number = 200_000
    empty = min(timeit.repeat(lambda: None, number=number, repeat=7))
    return (min(timeit.repeat(call, number=number, repeat=7)) - empty) / number * 1e9


def _first(lookup: Lookup, shapes: list[tuple[int, int, int]]) -> float:
    begin = time.perf_counter_ns()
    for m, n, k in shapes:
        lookup.find(m, n, k)
    return (time.perf_counter_ns() - begin) / len(shapes)


def files() -> dict[str, float]:
    """Return ms to load a table, and to import mxtune in a fresh interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "routes.json"
        table_of(ROUTES).save(path)
        load = min(timeit.repeat(lambda: RouteTable.load(path), number=1, repeat=7))
        dispatch = min(timeit.repeat(lambda: Dispatcher.load(path), number=1, repeat=7))
    code = (
        "import time; t = time.perf_counter(); import mxtune; print(time.perf_counter() - t);"
        "import sys; assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-P", "-c", code]
    done = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5))
    return {
        "load_1500_ms": load * 1e3,
        "dispatcher_of_1500_ms": dispatch * 1e3,
        "import_mxtune_ms": min(float(one.stdout) for one in done) * 1e3,
    }


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def host_times() -> dict[str, float]:
    """Return us of host time a call, of a bound one-kernel route and of others at the same GEMM."""
    import torch

    from mxtune.kernels.weight import Mxfp4Weight

    gemm = Dispatcher(_one_fused_route())
    weight = Mxfp4Weight.quantise(torch.randn(SHAPE.n, SHAPE.k, device="cuda"))
    a = torch.randn(SHAPE.m, SHAPE.k, device="cuda").bfloat16()
    c = torch.empty(SHAPE.m, SHAPE.n, dtype=torch.bfloat16, device="cuda")
    launch = gemm.plan(SHAPE.m, weight)
    jit, grid, tuned = _by_triton(weight, a, c)
    dense = weight.dequantised().bfloat16().t()
    ways: dict[str, Callable[[], object]] = {
        "plan_out_us": lambda: launch(a, c),
        "plan_us": lambda: launch(a),
        "gemm_out_us": lambda: gemm(a, weight, out=c),
        "gemm_us": lambda: gemm(a, weight),
        "compiled_grid_us": grid,
        "jit_us": jit,
        "autotuned_us": tuned,
        "torch_mm_out_us": lambda: torch.mm(a, dense, out=c),
        "torch_mm_us": lambda: torch.mm(a, dense),
        "new_empty_us": lambda: a.new_empty((SHAPE.m, SHAPE.n)),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for at in range(ROUNDS + 2):  # two to warm up
        for name, call in ways.items():
            us = _round_us(call)
            if at >= 2:
                samples[name].append(us)
    figures = {name: statistics.median(values) for name, values in samples.items()}
    return figures | {
        "plan_to_compiled_grid": figures["plan_out_us"] / figures["compiled_grid_us"],
        "plan_to_autotuned": figures["plan_out_us"] / figures["autotuned_us"],
        "gemm_to_plan": figures["gemm_us"] / figures["plan_us"],
        "gemm_to_plan_out": figures["gemm_out_us"] / figures["plan_out_us"],
    }


def _round_us(call: Callable[[], object]) -> float:
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS * 1e6


def _one_fused_route() -> RouteTable:
    """Return a table whose only route is one kernel."""
    from mxtune.kernels.gpu import running_device

    device = running_device(0)
    entry = Entry(
        shape=(SHAPE.m, SHAPE.n, SHAPE.k),
        family="fused",
        config=dict(family("fused").fallback(SHAPE)),
        evidence=Reported(source="a benchmark"),
    )
    return RouteTable(
        device=DeviceInfo(arch=device.arch, name=device.name, compute_units=device.compute_units),
        made=Made(at="2026-01-01T00:00:00+00:00", mxtune="0.1.0"),
        routes=(entry,),
    )


def _by_triton(
    weight: Any, a: Any, c: Any
) -> tuple[Callable[[], object], Callable[[], object], Callable[[], object]]:
    """Return the same kernel launched by Triton: through the JIT, compiled, and autotuned."""
    import triton

    from mxtune.configs.routes import Route
    from mxtune.kernels.bind import planned, tensors_of
    from mxtune.kernels.build import arguments, build, kernel_function
    from mxtune.kernels.family import Problem, Step
    from mxtune.kernels.gpu import running_device

    device = running_device(0)
    route = Route("fused", family("fused").fallback(SHAPE))
    plan = planned(route, Problem.contiguous(SHAPE, device))
    (step,) = plan.steps
    assert isinstance(step, Step)
    named = arguments(step, {**tensors_of(plan, weight), "a": a, "c": c})
    function = kernel_function(step)
    values = [named[name] for name in function.arg_names]
    runner = build(step, device, 0)[(*step.grid, 1)]
    options = {**step.options, "enable_fp_fusion": False}
    known = {name: value for name, value in options.items() if name in ("num_warps", "num_stages")}
    other = {**known, "num_stages": known["num_stages"] % 3 + 1}  # of one alone it tunes nothing
    configs = [triton.Config({}, **settings) for settings in (known, other)]
    tuned = triton.autotune(configs, key=["M", "N", "K"])(function)
    return (
        lambda: function[step.grid](*values, **known),
        lambda: runner(*values),
        lambda: tuned[step.grid](*values),
    )


if __name__ == "__main__":
    main()
