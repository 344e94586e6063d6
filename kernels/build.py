"""Compile a step for any GPU, there or not, and always under the same cache key.

Everything that launches, measures or inspects a kernel compiles it here, from the step alone. So
what a compile worker left in Triton's cache is found by the process that launches it, and what is
inspected for an absent GPU is what will run on a present one.
"""

import importlib
from typing import Any

from mxtune.configs.devices import Device
from mxtune.configs.errors import MissingError
from mxtune.kernels.family import BYTES, INT32, Buffer, Step

# One binary serves every M and every split: these are never specialised on.
_DYNAMIC = frozenset({"M", "split_blocks"})
_ALIGNMENT = 16  # bytes, and the divisor that Triton specialises integers on

TRITON_RANGE = ((3, 6), (3, 9))


def require_triton() -> str:
    """Return the version of the installed Triton; raise MissingError if it is absent or unfit."""
    lowest = ".".join(map(str, TRITON_RANGE[0]))
    try:
        import triton
    except ImportError as error:
        raise MissingError(
            f"triton is not installed ({error}); install {lowest} or newer: "
            "pip install 'mxtune[cpu]'"
        ) from error
    found = str(triton.__version__)
    if version_pair(found) < TRITON_RANGE[0]:
        raise MissingError(f"triton {found} is too old; {lowest} or newer is needed")
    return found


def version_pair(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version such as ``3.9.0+git1234``."""
    major, minor, *_ = version.split("+")[0].split(".")
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def kernel_function(step: Step) -> Any:
    """Import the Triton function of a step, compiled or interpreted as this process is set up."""
    require_triton()
    module, function = step.kernel.split(":")
    return getattr(importlib.import_module(f"mxtune.kernels.device.{module}"), function)


def arguments(step: Step, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return every argument of a step's kernel by parameter; ``tensors`` are by buffer name."""
    pointers = {name: tensors[buffer.name] for name, buffer in step.buffers.items()}
    return {**pointers, **step.integers, **step.constants}


def build(step: Step, device: Device) -> Any:
    """Return the compiled kernel of ``step`` for ``device`` (triton.compiler.CompiledKernel).

    Raises whatever Triton raises: a config that does not compile is the caller's result.
    """
    function = kernel_function(step)
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    arch = int(device.arch.removeprefix("sm_")) if device.backend == "cuda" else device.arch
    target = GPUTarget(device.backend, arch, device.warp_size)
    source = ASTSource(function, *_specialisation(step, device, function.arg_names))
    # Fusing a multiply into an add rounds once less: the quantiser must round as torch does.
    options = {**step.options, "enable_fp_fusion": False}
    return triton.compile(source, target=target, options=options)


def _specialisation(
    step: Step, device: Device, names: list[str]
) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], list[list[Any]]]]:
    """Return Triton's signature, constants and attributes of a step, as its JIT chooses them."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for index, name in enumerate(names):
        if name in step.buffers:
            signature[name] = f"*{step.buffers[name].dtype}"
            facts = _pointer_facts(step.buffers[name], device)
        elif name in step.integers and not _folded(name, step.integers[name]):
            value = step.integers[name]
            signature[name] = "i32" if -INT32 <= value <= INT32 else "i64"
            divides = name not in _DYNAMIC and value % _ALIGNMENT == 0
            facts = [["tt.divisibility", _ALIGNMENT]] if divides else []
        else:
            signature[name] = "constexpr"
            constants[name] = {**step.integers, **step.constants}[name]
            facts = []
        if facts:
            attributes[(index,)] = facts
    return signature, constants, attributes


def _pointer_facts(buffer: Buffer, device: Device) -> list[list[Any]]:
    facts: list[list[Any]] = [["tt.divisibility", _ALIGNMENT]] if buffer.aligned else []
    if device.backend == "hip" and buffer.elements * BYTES[buffer.dtype] <= INT32:
        facts.append(["tt.pointer_range", 32])  # lets AMD's compiler use buffer loads
    return facts


def _folded(name: str, value: int) -> bool:
    """Whether an integer is compiled in: a unit stride, so that loads along it are wide."""
    return name.startswith("stride") and value == 1
