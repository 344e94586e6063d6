"""What this machine has, found out in a child: the process that decides never touches a GPU."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import MissingError
from mxtune.configs.settings import Settings, for_child
from mxtune.kernels.build import require_triton
from mxtune.kernels.gpu import (
    Properties,
    device_of,
    driver_of,
    driver_reports,
    one_line,
    properties,
)
from mxtune.tuner.crew import Crew, wait
from mxtune.tuner.worker import Factory, Outcome, Service

PROBE_LIMIT_S = 120.0  # importing torch from a cold network disk and opening eight GPUs


@dataclass(frozen=True, slots=True)
class Found:
    """What the probe saw: plain values, so that they travel from the child."""

    torch: str | None = None
    triton: str | None = None
    driver: str | None = None
    gpus: tuple[Properties, ...] = ()
    lacks: tuple[str, ...] = ()  # why nothing can be measured, each reason by itself


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine can run on. Versions are None where the package is missing."""

    torch: str | None
    triton: str | None
    python: str
    driver: str | None  # runtime and driver versions; None without a GPU build of torch
    gpus: tuple[Device, ...]  # every visible one, in torch's order
    bus_ids: tuple[str, ...]  # of each GPU: monitoring tools number them otherwise
    note: str  # why no GPU can be used; empty if one can
    warnings: tuple[str, ...]


def probe(settings: Settings) -> Machine:
    """Look at this machine in a child; a probe that crashes or hangs is a note."""
    return described(found_by(look_service, settings, PROBE_LIMIT_S), settings.visibility)


def found_by(factory: Factory, settings: Settings, limit_s: float) -> Found:
    """Return what a child's service finds; what goes wrong there is its only lack."""
    variables = for_child(settings, interpret=False)
    try:
        with Crew([factory], limit_s=limit_s, variables=variables) as crew:
            crew.submit("probe", None)
            finished = wait([crew])
            while not finished:
                finished = wait([crew])
    except OSError as error:  # no room for the child's log, or too many processes
        return Found(lacks=(f"no process can be started to look for GPUs: {one_line(error)}",))
    return _answer(finished[0].outcome)


def _answer(outcome: Outcome) -> Found:
    if outcome.state == "done":
        found: Found = outcome.value
        return found
    return Found(lacks=(f"the process that looks for GPUs {outcome.state}: {outcome.reason}",))


def described(found: Found, visibility: Mapping[str, str]) -> Machine:
    """Turn what the probe saw into a machine."""
    lacks = list(found.lacks)
    if found.torch and not found.gpus:
        lacks += [f"{name}={value!r} is set" for name, value in visibility.items()]
    amd = not (found.driver or "").startswith("CUDA")  # it obeys all variables, CUDA only its own
    return Machine(
        torch=found.torch,
        triton=found.triton,
        python=platform.python_version(),
        driver=found.driver,
        gpus=tuple(device_of(gpu) for gpu in found.gpus),
        bus_ids=tuple(gpu.bus_id for gpu in found.gpus),
        note="; ".join(lacks),
        warnings=visibility_conflicts(visibility) if amd else (),
    )


def visibility_conflicts(visibility: Mapping[str, str]) -> tuple[str, ...]:
    """Warn of variables that hide each other's GPUs on AMD: each renumbers what it leaves."""
    if len(visibility) < 2:
        return ()
    shown = ", ".join(f"{name}={value!r}" for name, value in visibility.items())
    return (f"{shown}: on AMD they filter one after another and renumber; set only one",)


def look_service() -> Service:
    """Return the service of the probing child."""
    return _look


def _look(job: object) -> Found:
    """Import torch and Triton and ask them; each thing that is missing is a lack."""
    del job
    triton, triton_lack = _triton()
    try:
        torch = import_module("torch")
    except (ImportError, OSError) as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        lack = (
            "torch is not installed" if absent else f"torch cannot be imported: {one_line(error)}"
        )
        return Found(triton=triton, lacks=_some(lack, triton_lack))
    gpus: tuple[Properties, ...] = ()
    gpu_lack = _gpu_lack(torch)
    if not gpu_lack:
        reports, gpu_lack = ({}, "") if triton_lack else driver_reports(torch)
        gpus = properties(torch, reports)
    lacks = _some(triton_lack, gpu_lack)
    return Found(str(torch.__version__), triton, driver_of(torch), gpus, lacks)


def _some(*lacks: str) -> tuple[str, ...]:
    return tuple(lack for lack in lacks if lack)


def _triton() -> tuple[str | None, str]:
    """Return Triton's version and why it is unfit, if it is."""
    try:
        return require_triton(), ""
    except MissingError as error:
        lack = str(error)
    try:
        return str(import_module("triton").__version__), lack
    except ImportError:
        return None, lack


def _gpu_lack(torch: Any) -> str:
    """Say why torch sees no GPU; empty if it sees one."""
    if not (torch.version.hip or torch.version.cuda):
        return f"no GPU is visible: torch {torch.__version__} is a build for CPUs"
    try:
        torch.cuda.init()
    except RuntimeError as error:  # its text names the driver's complaint
        return f"no GPU is visible: {one_line(error)}"
    return "" if torch.cuda.device_count() else "no GPU is visible"
