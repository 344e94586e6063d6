"""Values as Python text, laid out as ruff would leave them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Code:
    """An expression that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Made:
    """A call of a class: some arguments by place, the others by name, one a line."""

    name: str
    places: tuple[object, ...] = ()
    names: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """The key of an entry, with comments above it."""

    key: object
    comments: tuple[str, ...]


def literal(value: object, depth: int = 0) -> str:
    """Return ``value`` as Python text that begins ``depth`` levels in.

    Mappings, calls and tuples of either stand one entry a line, anything else on one line. Raises
    ValueError for what has no text.
    """
    match value:
        case Code(text):
            return text
        case Made(name, places, names):
            entries = [literal(place, depth + 1) for place in places]
            entries += [f"{key}={literal(v, depth + 1)}" for key, v in (names or {}).items()]
            return _exploded(f"{name}(", entries, ")", depth)
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            return _exploded("{", [_entry(k, v, depth + 1) for k, v in pairs], "}", depth)
        case tuple():
            return _tuple(cast("tuple[object, ...]", value), depth)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case None | bool() | int() | float():
            return repr(value)
        case _:
            raise ValueError(f"no text for {value!r}")


def _entry(key: object, value: object, depth: int) -> str:
    if isinstance(key, Noted):
        comments = "".join(f"# {comment}\n{_INDENT * depth}" for comment in key.comments)
        return f"{comments}{literal(key.key)}: {literal(value, depth)}"
    return f"{literal(key)}: {literal(value, depth)}"


def _tuple(value: tuple[object, ...], depth: int) -> str:
    if any(isinstance(item, Made) for item in value):
        return _exploded("(", [literal(item, depth + 1) for item in value], ")", depth)
    cells = [literal(item, depth) for item in value]
    return f"({cells[0]},)" if len(cells) == 1 else f"({', '.join(cells)})"


def _exploded(opening: str, entries: list[str], closing: str, depth: int) -> str:
    if not entries:
        return opening + closing
    inner = "".join(f"{_INDENT * (depth + 1)}{entry},\n" for entry in entries)
    return f"{opening}\n{inner}{_INDENT * depth}{closing}"
