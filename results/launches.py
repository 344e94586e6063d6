"""Whether two routes are the same, however they are written."""

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import brief, checked_route, family


def same_launch(one: Route, other: Route, shape: Shape) -> bool:
    """Whether two routes launch the same kernels for ``shape``."""
    return _normal(one, shape) == _normal(other, shape)


def same_settings(one: Route, other: Route) -> bool:
    """Whether two routes have the same settings, those at their defaults written or not."""
    return _whole(one) == _whole(other)


def told(route: Route) -> str:
    """Return a route for people, in one line, also if this mxtune does not know it."""
    try:
        return brief(route)
    except ConfigError:
        return f"{route.family!r} (unknown)"


def _normal(route: Route, shape: Shape) -> Route:
    try:
        whole = checked_route(route)
    except ConfigError:  # one that is unknown here is only like itself
        return route
    return Route(whole.family, family(whole.family).normalise(whole.config, shape))


def _whole(route: Route) -> Route:
    try:
        return checked_route(route)
    except ConfigError:
        return route
