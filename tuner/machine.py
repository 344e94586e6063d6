"""What this machine has, found out in a child: the process that decides never touches a GPU."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, Literal

from mxtune.configs.devices import Device, bare_arch, known_devices, load_device
from mxtune.configs.errors import MissingError
from mxtune.configs.settings import Settings, for_child
from mxtune.kernels.build import require_triton
from mxtune.tuner.crew import Crew, wait
from mxtune.tuner.worker import Factory, Outcome, Service

PROBE_LIMIT_S = 120.0  # importing torch from a cold network disk and opening eight GPUs

# Stand-ins for what an undescribed GPU does not report.
_FLUSH_BYTES = 256 << 20  # as much as the largest cache that is not reported, AMD's Infinity Cache
_BANDWIDTH_GBS = 1000.0  # below any data-centre GPU since 2020
_CLOCK_GHZ = 1.0
_FLOP_PER_CLOCK = 1024  # bf16, a CU: CDNA2 (383 TFLOP/s on 220 CUs at 1.7 GHz); later ones do more
_LDS_BYTES = 48 << 10  # what CUDA grants without asking; AMD has 64 KiB
_LAUNCH_US = 4.0
_DEPENDENT_US = 4.0

_KERNEL_MODULE = {"cuda": "nvidia", "hip": "amdgpu"}


@dataclass(frozen=True, slots=True)
class Properties:
    """What torch and Triton report of one GPU, as plain values; 0 or "" is not reported."""

    backend: Literal["hip", "cuda"]
    arch: str
    name: str = ""
    warp_size: int = 0
    compute_units: int = 0
    lds_bytes: int = 0
    l2_bytes: int = 0
    clock_khz: int = 0
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0
    bus_id: str = ""


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
        with Crew(factory, size=1, limit_s=limit_s, variables=variables) as crew:
            crew.submit("probe", None)
            finished = wait([crew])
            while not finished:
                finished = wait([crew])
    except OSError as error:  # no room for the child's log, or too many processes
        return Found(lacks=(f"no process can be started to look for GPUs: {_line(error)}",))
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


def device_of(gpu: Properties) -> Device:
    """Return the description of a GPU, with what it reports in place of what is typical."""
    arch = bare_arch(gpu.arch)
    device = load_device(arch) if arch in known_devices() else _generic(gpu)
    # HIP reports the L2 of one XCD, a description that of all
    l2_bytes = device.l2_bytes if device.backend == "hip" else gpu.l2_bytes or device.l2_bytes
    return replace(
        device,
        name=gpu.name or device.name,
        compute_units=gpu.compute_units or device.compute_units,
        lds_bytes=gpu.lds_bytes or device.lds_bytes,
        l2_bytes=l2_bytes,
    )


def _generic(gpu: Properties) -> Device:
    """Describe a GPU of an architecture that nobody described, on the low side."""
    clock_ghz = gpu.clock_khz / 1e6 or _CLOCK_GHZ
    units = gpu.compute_units or 1
    return Device(
        arch=bare_arch(gpu.arch),
        name=gpu.name or gpu.arch,
        backend=gpu.backend,
        warp_size=gpu.warp_size or (64 if gpu.backend == "hip" else 32),
        compute_units=units,
        lds_bytes=gpu.lds_bytes or _LDS_BYTES,
        l2_bytes=gpu.l2_bytes,
        flush_bytes=max(2 * gpu.l2_bytes, _FLUSH_BYTES),
        clock_ghz=clock_ghz,
        bandwidth_gbs=_bandwidth_gbs(gpu) or _BANDWIDTH_GBS,
        fp4_tflops=units * clock_ghz * _FLOP_PER_CLOCK / 1e3,
        launch_us=_LAUNCH_US,
        dependent_us=_DEPENDENT_US,
        scaled_mma=bare_arch(gpu.arch) == "gfx950",
    )


def _bandwidth_gbs(gpu: Properties) -> float:
    """Two transfers a clock, as in triton.testing.get_dram_gbps; 0 if not reported."""
    return 2 * gpu.memory_clock_khz * gpu.memory_bus_bits / 8 / 1e6


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
        lack = "torch is not installed" if absent else f"torch cannot be imported: {_line(error)}"
        return Found(triton=triton, lacks=_some(lack, triton_lack))
    gpus: tuple[Properties, ...] = ()
    gpu_lack = _gpu_lack(torch)
    if not gpu_lack:
        reports, gpu_lack = ({}, "") if triton_lack else _driver_reports(torch)
        gpus = _properties(torch, reports)
    lacks = _some(triton_lack, gpu_lack)
    return Found(str(torch.__version__), triton, _driver(torch), gpus, lacks)


def _some(*lacks: str) -> tuple[str, ...]:
    return tuple(lack for lack in lacks if lack)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


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


def _backend(torch: Any) -> Literal["hip", "cuda"]:
    return "hip" if torch.version.hip else "cuda"


def _gpu_lack(torch: Any) -> str:
    """Say why torch sees no GPU; empty if it sees one."""
    if not (torch.version.hip or torch.version.cuda):
        return f"no GPU is visible: torch {torch.__version__} is a build for CPUs"
    try:
        torch.cuda.init()
    except RuntimeError as error:  # its text names the driver's complaint
        return f"no GPU is visible: {_line(error)}"
    return "" if torch.cuda.device_count() else "no GPU is visible"


def _driver_reports(torch: Any) -> tuple[dict[int, dict[str, int]], str]:
    """Return what Triton's driver reports of each GPU, and why it cannot drive them, if so."""
    runtime: Any = import_module("triton.runtime")
    try:
        utils = runtime.driver.active.utils  # compiled on first use, with the machine's C compiler
        count = torch.cuda.device_count()
        return {index: utils.get_device_properties(index) for index in range(count)}, ""
    except (RuntimeError, OSError, ImportError, SubprocessError) as error:
        return {}, f"triton cannot drive the GPU: {_line(error)}"


def _properties(torch: Any, reports: Mapping[int, dict[str, int]]) -> tuple[Properties, ...]:
    return tuple(
        _property(torch.cuda.get_device_properties(i), reports.get(i, {}), _backend(torch))
        for i in range(torch.cuda.device_count())
    )


def _property(seen: Any, driver: dict[str, int], backend: Literal["hip", "cuda"]) -> Properties:
    """Read one GPU: older torch lacks some attributes, which Triton's driver may have."""

    def number(attribute: str, key: str = "") -> int:
        return int(getattr(seen, attribute, 0) or driver.get(key, 0))

    arch = seen.gcnArchName if backend == "hip" else f"sm_{seen.major}{seen.minor}"
    optin = number("shared_memory_per_block_optin") or number("shared_memory_per_block")
    return Properties(
        backend=backend,
        arch=arch,
        name=str(seen.name).strip(),
        warp_size=number("warp_size", "warpSize"),
        compute_units=number("multi_processor_count", "multiprocessor_count"),
        lds_bytes=driver.get("max_shared_mem") or optin,  # what Triton holds a launch to
        l2_bytes=number("L2_cache_size"),
        clock_khz=number("clock_rate", "sm_clock_rate"),
        memory_clock_khz=number("memory_clock_rate", "mem_clock_rate"),
        memory_bus_bits=number("memory_bus_width", "mem_bus_width"),
        bus_id=_bus_id(seen),
    )


def _bus_id(seen: Any) -> str:
    """Return ``0000:75:00.0``, or the GPU's UUID where torch is too old to tell."""
    bus = getattr(seen, "pci_bus_id", None)
    if bus is None:
        return str(getattr(seen, "uuid", "unknown"))
    domain, slot = getattr(seen, "pci_domain_id", 0), getattr(seen, "pci_device_id", 0)
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def _driver(torch: Any) -> str | None:
    """Return ``CUDA 12.8, driver 570.86``; None for a build of torch that has no GPU."""
    if not (torch.version.hip or torch.version.cuda):
        return None
    backend = _backend(torch)
    runtime = f"ROCm {torch.version.hip}" if backend == "hip" else f"CUDA {torch.version.cuda}"
    file = Path("/sys/module") / _KERNEL_MODULE[backend] / "version"
    driver = file.read_text("utf-8").strip() if file.is_file() else "version unknown"
    return f"{runtime}, driver {driver}"
