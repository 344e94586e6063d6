"""What a GPU is: the figures that legality, the model and the roofline need."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

from mxtune.configs.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a CU gets through the parts of a kernel: the constants of the model, in cycles."""

    prologue: float  # of a program, before and after its loop
    latency: float  # of a load under load, as far as no stage hides it
    stream_bytes: float  # of operands that a CU takes in, each cycle
    quantise: float  # of one value of A, on one of a CU's 4 SIMDs
    unpack: float  # of one FP4 value fed to dot_scaled, on one SIMD; 0 with FP4 matrix units
    matrix: float  # how many times its peak time the arithmetic takes
    resident: int  # programs that a CU holds at once


@dataclass(frozen=True, slots=True)
class Device:
    """One kind of GPU. Rates are peaks; sizes are bytes; times are microseconds."""

    arch: str  # gfx950, sm_90: the bare name, without feature suffixes
    name: str
    backend: str  # hip or cuda, as Triton calls its target
    warp_size: int
    compute_units: int
    xcds: int  # chiplets that programs go to in turn, each with an L2 of its own
    lds_bytes: int  # the most one workgroup can have
    l2_bytes: int
    flush_bytes: int  # writing this much leaves nothing of the operands in any cache
    clock_ghz: float
    bandwidth_gbs: float
    fp4_tflops: float  # of dot_scaled on FP4 operands, emulated or not
    launch_us: float  # of the first kernel of a call
    dependent_us: float  # of each further kernel that waits for the one before
    scaled_mma: bool  # whether it has matrix units for FP4 with block scales
    pace: Pace

    def __str__(self) -> str:
        return f"{self.name} ({self.arch}, {self.compute_units} CUs)"


def bare_arch(arch: str) -> str:
    """Return ``gfx950`` for ``gfx950:sramecc+:xnack-``: features do not change what runs."""
    return arch.split(":", 1)[0].strip().lower()


def known_devices() -> tuple[str, ...]:
    """Return the architectures that have a description."""
    folder = files("mxtune.configs") / "devices"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def load_device(arch: str) -> Device:
    """Read the description of ``arch``."""
    name = bare_arch(arch)
    if name not in known_devices():
        raise ConfigError(f"no device is called {arch!r}: one of {', '.join(known_devices())}")
    import yaml

    text = (files("mxtune.configs") / "devices" / f"{name}.yaml").read_text("utf-8")
    values: dict[str, Any] = yaml.safe_load(text)
    return device_from({field.name: values[field.name] for field in fields(Device)})


def closest_device(arch: str, backend: str) -> Device:
    """Return the description of ``arch``, or of the GPU that its ``backend`` is modelled like."""
    name = bare_arch(arch)
    return load_device(name if name in known_devices() else _MODELLED_LIKE[backend])


_MODELLED_LIKE = {"hip": "gfx950", "cuda": "sm_90"}


def device_from(values: Mapping[str, Any]) -> Device:
    """Build a device from plain values, as in a description or in a store."""
    older = {"xcds": 1}  # what stores made before it was counted lack
    plain: dict[str, Any] = {**older, **values, "pace": Pace(**values["pace"])}
    return Device(**plain)
