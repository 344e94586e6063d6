"""Counts the shapes that a table had no route for, and keeps them as a list of shapes."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from filelock import FileLock

from mxtune.configs.errors import ConfigError
from mxtune.configs.json_files import write_whole
from mxtune.configs.shape_lists import load_calls
from mxtune.configs.shapes import Shape

_HEAD = "about: what a route table did not have, and how often it was asked for\nshapes:\n"


class Misses:
    """Calls by shape since they were last saved. A graph's replays are not calls."""

    def __init__(self) -> None:
        """Begin with none."""
        self._calls: Counter[Shape] = Counter()
        self._lock = Lock()

    def counter(self, shape: Shape) -> Callable[..., None]:
        """Return what is called, with anything, at each call of ``shape``."""
        calls = self._calls

        def count(*operands: object) -> None:
            del operands
            calls[shape] += 1

        return count

    @property
    def calls(self) -> dict[Shape, int]:
        """What was counted and not yet saved."""
        return {shape: count for shape, count in sorted(self._calls.items()) if count}

    def add_to(self, path: Path) -> dict[Shape, int]:
        """Add the calls to those in a file, new or written by this; return what it then has.

        Several processes may do so at once. Raises ConfigError for a file that is no list of shapes
        or cannot be written; then nothing is forgotten.
        """
        with self._lock, _locked(path):
            taken = self.calls
            total = Counter(taken)
            if path.exists():
                total.update(load_calls(str(path)))
            if not total:
                return {}
            write_whole(path, _HEAD + "".join(map(_line, sorted(total.items()))))
            self._calls.subtract(taken)
        return dict(total)

    def add_quietly(self, path: Path) -> None:
        """Do that as a process ends: what goes wrong is one line."""
        try:
            self.add_to(path)
        except ConfigError as error:
            print(f"mxtune: MXTUNE_RECORD: {error}", file=sys.stderr)


def _locked(path: Path) -> FileLock:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock", timeout=60)
        lock.acquire()
    except OSError as error:  # a lock that is held for a minute too
        raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error
    return lock


def _line(item: tuple[Shape, int]) -> str:
    shape, calls = item
    return f"- {{m: {shape.m}, n: {shape.n}, k: {shape.k}, calls: {calls}}}\n"
