"""A quantised with its scales shuffled, then one of AITER's hand-written kernels, by name.

Those write rows in 32s: where M is no multiple of that, or C is laid out otherwise, they write a
workspace, from which one more kernel copies C. A kernel that can split K adds the parts in bf16.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mxtune.configs.asm_rules import AsmRules, load_asm_rules
from mxtune.configs.devices import Device, load_device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import ARCH, asm_objects, obstacle
from mxtune.kernels.aiter_calls import whole_rows
from mxtune.kernels.aiter_steps import asm_call, crop_step, padded_c
from mxtune.kernels.family import (
    Call,
    Legality,
    Plan,
    Problem,
    RouteFamily,
    Step,
    Tunable,
    illegal,
)
from mxtune.kernels.operands import operand_c
from mxtune.kernels.quantise_steps import codes_step
from mxtune.kernels.tiles import CONVERT, QUANTISE, defaults

_DEFAULT = "32x128"  # what wins most in AITER's table
_TRIED_BYTES = 2**31  # of codes: the largest operand in AITER's table
_SPLITS = (0, 1, 2, 3, 4)  # log2 of what AITER's host code tries


@dataclass(frozen=True, slots=True)
class _Kernel:
    """One ASM kernel: its mangled name and the block of C that a workgroup computes."""

    name: str
    digest: str  # of the object that the rules were found with
    tile_m: int
    tile_n: int
    shuffled: bool  # whether it reads shuffled weights


@cache
def _rules() -> AsmRules:
    return load_asm_rules(ARCH)


@cache
def _kernels() -> Mapping[str, _Kernel]:
    """The kernels by what people call them: those whose rules are known."""
    found: dict[str, _Kernel] = {}
    for facts in _rules().kernels:
        m, n = map(int, re.findall(r"\d+", facts.label))
        plain = facts.label.endswith("plain")
        found[facts.label] = _Kernel(facts.name, facts.digest, m, n, shuffled=not plain)
    return found


@cache
def _tunables() -> tuple[Tunable, ...]:
    return (
        Tunable("kernel", "AITER's kernel, by its tile", _DEFAULT, tuple(_kernels())),
        Tunable("log2_k_split", "K is split in two to this power", 0, _SPLITS),
        *QUANTISE,
        *CONVERT,
    )


@dataclass(frozen=True, slots=True)
class _AsmFamily:
    """The RouteFamily of AITER's ASM kernels."""

    name: str = "asm"

    @property
    def tunables(self) -> tuple[Tunable, ...]:
        """See RouteFamily."""
        return _tunables()

    def missing(self, device: Device) -> str | None:
        """See RouteFamily."""
        shape = Shape(32, 128, 256)
        call = _call(self.fallback(shape), Problem.contiguous(shape, load_device(ARCH)))
        return obstacle(call, device) or asm_objects().lack or None

    def normalise(self, config: Config, shape: Shape) -> Config:
        """See RouteFamily."""
        del shape
        return config

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """See RouteFamily."""
        if device.arch != ARCH:
            return illegal(f"the kernels are code for {ARCH}, not {device.arch}")
        kernel, split = _kernels()[config.text("kernel")], config.number("log2_k_split")
        installed = asm_objects().digests
        if installed and kernel.name not in installed:
            return illegal(f"the AITER installed here has no kernel {config['kernel']}")
        verdict = _rules().grade(kernel.name, shape, split)
        if verdict.grade == "legal" and installed.get(kernel.name, kernel.digest) != kernel.digest:
            return Legality("suspect", f"{config['kernel']}: not the object that was emulated")
        if verdict.grade == "legal" and max(shape.m, shape.n) * shape.k // 2 > _TRIED_BYTES:
            return Legality("suspect", "an operand of more than 2 GiB, which nobody has tried")
        return Legality(verdict.grade, verdict.reason)

    def waste(
        self, config: Config, shape: Shape, device: Device, *, won: bool = False
    ) -> str | None:
        """See RouteFamily. A tile one size too large has won, where it shares the same columns."""
        del device, won
        kernel = _kernels()[config.text("kernel")]
        if kernel.tile_m > 32 and kernel.tile_m >= 2 * shape.m + 32:
            return "tile far beyond M"
        if kernel.tile_n > 128 and kernel.tile_n >= 2 * shape.n:
            return "tile far beyond N"
        return None

    def fallback(self, shape: Shape) -> Config:
        """Return what is legal wherever one of its kernels is for shuffled weights."""
        del shape
        return Config.of(defaults(self.tunables))

    def plan(self, config: Config, problem: Problem) -> Plan:
        """See RouteFamily."""
        call = _call(config, problem)
        steps: tuple[Step | Call, ...] = (codes_step(config, problem, shuffled=True), call)
        if call.buffers["out"].name != "c":
            steps = (*steps, crop_step(problem, call.buffers["out"]))
        return Plan(steps, deterministic=config.number("log2_k_split") == 0)


def _call(config: Config, problem: Problem) -> Call:
    kernel = _kernels()[config.text("kernel")]
    c = operand_c(problem)
    return asm_call(
        problem,
        kernel.name,
        (kernel.tile_m, kernel.tile_n),
        shuffled=kernel.shuffled,
        split=config.number("log2_k_split"),
        out=c if c.aligned and whole_rows(c) else padded_c(problem.shape),
    )


FAMILY: RouteFamily = _AsmFamily()
