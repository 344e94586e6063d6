"""Time the best few routes of a sweep as a busy server runs them, on the GPU that is here.

    python -P bench/best_routes.py mxtune-out [--top 8] [--json]

A CUDA graph holds one call for each copy of the weights, of which there are so many that no cache
holds them; a reading is the time of a replay over the calls. A sweep reads one call at a time,
which holds the cost of waking the GPU up: that ranks routes and is no throughput.
"""

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path

import torch

from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import Launch, bind
from mxtune.kernels.family import Problem
from mxtune.kernels.gpu import running_device
from mxtune.kernels.registry import brief
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.results.choose import ranking
from mxtune.results.export import store_file
from mxtune.results.store import Store
from mxtune.results.trial import Trial

COLD_BYTES = 140 * 2**20  # more than twice the L2 of an H200
MOST_COPIES = 150  # each is bound, which takes a while
REPLAYS = 12


def main() -> None:
    """Print the best routes of every shape of a store, and the geometric mean of the very best."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--top", type=int, default=8, help="routes of each shape, and two a family")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    best: dict[str, float] = {}
    for shape, timed in timings(asked.store, asked.top):
        best[str(shape)] = timed[0][0]
        if not asked.json:
            for us, route in timed:
                print(f"{shape}  {us:7.2f} us  {route}", flush=True)
    mean = math.exp(statistics.mean(map(math.log, best.values())))
    print(json.dumps({"best_us": best, "geomean_us": mean}) if asked.json else f"{mean:.2f} us")


def timings(folder: Path, top: int) -> Iterator[tuple[Shape, list[tuple[float, str]]]]:
    """Yield each shape of a store with the times of its best routes, the fastest first."""
    store = Store.open(store_file(folder))
    session = max(store.sessions())
    for shape in sorted({trial.shape for trial in store.trials(session)}):
        routes = chosen(list(store.trials(session, shape)), top)
        yield shape, sorted((time_us(route, shape), brief(route)) for route in routes)


def chosen(trials: list[Trial], top: int) -> list[Route]:
    """Return the best of a shape, and the best two of every family among them."""
    picked = [trial.route for trial in ranking(trials)[:top]]
    screened = [t for t in trials if t.stage == "screen" and t.state == "ok" and t.times_us]
    for trial in sorted(screened, key=lambda t: t.median_us):
        if sum(route.family == trial.route.family for route in picked) < 2:
            picked.append(trial.route)
    return list(dict.fromkeys(picked))


def time_us(route: Route, shape: Shape) -> float:
    """Return the time of one call, from bf16 A to bf16 C, with weights from memory."""
    a = torch.randn(shape.m, shape.k, device="cuda").bfloat16()
    c = torch.empty(shape.m, shape.n, dtype=torch.bfloat16, device="cuda")
    launches = bound_copies(route, shape)
    for launch in launches[:2]:
        launch(a, c)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch(a, c)
    return statistics.median(replay_us(graph) for _ in range(REPLAYS)) / len(launches)


def bound_copies(route: Route, shape: Shape) -> list[Launch]:
    """Bind the route to so many copies of a weight that no cache holds them all."""
    weight = Mxfp4Weight.quantise(torch.randn(shape.n, shape.k, device="cuda") * shape.k**-0.5)
    needed = math.ceil(COLD_BYTES / (shape.n * shape.k * 17 / 32))
    problem = Problem.contiguous(shape, running_device(0))
    return [bind(route, problem, weight.copy()) for _ in range(max(4, min(needed, MOST_COPIES)))]


def replay_us(graph: "torch.cuda.CUDAGraph") -> float:
    """Return how long one replay takes."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


if __name__ == "__main__":
    main()
