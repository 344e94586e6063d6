"""The routes worth trying for a shape: a space multiplied out, made canonical and judged."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import Space, load_space
from mxtune.kernels.family import RouteFamily


@dataclass(frozen=True, slots=True)
class Candidates:
    """What became of every point of the spaces of one shape: the numbers add up to ``points``."""

    routes: tuple[Route, ...]
    points: int
    collapsed: int  # points that launch the same as another
    rejected: Mapping[str, int]  # points not worth or not legal to try, by reason
    pruned: tuple[Route, ...]  # distinct ones that are legal, but not worth it


def candidates(families: Iterable[RouteFamily], shape: Shape, device: Device) -> Candidates:
    """Multiply out the bundled space of each family for ``shape`` on ``device``."""
    routes: dict[Route, None] = {}
    pruned: dict[Route, None] = {}
    rejected: Counter[str] = Counter()
    points = collapsed = 0
    for family in families:
        for config in _points(family, load_space(family.name, device.arch)):
            points += 1
            route = Route(family.name, family.normalise(config, shape))
            verdict = family.legality(route.config, shape, device)
            waste = family.waste(route.config, shape, device)
            if verdict.grade == "illegal" or waste:
                rejected[f"{family.name}: {verdict.reason or waste}"] += 1
                if verdict.grade != "illegal":
                    pruned[route] = None
            elif route in routes:
                collapsed += 1
            else:
                routes[route] = None
    return Candidates(tuple(routes), points, collapsed, rejected, tuple(pruned))


def _points(family: RouteFamily, space: Space) -> Iterable[Config]:
    axes = {t.name: space.get(t.name, (t.default,)) for t in family.tunables}
    for values in itertools.product(*axes.values()):
        yield Config.of(dict(zip(axes, values, strict=True)))
