"""GPUs of this process, as torch and Triton report them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, Literal

from mxtune.configs.devices import (
    Device,
    bare_arch,
    closest_device,
    known_devices,
    load_device,
)
from mxtune.configs.errors import MissingError

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


@cache
def running_device(index: int) -> Device:
    """Return the description of GPU ``index`` of this process, read once.

    Raises MissingError if there is none.
    """
    torch = import_module("torch")
    if not torch.cuda.is_available():
        raise MissingError("no GPU is visible to torch; mxtune doctor tells why")
    reports, _ = driver_reports(torch)
    return device_of(properties(torch, reports)[index])


def index_of(place: str) -> int | None:
    """Return the number of the GPU at ``place``, such as ``cuda:0``; None for a CPU."""
    return None if place.startswith("cpu") else int(place.partition(":")[2] or 0)


@cache
def other_gpus(index: int | None) -> bool:
    """Whether there are GPUs beside number ``index``, so that another one may be the current."""
    return index is not None and bool(import_module("torch").cuda.device_count() > 1)


def elsewhere(index: int | None) -> Callable[[], bool]:
    """Return what tells whether the current GPU is another than number ``index``."""
    if not other_gpus(index):
        return lambda: False
    current: Callable[[], int] = import_module("torch").cuda.current_device
    return lambda: current() != index


def on_device(index: int | None) -> AbstractContextManager[Any]:
    """Make GPU ``index`` the current one for a while; None is a CPU, which has none."""
    if not other_gpus(index):
        return nullcontext()
    guard: AbstractContextManager[Any] = import_module("torch").cuda.device(index)
    return guard


def capturing(place: str) -> bool:
    """Whether what is launched at ``place`` now goes into a graph and is not executed."""
    return index_of(place) is not None and bool(
        import_module("torch").cuda.is_current_stream_capturing()
    )


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
        bandwidth_gbs=_own_bandwidth_gbs(gpu) or device.bandwidth_gbs,
    )


def _own_bandwidth_gbs(gpu: Properties) -> float:
    """Return what this product of its architecture has. HIP's clock is not that of the HBM."""
    return _bandwidth_gbs(gpu) if gpu.backend == "cuda" else 0.0


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
        xcds=1,
        lds_bytes=gpu.lds_bytes or _LDS_BYTES,
        l2_bytes=gpu.l2_bytes,
        flush_bytes=max(2 * gpu.l2_bytes, _FLUSH_BYTES),
        clock_ghz=clock_ghz,
        bandwidth_gbs=_bandwidth_gbs(gpu) or _BANDWIDTH_GBS,
        fp4_tflops=units * clock_ghz * _FLOP_PER_CLOCK / 1e3,
        launch_us=_LAUNCH_US,
        dependent_us=_DEPENDENT_US,
        scaled_mma=bare_arch(gpu.arch) == "gfx950",
        pace=closest_device(gpu.arch, gpu.backend).pace,
    )


def _bandwidth_gbs(gpu: Properties) -> float:
    """Two transfers a clock, as in triton.testing.get_dram_gbps; 0 if not reported."""
    return 2 * gpu.memory_clock_khz * gpu.memory_bus_bits / 8 / 1e6


def backend_of(torch: Any) -> Literal["hip", "cuda"]:
    """Return what this build of torch drives."""
    return "hip" if torch.version.hip else "cuda"


def driver_reports(torch: Any) -> tuple[dict[int, dict[str, int]], str]:
    """Return what Triton's driver reports of each GPU, and why it cannot drive them, if so."""
    runtime: Any = import_module("triton.runtime")
    try:
        utils = runtime.driver.active.utils  # compiled on first use, with the machine's C compiler
        count = torch.cuda.device_count()
        return {index: utils.get_device_properties(index) for index in range(count)}, ""
    except (RuntimeError, OSError, ImportError, SubprocessError) as error:
        return {}, f"triton cannot drive the GPU: {one_line(error)}"


def driver_of(torch: Any) -> str | None:
    """Return ``CUDA 12.8, driver 570.86``; None for a build of torch that has no GPU."""
    if not (torch.version.hip or torch.version.cuda):
        return None
    backend = backend_of(torch)
    runtime = f"ROCm {torch.version.hip}" if backend == "hip" else f"CUDA {torch.version.cuda}"
    file = Path("/sys/module") / _KERNEL_MODULE[backend] / "version"
    driver = file.read_text("utf-8").strip() if file.is_file() else "version unknown"
    return f"{runtime}, driver {driver}"


def driver_here() -> str | None:
    """Return `driver_of` the torch of this process."""
    return driver_of(import_module("torch"))


def properties(torch: Any, reports: Mapping[int, dict[str, int]]) -> tuple[Properties, ...]:
    """Read every visible GPU, in torch's order."""
    return tuple(
        _property(torch.cuda.get_device_properties(i), reports.get(i, {}), backend_of(torch))
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


def one_line(error: BaseException) -> str:
    """Return the text of an error without its line breaks, cut to what fits a message."""
    return " ".join(str(error).split())[:200]
