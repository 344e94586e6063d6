"""Where lists of shapes come from: the command line, bundled lists, and files."""

import difflib
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import resources
from itertools import groupby
from pathlib import Path

from mxtune.configs.errors import ConfigError
from mxtune.configs.shape_files import (
    Counted,
    Fault,
    Found,
    attempt,
    csv_shapes,
    word_shapes,
    yaml_shapes,
)
from mxtune.configs.shapes import Shape

MOST_BYTES = 16 * 2**20  # far above any list that could be swept: a larger file is the wrong file

_READERS = {".csv": csv_shapes, ".yaml": yaml_shapes, ".yml": yaml_shapes}


def bundled() -> tuple[str, ...]:
    """Return the names of the lists that come with mxtune, sorted."""
    folder = resources.files("mxtune.configs") / "shapes"
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return tuple(sorted(name.removesuffix(".yaml") for name in names))


def load_shapes(source: str) -> tuple[Shape, ...]:
    """Return the distinct shapes of a bundled list, or of a CSV, YAML or text file, in order.

    Raises ConfigError with a line for every line of the file that is wrong; then none is used.
    """
    listed = (item.shape if isinstance(item, Counted) else item for item in _listed(source))
    return tuple(dict.fromkeys(listed))


def load_calls(source: str) -> dict[Shape, int]:
    """Return how often the shapes of a list were asked for, as far as it tells; see load_shapes."""
    calls: Counter[Shape] = Counter()
    for item in _listed(source):
        if isinstance(item, Counted):
            calls[item.shape] += item.calls
    return dict(calls)


def gather(words: Sequence[str], source: str | None) -> tuple[Shape, ...]:
    """Return the distinct shapes of ``words``, as in 16x2112x7168, then those of ``source``."""
    found = [attempt(place, partial(Shape.parse, word)) for place, word in enumerate(words, 1)]
    faults = [item.reason for item in found if isinstance(item, Fault)]
    if faults:
        raise ConfigError("\n".join(faults))
    listed = () if source is None else load_shapes(source)
    if not found and not listed:
        raise ConfigError(f"no shapes; give some as MxNxK, a file, or one of {_names()}")
    spoken = (item for item in found if isinstance(item, Shape))
    return tuple(dict.fromkeys((*spoken, *listed)))


def _listed(source: str) -> list[Shape | Counted]:
    if source in bundled():
        file = resources.files("mxtune.configs") / "shapes" / f"{source}.yaml"
        return _accepted(file.name, yaml_shapes(file.read_text("utf-8")))
    reader = _READERS.get(Path(source).suffix.lower(), word_shapes)
    return _accepted(source, reader(_text(source)))


def _accepted(file: str, found: Iterable[Found]) -> list[Shape | Counted]:
    """Return what is listed, if there is something and no fault."""
    items = list(found)
    faults = list(dict.fromkeys(item for item in items if isinstance(item, Fault)))
    if faults:
        by_line = groupby(sorted(faults), key=lambda fault: fault.line)
        reasons = [(line, "; ".join(fault.reason for fault in group)) for line, group in by_line]
        raise ConfigError("\n".join(f"{file}:{line}: {reason}" for line, reason in reasons))
    if not items:
        raise ConfigError(f"no shapes in {file}")
    return [item for item in items if not isinstance(item, Fault)]


def _text(source: str) -> str:
    """Return the text of a file, less a byte order mark."""
    content = _bytes(source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}:{line}: not UTF-8 text; save the file as UTF-8") from error


def _bytes(source: str) -> bytes:
    """Return the content of a regular file of sane size; opening a pipe could wait for ever."""
    path = Path(source)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise ConfigError(f"{source!r}: {what}; give a CSV, YAML or text file")
        if status.st_size > MOST_BYTES:
            raise ConfigError(f"{source}: {status.st_size} bytes; at most {MOST_BYTES} are read")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{source!r}: no such file or bundled list{_nearest(source)}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{source!r}: cannot be read ({reason})") from error


def _nearest(source: str) -> str:
    """Return the end of an error about an unknown name: what it may mean, and what there is."""
    close = difflib.get_close_matches(source, bundled(), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{hint} (bundled: {_names()})"


def _names() -> str:
    return ", ".join(bundled())
