"""What is here, what is missing, and what can be done with it: a fact a line."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mxtune.configs.settings import Settings
from mxtune.kernels.aiter import find_aiter
from mxtune.kernels.build import INTERPRETER_NEEDS, TRITON_RANGE, version_pair
from mxtune.tuner.emulate.job import missing_parts
from mxtune.tuner.machine import Machine

_LOW_BYTES = 1 << 30  # one sweep leaves some hundred MiB of compiled kernels in the cache
_TARGET = "gfx950"  # what mxtune tunes for, there or not


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing about this machine, and what to do if it is a lack."""

    name: str
    value: str
    hint: str = ""


def examine(settings: Settings, machine: Machine) -> tuple[Fact, ...]:
    """Gather every fact, what there is first, then what can be done with it."""
    return (
        Fact("python", machine.python),
        _torch(machine),
        _triton(machine),
        *_gpus(machine),
        Fact("driver", machine.driver or "none"),
        *_visibility(settings, machine),
        _aiter(),
        *_cache(settings),
        Fact("cpu cores", str(len(os.sched_getaffinity(0)))),
        *_abilities(machine),
    )


def lines(facts: Iterable[Fact]) -> Iterator[str]:
    """Yield each fact as plain text."""
    for fact in facts:
        yield f"{fact.name}: {fact.value}" + (f"  ({fact.hint})" if fact.hint else "")


def _torch(machine: Machine) -> Fact:
    if machine.torch is None:
        return Fact("torch", "none", machine.note or "torch is not installed")
    build = machine.driver.split(" ", 1)[0] if machine.driver else "CPU"
    hint = "" if machine.driver else "a CUDA or ROCm build is needed to measure"
    return Fact("torch", f"{machine.torch} ({build} build)", hint)


def _triton(machine: Machine) -> Fact:
    lack = _triton_lack(machine, TRITON_RANGE[0])
    if lack or machine.triton is None:
        return Fact("triton", machine.triton or "none", lack)
    if version_pair(machine.triton) > TRITON_RANGE[1]:
        return Fact("triton", machine.triton, f"newer than {_dotted(TRITON_RANGE[1])}: untested")
    return Fact("triton", machine.triton, _triton_lack(machine, INTERPRETER_NEEDS, "to interpret "))


def _triton_lack(machine: Machine, needed: tuple[int, int], purpose: str = "") -> str:
    """Say what is wrong with Triton where ``needed`` is; empty if nothing is."""
    if machine.triton is None:
        return f"triton is missing; {purpose}{_dotted(needed)} or newer is needed"
    if version_pair(machine.triton) >= needed:
        return ""
    return f"triton {machine.triton} is too old; {purpose}{_dotted(needed)} or newer is needed"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _gpus(machine: Machine) -> Iterator[Fact]:
    if not machine.gpus:
        yield Fact("gpu", "none", machine.note)
    for index, (gpu, bus_id) in enumerate(zip(machine.gpus, machine.bus_ids, strict=True)):
        lds_kib = gpu.lds_bytes // 1024
        yield Fact(f"gpu {index}", f"{gpu}, {lds_kib} KiB LDS, bus {bus_id}", machine.note)


def _visibility(settings: Settings, machine: Machine) -> Iterator[Fact]:
    for name, value in settings.visibility.items():
        hint = "hides every GPU" if value in ("", "-1") else ""
        yield Fact(name, repr(value), hint)
    for warning in machine.warnings:
        yield Fact("warning", warning)


def _aiter() -> Fact:
    found = find_aiter()
    if not found.amd:
        return Fact("aiter", "none" if found.path is None else "not AMD's", found.note)
    return Fact("aiter", f"{found.release or 'unknown version'} at {found.path}")


def _cache(settings: Settings) -> Iterator[Fact]:
    folder = settings.triton_cache
    yield Fact("triton cache", str(folder), settings.triton_cache_note)
    free_bytes = shutil.disk_usage(_existing(folder)).free
    hint = "" if free_bytes >= _LOW_BYTES else "under 1 GiB; set TRITON_CACHE_DIR to a larger disk"
    yield Fact("free for the cache", f"{free_bytes / _LOW_BYTES:.1f} GiB", hint)


def _existing(folder: Path) -> Path:
    """Return the closest parent that exists: someone may clear the cache at any time."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _abilities(machine: Machine) -> Iterator[Fact]:
    no_compiler = _triton_lack(machine, TRITON_RANGE[0])
    no_torch = "" if machine.torch else "torch is missing"
    no_numpy = "" if find_spec("numpy") else "numpy is not installed"
    no_interpreter = no_torch or _triton_lack(machine, INTERPRETER_NEEDS) or no_numpy
    yield _ability("sweep, measured", machine.note, " and ".join(map(str, machine.gpus)))
    yield _ability(f"sweep, offline for {_TARGET}", no_interpreter or no_compiler)
    yield _ability("run in the interpreter", no_interpreter)
    yield _ability(f"compile for {_TARGET}", no_compiler)
    yield _ability(f"execute {_TARGET} code on the CPU", no_compiler or missing_parts() or "")


def _ability(name: str, obstacle: str, on: str = "") -> Fact:
    if obstacle:
        return Fact(name, "no", obstacle)
    return Fact(name, f"yes, on {on}" if on else "yes")
