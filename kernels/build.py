"""Compile a step for any GPU, there or not, and always under the same cache key.

Everything that launches, measures or inspects a kernel compiles it here, from the step alone. So
what a compile worker left in Triton's cache is found by the process that launches it, and what is
inspected for an absent GPU is what will run on a present one.
"""

import importlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Value
from mxtune.kernels.family import BYTES, INT32, Step

# One binary serves every M and every split: these are never specialised on.
DYNAMIC = ("M", "split_blocks")
_ALIGNMENT = 16  # bytes, and the divisor that Triton specialises integers on

TRITON_RANGE = ((3, 6), (3, 9))
INTERPRETER_NEEDS = (3, 8)  # the first Triton whose interpreter has dot_scaled


def require_triton() -> str:
    """Return the version of the installed Triton; raise MissingError if it is absent or unfit."""
    lowest = ".".join(map(str, TRITON_RANGE[0]))
    try:
        import triton
    except ImportError as error:
        lack = error.name or "triton"
        what = "triton" if lack == "triton" else f"{lack}, which triton needs,"
        raise MissingError(
            f"{what} is not installed ({error}); install triton {lowest} or newer, and numpy"
        ) from error
    found = str(triton.__version__)
    if version_pair(found) < TRITON_RANGE[0]:
        raise MissingError(f"triton {found} is too old; {lowest} or newer is needed")
    return found


def installed_triton() -> str | None:
    """Return the version of the installed Triton, without importing it; None if there is none."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def version_pair(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version such as ``3.9.0+git1234``."""
    major, minor, *_ = version.split("+")[0].split(".")
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def interpreting() -> bool:
    """Whether Triton interprets in this process: settled when its kernels were decorated."""
    found = require_triton()
    from triton import knobs

    if not knobs.runtime.interpret:
        return False
    if version_pair(found) < INTERPRETER_NEEDS:
        needed = ".".join(map(str, INTERPRETER_NEEDS))
        raise MissingError(f"interpreting needs triton {needed} or newer, found {found}")
    return True


def kernel_function(step: Step) -> Any:
    """Import the Triton function of a step, compiled or interpreted as this process is set up."""
    require_triton()
    return _function(step.kernel)


def _function(kernel: str) -> Any:
    module, function = kernel.split(":")
    return getattr(importlib.import_module(f"mxtune.kernels.device.{module}"), function)


def arguments(step: Step, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return every argument of a step's kernel by parameter; ``tensors`` are by buffer name."""
    pointers = {name: tensors[buffer.name] for name, buffer in step.buffers.items()}
    return {**pointers, **step.integers, **step.constants}


def build(step: Step, device: Device, index: int | None = None) -> Any:
    """Return the compiled kernel of ``step`` for ``device`` (triton.compiler.CompiledKernel).

    One that is to be launched is loaded into GPU ``index`` of this process, and no other GPU can
    use it, however alike. Raises whatever Triton raises: a config that does not compile is the
    caller's result.
    """
    names: list[str] = kernel_function(step).arg_names
    parameters = tuple(_parameter(step, device, name) for name in names)
    options = tuple(sorted(options_of(step).items()))
    return _compiled(step.kernel, parameters, options, device, index)


def options_of(step: Step) -> dict[str, int]:
    """Return what the compiler is told for a step.

    Fusing a multiply into an add rounds once less: the quantiser must round as torch does.
    """
    return {**step.options, "enable_fp_fusion": False}


@dataclass(frozen=True, slots=True)
class _Parameter:
    """How Triton sees one parameter of a kernel; ``constant`` counts if the type is constexpr."""

    name: str
    type: str
    constant: Value | bool = 0
    divisible: bool = False
    in_2gb: bool = False  # lets AMD's compiler use buffer loads


def _parameter(step: Step, device: Device, name: str) -> _Parameter:
    """Specialise a parameter as Triton's JIT does."""
    if name in step.buffers:
        buffer = step.buffers[name]
        near = device.backend == "hip" and buffer.elements * BYTES[buffer.dtype] <= INT32
        return _Parameter(name, f"*{buffer.dtype}", divisible=buffer.aligned, in_2gb=near)
    value = {**step.integers, **step.constants}[name]
    if name in step.constants or (name.startswith("stride") and value == 1):
        return _Parameter(name, "constexpr", value)  # a unit stride makes loads along it wide
    number = step.integers[name]
    kind = "i32" if -INT32 <= number <= INT32 else "i64"
    return _Parameter(name, kind, divisible=name not in DYNAMIC and number % _ALIGNMENT == 0)


@lru_cache(maxsize=256)
def _compiled(
    kernel: str,
    parameters: tuple[_Parameter, ...],
    options: tuple[tuple[str, int], ...],
    device: Device,
    index: int | None,
) -> Any:
    del index  # a kernel of its own for each GPU
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    attributes = {(at,): _facts(p) for at, p in enumerate(parameters) if p.divisible or p.in_2gb}
    source = ASTSource(
        _function(kernel),
        {p.name: p.type for p in parameters},
        {p.name: p.constant for p in parameters if p.type == "constexpr"},
        attributes,
    )
    arch = int(device.arch.removeprefix("sm_")) if device.backend == "cuda" else device.arch
    target = GPUTarget(device.backend, arch, device.warp_size)
    return triton.compile(source, target=target, options=dict(options))


def _facts(parameter: _Parameter) -> list[list[Any]]:
    facts: list[list[Any]] = [["tt.divisibility", _ALIGNMENT]] if parameter.divisible else []
    return facts + ([["tt.pointer_range", 32]] if parameter.in_2gb else [])
