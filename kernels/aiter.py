"""AITER, AMD's library of tuned kernels: all that mxtune knows of it."""

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# It is imported as aiter; a library of async iterators has that name on the package index.
_DISTRIBUTIONS = ("amd-aiter", "aiter")
_MARK = Path("ops") / "gemm_op_a4w4.py"  # where AMD's defines gemm_a4w4


@dataclass(frozen=True, slots=True)
class Aiter:
    """What the name ``aiter`` stands for here."""

    path: str | None  # None if there is no such package
    version: str | None  # None if its installer left no record
    amd: bool
    note: str  # why its routes cannot run; empty for AMD's


def find_aiter() -> Aiter:
    """Look for AITER without importing it: that needs ROCm."""
    folder = _folder()
    if folder is None:
        return Aiter(None, None, amd=False, note="aiter is not installed; install amd-aiter")
    if (folder / _MARK).is_file():
        return Aiter(str(folder), _version(*_DISTRIBUTIONS), amd=True, note="")
    note = f"aiter found at {folder}, but it is not AMD's (no gemm_a4w4); install amd-aiter"
    return Aiter(str(folder), _version("aiter"), amd=False, note=note)


def _folder() -> Path | None:
    """Return the package's folder, or the module's file if it is no package."""
    try:
        spec = find_spec("aiter")
    except ValueError:  # something put a module without a spec into sys.modules
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0] if folders else spec.origin or "aiter")


def _version(*distributions: str) -> str | None:
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return None
