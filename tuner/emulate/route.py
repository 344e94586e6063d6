"""Runs a route's gfx950 code on the CPU, behind the same gate as on a GPU."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxtune.configs.devices import Device
from mxtune.configs.routes import Route
from mxtune.kernels.bind import planned
from mxtune.kernels.build import build
from mxtune.kernels.family import WEIGHT, Buffer, Plan, Problem, Step
from mxtune.kernels.weight import Mxfp4Weight
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.launch import Launch, Report, run
from mxtune.tuner.emulate.memory import Memory

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class KernelObject:
    """One compiled step of a route: its ELF file and what launching it takes."""

    step: Step
    elf: bytes
    parameters: tuple[str, ...]  # in the order of the kernarg segment, constants left out
    threads: int
    lds_bytes: int


def kernel_objects(route: Route, problem: Problem) -> tuple[KernelObject, ...]:
    """Compile ``route`` for the problem's device; raises whatever Triton raises.

    Raises EmulationError for a route that calls AITER.
    """
    plan = planned(route, problem)
    if plan.foreign:
        raise EmulationError(
            f"{route.family} calls AITER, whose kernels `mxtune verify --emulate --asm` executes"
        )
    return objects_of(plan, problem.device)


def objects_of(plan: Plan, device: Device) -> tuple[KernelObject, ...]:
    """Compile the steps of a plan that are ours."""
    return tuple(_object(step, build(step, device), device.warp_size) for step in plan.own)


def _object(step: Step, kernel: Any, warp_size: int) -> KernelObject:
    signature: dict[str, str] = kernel.src.signature
    return KernelObject(
        step=step,
        elf=kernel.asm["hsaco"],
        parameters=tuple(name for name, kind in signature.items() if kind != "constexpr"),
        threads=kernel.metadata.num_warps * warp_size,
        lds_bytes=kernel.metadata.shared,
    )


class EmulatedRoute:
    """A bound route, as the gate wants it; calling it executes its kernels in the emulator.

    ``tell`` gets the step's name and the report of each kernel.
    """

    def __init__(
        self,
        objects: tuple[KernelObject, ...],
        plan: Plan,
        weight: Mxfp4Weight,
        tell: Callable[[str, Report], None],
    ) -> None:
        self._objects, self._tell = objects, tell
        self._codes = tuple(CodeObject.read(held.elf) for held in objects)
        self._weight = {
            name: getattr(weight, method)(layout) for name, (method, layout) in _used(plan)
        }
        self.workspaces = {buffer.name: _empty(buffer) for buffer in plan.workspaces}

    def __call__(self, a: "Tensor", c: "Tensor") -> None:
        """Compute ``c`` bf16 [M, N] from ``a`` bf16 [M, K], both on the CPU and contiguous."""
        tensors = {**self._weight, **self.workspaces, "a": a, "c": c}
        memory = Memory()
        addresses = {name: memory.allocate(name, _bytes(held)) for name, held in tensors.items()}
        for held, code in zip(self._objects, self._codes, strict=True):
            arguments = _kernarg(held, code, addresses)
            grid = (*held.step.grid, 1)
            launch = Launch(code, arguments, grid, held.threads, held.lds_bytes)
            self._tell(held.step.name, run(launch, memory))
        for name in ("a", "c", *self.workspaces):
            _bytes(tensors[name])[:] = memory.view(name)


def _used(plan: Plan) -> list[tuple[str, tuple[str, str]]]:
    names = {buffer.name for step in plan.steps for buffer in step.buffers.values()}
    return [(name, how) for name, how in WEIGHT.items() if name in names]


def _empty(buffer: Buffer) -> "Tensor":
    import torch

    dtypes = {"bf16": torch.bfloat16, "fp32": torch.float32, "u8": torch.uint8}
    return torch.empty(buffer.shape, dtype=dtypes[buffer.dtype])


def _bytes(tensor: "Tensor") -> Any:
    """Return the bytes of a contiguous tensor as numpy [bytes], sharing them."""
    import torch

    return tensor.view(-1).view(torch.uint8).numpy()


def _kernarg(held: KernelObject, code: CodeObject, addresses: dict[str, int]) -> bytes:
    """Lay out the arguments as the object's metadata says; hidden ones stay zero."""
    if len(code.arguments) < len(held.parameters):
        raise EmulationError(f"{code.name}: metadata of {len(code.arguments)} arguments only")
    segment = bytearray(max(code.kernarg_bytes, 8))
    for name, argument in zip(held.parameters, code.arguments, strict=False):
        buffer = held.step.buffers.get(name)
        value = addresses[buffer.name] if buffer else held.step.integers[name]
        struct.pack_into("<q" if argument.size == 8 else "<i", segment, argument.offset, value)
    return bytes(segment)
