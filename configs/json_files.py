"""Files of JSON that people may have edited: read with every fault named, written whole."""

import json
import os
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from mxtune.configs.errors import ConfigError

_LARGEST_FILE = 64 * 2**20  # a table of 100,000 routes is smaller
_MOST_FAULTS = 5  # that one line tells of
_MOST_SHOWN = 80  # characters of a wrong value or of a path
_MOST_SAID = 160  # and of what is said about it


def write_whole(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one step; raises ConfigError if that cannot be done."""
    if path.exists() and not path.is_file():  # as root, a device would be replaced too
        raise ConfigError(f"{path}: not a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(partial).chmod(0o644)
            os.replace(partial, path)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error


def read_text(path: Path, *, empty: bool = False) -> str:
    """Return the text of a file of sane size; with ``empty`` it may have none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: not a file")
        if status.st_size > _LARGEST_FILE:
            raise ConfigError(f"{path}: {status.st_size} bytes are no route table")
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: cannot be read ({reason})") from error
    if not text.strip() and not empty:
        raise ConfigError(f"{path}: empty; no routes in it")
    return text


def object_of(path: Path, text: str, schema: str) -> dict[str, Any]:
    """Return the object that a file holds, which says that it is of ``schema``, as in name/1."""
    try:
        body: Any = json.loads(text, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ConfigError(f"{path}: not a route table: expected an object at the top")
    table = cast("dict[str, Any]", body)
    found = table.get("schema")
    if found != schema:
        newer = "; a newer mxtune wrote it, update this one" if _newer(found, schema) else ""
        raise ConfigError(f"{path}: schema {_shown(found)}; this mxtune reads {schema!r}{newer}")
    return table


def _newer(found: object, schema: str) -> bool:
    name, _, version = str(found).partition("/")
    own_name, _, own = schema.partition("/")
    return name == own_name and version.isdecimal() and int(version[:9]) > int(own)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build a JSON object, refusing a key that stands twice: one of the two would be lost."""
    body = dict(pairs)
    if len(body) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_shown(twice)} stands twice in one object")
    return body


def faults_of(error: ValidationError, under: str = "") -> tuple[str, ...]:
    """Name every fault by its JSON path."""
    return tuple(
        f"{_path(under, fault['loc'])}: {sentence(fault['msg'])}"
        for fault in error.errors(include_url=False, include_input=False)
    )


def sentence(text: str) -> str:
    """Return what is said of a value, which may repeat it, in one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SAID else f"{line[:_MOST_SAID]}..."


def _path(under: str, places: tuple[int | str, ...]) -> str:
    parts = [under] * bool(under) + [str(part) for part in places]
    return _shown(".".join(parts) or "the file").strip("'\"")  # a key may hold a newline


def told(faults: Collection[str]) -> str:
    """Return faults in one line: the first few, and how many more there are."""
    shown = list(faults)[:_MOST_FAULTS]
    more = len(faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
