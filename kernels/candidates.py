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


def candidates(families: Iterable[RouteFamily], shape: Shape, device: Device) -> Candidates:
    """Multiply out the bundled space of each family for ``shape`` on ``device``."""
    routes: dict[Route, None] = {}
    rejected: Counter[str] = Counter()
    points = collapsed = 0
    for family in families:
        for config in _points(family, load_space(family.name, device.arch)):
            points += 1
            route = Route(family.name, family.normalise(config, shape))
            reason = _rejection(family, route.config, shape, device)
            if reason:
                rejected[f"{family.name}: {reason}"] += 1
            elif route in routes:
                collapsed += 1
            else:
                routes[route] = None
    return Candidates(tuple(routes), points, collapsed, rejected)


def _points(family: RouteFamily, space: Space) -> Iterable[Config]:
    axes = {t.name: space.get(t.name, (t.default,)) for t in family.tunables}
    for values in itertools.product(*axes.values()):
        yield Config.of(dict(zip(axes, values, strict=True)))


def _rejection(family: RouteFamily, config: Config, shape: Shape, device: Device) -> str | None:
    verdict = family.legality(config, shape, device)
    if verdict.grade == "illegal":
        return verdict.reason
    return family.waste(config, shape)
