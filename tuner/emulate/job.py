"""A check of a route in the emulator, as it goes to a worker, and what comes back."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.tuner.check import Verdict
from mxtune.tuner.emulate.findings import Finding
from mxtune.tuner.emulate.profile import NOTHING, Profile

TARGET = "gfx950"  # what the emulator executes
_NEEDS = ("tinygrad", "elftools", "msgpack", "numpy", "torch")


@dataclass(frozen=True, slots=True)
class EmulateJob:
    """Check ``route`` at ``shape`` with one of the seeds of the gate."""

    route: Route
    shape: Shape
    device: Device
    seed: int


@dataclass(frozen=True, slots=True)
class KernelRun:
    """What one kernel of a route did."""

    step: str
    profile: Profile
    dismissed: int  # reads of what nothing wrote, without an effect


@dataclass(frozen=True, slots=True)
class Emulated:
    """What came of an emulated check. ``findings`` holds everything but wrong numbers."""

    shape: Shape
    verdict: Verdict
    findings: tuple[tuple[str, Finding], ...]  # by step
    kernels: tuple[KernelRun, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the numbers are right and nothing else is wrong."""
        return self.verdict.ok and not self.findings

    @property
    def reason(self) -> str:
        """Why it is not, in one line."""
        if not self.verdict.ok:
            return self.verdict.reason
        return next((f"{step}: {finding}" for step, finding in self.findings), "")


def missing_parts() -> str | None:
    """Say what is not installed that the emulator needs, or None."""
    lacking = [name for name in _NEEDS if find_spec(name) is None]
    if not lacking:
        return None
    return f"{', '.join(lacking)} not installed; pip install 'mxtune[cpu,emulate]'"


def require_emulator() -> None:
    """Raise MissingError if the emulator cannot work here."""
    lack = missing_parts()
    if lack:
        raise MissingError(f"the emulator cannot run: {lack}")


def merged(parts: "list[Emulated]") -> Emulated:
    """Put the seeds of one route together: every finding once, the worst of the numbers."""
    findings = dict.fromkeys(found for part in parts for found in part.findings)
    wrong = [part.verdict for part in parts if not part.verdict.ok]
    worst = max((part.verdict for part in parts), key=lambda verdict: verdict.worst)
    kernels = [_sum(runs) for runs in zip(*(part.kernels for part in parts), strict=True)]
    return Emulated(
        parts[0].shape,
        wrong[0] if wrong else worst,
        tuple(findings),
        tuple(kernels),
        sum(part.seconds for part in parts),
    )


def _sum(runs: tuple[KernelRun, ...]) -> KernelRun:
    profile = sum((run.profile for run in runs), NOTHING)
    return KernelRun(runs[0].step, profile, sum(run.dismissed for run in runs))


def emulate_service() -> Any:
    """Return the service of an emulating worker."""
    from mxtune.tuner.emulate.gate import emulate  # needs the extra

    return emulate
