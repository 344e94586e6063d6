"""AITER, AMD's library of tuned kernels: where it is, and whether it can be called.

Nothing else imports it. What is missing or goes wrong makes its routes unavailable, in one line.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from inspect import Signature, getsource, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.kernels.aiter_calls import PLACES, adapted, keywords
from mxtune.kernels.aiter_source import commit_in, commit_of_checkout, signature_in
from mxtune.kernels.asm_catalogue import read_catalogue
from mxtune.kernels.family import Call

if TYPE_CHECKING:
    from torch import Tensor

ARCH = "gfx950"  # the only GPU for which its FP4 kernels of this shape are

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
    commit: str | None = None  # None if neither its installer nor a checkout tells

    @property
    def release(self) -> str | None:
        """What AMD's is called in a table: version and commit, as far as they are known."""
        commit = f"commit {self.commit}" if self.commit else ""
        return " ".join(filter(None, (self.version, commit))) or None if self.amd else None


def find_aiter() -> Aiter:
    """Look for AITER without importing it: that needs ROCm."""
    folder = _folder()
    if folder is None:
        return Aiter(None, None, amd=False, note="aiter is not installed; install amd-aiter")
    if (folder / _MARK).is_file():
        found = _version(*_DISTRIBUTIONS)
        return Aiter(str(folder), found, amd=True, note="", commit=_commit(folder, found))
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


def _commit(folder: Path, release: str | None) -> str | None:
    """Return the commit that the release, the installer's record or a checkout names."""
    record = ""
    for name in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            record += distribution(name).read_text("direct_url.json") or ""
    return commit_in(release or "") or commit_in(record) or commit_of_checkout(folder.parent)


@dataclass(frozen=True, slots=True)
class AsmObjects:
    """The ASM kernels of the installed AITER: name to 16 digits of its object's sha256."""

    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    lack: str = ""  # why there are none


@cache
def asm_objects() -> AsmObjects:
    """Read the ASM kernels of the installed AITER, once."""
    found = find_aiter()
    if not found.amd or found.path is None:
        return AsmObjects(lack=found.note)
    try:
        catalogue = read_catalogue(Path(found.path))
    except ConfigError as error:
        return AsmObjects(lack=str(error))
    codes = {kernel.name: catalogue.code(kernel) for kernel in catalogue.kernels}
    return AsmObjects({name: sha256(code).hexdigest()[:16] for name, code in codes.items()})


def obstacle(call: Call, device: Device) -> str | None:
    """Say why a route that makes ``call`` cannot run on ``device`` in this process, or None."""
    if (device.backend, device.arch) != ("hip", ARCH):
        return f"AITER's FP4 kernels are for {ARCH}, not {device.arch}"
    try:
        keywords(call, _entry(call.function).takes)
    except MissingError as error:
        return str(error)
    torch = import_module("torch")
    seen = torch.version.hip and torch.cuda.is_available()
    return None if seen else "AITER needs an AMD GPU, and torch sees none"


def bound_call(
    call: Call, tensors: "Mapping[str, Tensor]", given: Sequence[str]
) -> Callable[..., None]:
    """Fix every argument of ``call`` but the buffers that are ``given``; see `adapted`.

    Raises MissingError if there is no AITER that can be called so.
    """
    entry = _entry(call.function)
    return adapted(call, entry.function, entry.takes, tensors, given)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A function of the installed AITER and what it takes."""

    function: Callable[..., Any]
    takes: Signature


@cache
def _entry(name: str) -> _Entry:
    """Import a function of AITER's; raises MissingError in one line, whatever goes wrong."""
    found = find_aiter()
    lack = found.note or _broken()
    if lack:
        raise MissingError(lack)
    for place in PLACES[name]:
        module = _module(place)
        function = getattr(module, name, None)
        if module is not None and function is not None:
            return _Entry(function, _takes(module, name, function))
    raise MissingError(f"AITER {found.release or 'at ' + str(found.path)} has no {name}")


@cache
def _broken() -> str:
    """Import AITER; say what it raises, empty if nothing. Once: a failure can take seconds."""
    try:
        import_module("aiter")
    except Exception as error:  # noqa: BLE001  it looks for ROCm, compiles, and may fail in any way
        return _told("aiter", error)
    return ""


def _module(place: str) -> ModuleType | None:
    """Import a part of AITER; None if this release does not have it."""
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name and f"{place}.".startswith(f"{error.name}."):
            return None
        raise MissingError(_told(place, error)) from error
    except Exception as error:
        raise MissingError(_told(place, error)) from error


def _told(place: str, error: Exception) -> str:
    told = " ".join(str(error).split())[:200]
    return f"{place} cannot be imported: {type(error).__name__}: {told}"


def _takes(module: ModuleType, name: str, function: Callable[..., Any]) -> Signature:
    """Return what a function takes; its source tells where a decorator hides it.

    AITER registers most with torch and leaves a wrapper of (*args, **kwargs) in their place.
    """
    try:
        seen = signature(function)
        hidden = any(p.kind is p.VAR_KEYWORD for p in seen.parameters.values())
        return signature_in(getsource(module), name) if hidden else seen
    except (ValueError, TypeError, OSError, SyntaxError) as error:
        raise MissingError(f"what {name} of this AITER takes is unknown: {error}") from error
