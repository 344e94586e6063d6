"""The routes worth trying for a shape: a space multiplied out, made canonical and judged."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import Point, every_point, load_also, load_space
from mxtune.kernels.family import RouteFamily


@dataclass(frozen=True, slots=True)
class Candidates:
    """What became of every point of the spaces of one shape: the numbers add up to ``points``."""

    routes: tuple[Route, ...]
    points: int
    collapsed: int  # points that launch the same as another
    rejected: Mapping[str, int]  # points not worth or not legal to try, by reason
    pruned: tuple[Route, ...]  # distinct ones that are legal, but not worth it

    def among(self, known: Collection[Route], reason: str) -> "Candidates":
        """Reject what is not ``known``, for ``reason``."""
        routes = tuple(route for route in self.routes if route in known)
        others = Counter(self.rejected)
        others[reason] += len(self.routes) - len(routes)
        pruned = tuple(route for route in self.pruned if route in known)
        return replace(self, routes=routes, rejected=others, pruned=pruned)


def candidates(families: Iterable[RouteFamily], shape: Shape, device: Device) -> Candidates:
    """Multiply out the bundled spaces of each family for ``shape`` on ``device``."""
    routes: dict[Route, None] = {}
    pruned: dict[Route, None] = {}
    rejected: Counter[str] = Counter()
    points = collapsed = 0
    for family in families:
        for point in space_points(family, device):
            points += 1
            config = family.normalise(Config.of(point.settings), shape)
            route = Route(family.name, config)
            verdict = family.legality(config, shape, device)
            if verdict.grade == "illegal":
                rejected[f"{family.name}: {verdict.reason}"] += 1
            elif waste := family.waste(config, shape, device, won=point.won):
                rejected[f"{family.name}: {verdict.reason or waste}"] += 1
                pruned[route] = None
            elif route in routes:
                collapsed += 1
            else:
                routes[route] = None
    return Candidates(tuple(routes), points, collapsed, rejected, tuple(pruned))


def space_points(family: RouteFamily, device: Device) -> Iterator[Point]:
    """Yield every point of the bundled spaces of a family once, whatever the shape."""
    space, also = load_space(family.name, device.arch), load_also(family.name, device.arch)
    return every_point(space, also, {t.name: t.default for t in family.tunables})
