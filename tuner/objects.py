"""What a compiled kernel is made of, read from its metadata and assembly."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.evidence import Objects
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned, variants
from mxtune.kernels.build import build
from mxtune.kernels.family import Problem, Step

_SCALED_MFMA = re.compile(r"\bv_mfma_scale_f32_\w+_f8f6f4\b")
_ANY_MFMA = re.compile(r"\bv_mfma_\w+")
_CONVERSION = re.compile(r"\bv_cvt_scalef32_pk_fp4_\w+")


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """One kernel's object. Register counts are per lane, None where the target does not tell."""

    step: str
    lds_bytes: int
    vgpr: int | None = None  # AccVGPRs included: gfx950 counts them together
    sgpr: int | None = None
    spills: int | None = None
    scaled_mfma: int = 0  # instructions in the text, not executed
    other_mfma: int = 0
    converts: bool = False  # whether the step was to use gfx950's own FP4 conversion
    conversions: int = 0  # of those

    @property
    def obstacle(self) -> str | None:
        """Say what keeps the object from being a route of ours, or None."""
        if self.step in ("gemm", "fused") and self.vgpr is not None and not self.scaled_mfma:
            return f"{self.step}: no scaled MFMA in its assembly"
        if self.converts and not self.conversions:  # triton 3.9 drops inline assembly it rejects
            return f"{self.step}: no FP4 conversion in its assembly"
        return None


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Compile the kernels of one candidate, for the usual layout of A and C."""

    route: Route
    shape: Shape
    device: Device


class OutOfLdsError(Exception):
    """A kernel takes more LDS than a workgroup can have."""


def compile_facts(job: CompileJob) -> tuple[ObjectFacts, ...]:
    """Compile for the job's device, into Triton's cache, and read the objects; AITER has its own.

    What is compiled serves every weight; what is read is for the weights that the plan assumes.
    Raises OutOfLdsError if one does not fit, and whatever Triton raises.
    """
    plan = planned(job.route, Problem.contiguous(job.shape, job.device))
    facts = [
        tuple(_facts(step, build(step, job.device), job.device) for step in variant.own)
        for variant in variants(plan)
    ]
    return facts[0]


def compile_service() -> Any:
    """Return the service of a compile worker."""
    return compile_facts


def summary(objects: Sequence[ObjectFacts]) -> Objects:
    """Return the largest of each figure over a route's own kernels; scaled MFMAs add up."""
    known = [part for part in objects if part.vgpr is not None]
    return Objects(
        lds_bytes=max((part.lds_bytes for part in objects), default=0),
        vgpr=max((part.vgpr or 0 for part in known), default=None),
        spills=max((part.spills or 0 for part in known), default=None),
        scaled_mfma=sum(part.scaled_mfma for part in known) if known else None,
    )


def _facts(step: Step, kernel: Any, device: Device) -> ObjectFacts:
    lds = int(kernel.metadata.shared)
    if lds > device.lds_bytes:
        raise OutOfLdsError(f"{step.name} takes {lds} of {device.lds_bytes} B of LDS")
    assembly = kernel.asm.get("amdgcn")
    if assembly is None:
        return ObjectFacts(step.name, lds)
    converts = bool(step.constants.get("HARDWARE")) and not step.constants.get("BF16")
    return read_assembly(step.name, lds, assembly, converts=converts)


def read_assembly(
    step: str, lds_bytes: int, assembly: str, *, converts: bool = False
) -> ObjectFacts:
    """Read gfx950 assembly as Triton prints it, its metadata block included."""
    scaled = len(_SCALED_MFMA.findall(assembly))
    return ObjectFacts(
        step=step,
        lds_bytes=lds_bytes,
        vgpr=_metadata(assembly, "vgpr_count"),
        sgpr=_metadata(assembly, "sgpr_count"),
        spills=_metadata(assembly, "vgpr_spill_count") + _metadata(assembly, "sgpr_spill_count"),
        scaled_mfma=scaled,
        other_mfma=len(_ANY_MFMA.findall(assembly)) - scaled,
        converts=converts,
        conversions=len(_CONVERSION.findall(assembly)),
    )


def _metadata(assembly: str, key: str) -> int:
    match = re.search(rf"\.{key}:\s+(\d+)", assembly)
    if not match:
        raise ValueError(f"no .{key} in the assembly's metadata")
    return int(match.group(1))
