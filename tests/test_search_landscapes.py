"""The search on made-up times of real candidates: near the best of all after a few tries."""

from collections.abc import Callable
from math import cos, log2

import pytest
from tests.search_play import play

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family, own_families
from mxtune.tuner.search import Search, effort_of
from mxtune.tuner.task import make_task

MI355X = load_device("gfx950")


def notch(route: Route, name: str, best: float) -> float:
    """Return how many doublings a setting is from where a made-up cost is least."""
    return log2(route.config.number(name)) - log2(best)


def bowl(route: Route) -> float:
    """A split of 7, narrow tiles, deep loads: each setting by itself."""
    split = notch(route, "split_k", 7) if "split_k" in route.config else 2.0
    sides = notch(route, "BLOCK_N", 32) ** 2 + notch(route, "BLOCK_K", 256) ** 2
    rest = notch(route, "num_warps", 2) ** 2 + notch(route, "num_stages", 3) ** 2
    return 10 + split**2 + 0.8 * sides + 0.5 * rest


def kernels_of(route: Route) -> int:
    """Count what a route launches."""
    problem = Problem.contiguous(Shape(16, 2112, 7168), MI355X)
    return len(family(route.family).plan(route.config, problem).steps)


def ridge(route: Route) -> float:
    """One kernel is best, and wide tiles want many warps: settings that hang together."""
    kernels = kernels_of(route)
    area = notch(route, "BLOCK_N", 128) - notch(route, "num_warps", 8)
    slope = abs(notch(route, "BLOCK_N", 128)) + abs(notch(route, "BLOCK_K", 512))
    return 8 + 1.5 * kernels + area**2 + 0.7 * slope + 0.4 * notch(route, "num_stages", 1) ** 2


def waves(route: Route) -> float:
    """Programs fill 256 units or leave some idle, and each split is added up in the end."""
    split = int(route.config.get("split_k", 1))
    programs = 2112 / route.config.number("BLOCK_N") * split
    idle = 1 + 0.2 * (1 - cos(log2(programs / 256)))
    adding = 0.3 * split if split > 1 else 0.0
    return 6 + 20 * idle * (1 + 256 / programs) / 2 + adding + abs(notch(route, "BLOCK_K", 256))


@pytest.mark.parametrize("time_us", [bowl, ridge, waves], ids=["bowl", "ridge", "waves"])
def test_the_default_effort_finds_a_near_best_route_in_few_tries(
    time_us: Callable[[Route], float],
) -> None:
    task = make_task(Shape(16, 2112, 7168), own_families(), MI355X, None, [])
    asked = [
        route for batch in play(Search(task, effort_of("default")), time_us) for route in batch
    ]
    assert len(asked) == len(set(asked)) < 0.15 * len(task.found.routes)
    assert set(asked) <= set(task.found.routes)
    assert min(map(time_us, asked)) <= 1.02 * min(map(time_us, task.found.routes))
