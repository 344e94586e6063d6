"""The search space of each family, by device: which values of each setting are tried."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Value

Space = Mapping[str, tuple[Value, ...]]

ANY = "any"  # the section for a device that has none of its own
ALSO = "also"  # in a section: smaller spaces that are tried besides


@cache
def load_space(family: str, arch: str) -> Space:
    """Read the bundled space of ``family`` for ``arch``: setting to the values tried.

    A setting that is not there keeps its default. What stands under ``also`` is left out.
    """
    section = _section(family, arch)
    return {name: tuple(values) for name, values in section.items() if name != ALSO}


@cache
def load_also(family: str, arch: str) -> tuple[Space, ...]:
    """Read the spaces that are tried besides the main one: those of routes that won somewhere.

    There a setting may have one value instead of a list; one that is not there keeps its default.
    """
    extras: list[dict[str, Value | list[Value]]] = _section(family, arch).get(ALSO, [])
    return tuple(
        {name: tuple(v) if isinstance(v, list) else (v,) for name, v in extra.items()}
        for extra in extras
    )


@cache
def _section(family: str, arch: str) -> Mapping[str, Any]:
    path = files("mxtune.configs") / "spaces" / f"{family}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"family {family!r} has no search space; add configs/spaces/{family}.yaml"
        )
    sections: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    section: Mapping[str, Any] = sections.get(arch, sections.get(ANY, {}))
    return section


@dataclass(frozen=True, slots=True)
class Point:
    """A value for every setting of a family, and whether it is among those that won somewhere."""

    settings: dict[str, Value]
    won: bool


def every_point(
    space: Space, also: Sequence[Space], defaults: Mapping[str, Value]
) -> Iterator[Point]:
    """Multiply out each space, a setting of ``defaults`` that it lacks at its default.

    A point of several spaces comes once, as one that won if it is in one of ``also``.
    """
    earlier: list[Space] = []
    for axes in (_whole(one, defaults) for one in (*also, space)):
        for values in itertools.product(*axes.values()):
            settings = dict(zip(axes, values, strict=True))
            if not any(within(settings, other) for other in earlier):
                yield Point(settings, won=len(earlier) < len(also))
        earlier.append(axes)


def _whole(space: Space, defaults: Mapping[str, Value]) -> Space:
    return {name: space.get(name, (value,)) for name, value in defaults.items()}


def within(settings: Mapping[str, Value], space: Space) -> bool:
    """Whether a space has these settings, all of which it names."""
    return all(value in space[name] for name, value in settings.items())
