"""What every route family promises, and the plain values it is described in.

A family says *what* to launch, as data: steps with a grid, buffers, integers and constants.
Compiling for a GPU that is not there, launching on one that is, interpreting and modelling all read
the same steps, so they cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mxtune.configs.devices import Device
from mxtune.configs.routes import Config, Value
from mxtune.configs.shapes import Shape

Dtype = Literal["bf16", "fp32", "u8"]
BYTES: Mapping[str, int] = {"bf16": 2, "fp32": 4, "u8": 1}
INT32 = 2**31 - 1  # the largest offset that 32-bit arithmetic holds


@dataclass(frozen=True, slots=True)
class View:
    """How a matrix lies in memory: strides in elements, and whether it starts on 16 bytes."""

    row: int
    column: int
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """One GEMM as a family sees it: its shape, how A and C lie, and the GPU."""

    shape: Shape
    device: Device
    a: View
    c: View

    @classmethod
    def contiguous(cls, shape: Shape, device: Device) -> "Problem":
        """Return the usual case: A and C row by row, aligned."""
        return cls(shape, device, View(shape.k, 1), View(shape.n, 1))


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that a step reads or writes.

    ``a``, ``c`` and the names in ``WEIGHT`` are operands; any other name is a workspace of
    ``shape`` that the route owns and whose contents on entry mean nothing.
    """

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    aligned: bool = True
    extent: int = 0  # elements from the first to the last one used, if not the product of shape

    @property
    def elements(self) -> int:
        """Elements that offsets into it can span."""
        product = 1
        for size in self.shape:
            product *= size
        return max(product, self.extent)

    @property
    def wide(self) -> bool:
        """Whether offsets into it need 64 bits."""
        return self.elements > INT32


# The operands that come from an Mxfp4Weight: buffer name to (method, layout).
WEIGHT: Mapping[str, tuple[str, str]] = {
    "b": ("codes", "plain"),
    "b_shuffled": ("codes", "shuffled"),
    "b_scales": ("scales", "plain"),
    "b_scales_shuffled": ("scales", "shuffled"),
}

# The workspaces that an Mxfp4Activation can stand for: buffer name to layout of the scales.
A_CODES = "a_codes"
A_SCALES: Mapping[str, str] = {"a_scales": "plain", "a_scales_shuffled": "shuffled"}


# The constant that says that no scale of B is above 2: a plan assumes it, a binder knows.
SMALL_SCALES = "SMALL"


@dataclass(frozen=True, slots=True)
class Work:
    """What a step costs, for the model: per program, and bytes that must move once."""

    programs: int
    iterations: int  # of a program's main loop
    flops: float  # multiply-adds count two, of one iteration of one program
    load_bytes: float  # of one iteration of one program
    quantised: int  # values of A that one iteration of one program quantises
    multiplied: int  # FP4 values that one iteration of one program feeds to dot_scaled
    unique_bytes: float  # read and written by the whole step, each byte once


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel launch of a route."""

    name: str  # quantise, gemm, reduce
    kernel: str  # module:function under mxtune.kernels.device
    grid: tuple[int, int]
    buffers: Mapping[str, Buffer]  # by the kernel's parameter
    integers: Mapping[str, int]
    constants: Mapping[str, Value | bool]
    options: Mapping[str, int]  # num_warps, num_stages, waves_per_eu, matrix_instr_nonkdim
    work: Work


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function of AITER's, whose kernels are not ours to compile or to interpret."""

    name: str  # gemm
    function: str  # which kernels/aiter.py knows
    buffers: Mapping[str, Buffer]  # by the function's keyword
    values: Mapping[str, Value | bool | float]  # by the function's keyword, or its config's
    options: Mapping[str, int]  # num_warps and num_stages of what it launches: for the model
    work: Work
    kernels: int = 1  # that it launches, each after the one before


Grade = Literal["legal", "suspect", "illegal"]


@dataclass(frozen=True, slots=True)
class Legality:
    """Whether a config may be used for a shape, and why not."""

    grade: Grade
    reason: str = ""


LEGAL = Legality("legal")


def illegal(reason: str) -> Legality:
    """Return a refusal."""
    return Legality("illegal", reason)


@dataclass(frozen=True, slots=True)
class Tunable:
    """One setting of a family: its values, the one it has unless given, and what it does."""

    name: str
    about: str
    default: Value
    choices: tuple[Value, ...] = ()  # empty: any number of at least ``least``
    least: int = 1

    def obstacle(self, value: object) -> str | None:
        """Say why ``value`` cannot be used, or None."""
        if self.choices:
            if value not in self.choices or isinstance(value, bool | float):
                known = ", ".join(map(repr, self.choices))
                return f"{self.name} must be one of {known}, not {value!r}"
        elif not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            return f"{self.name} must be a whole number of at least {self.least}, not {value!r}"
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a bound route, in order, and whether it gives the same bits every time."""

    steps: tuple[Step | Call, ...]
    deterministic: bool = True
    workspaces: tuple[Buffer, ...] = field(init=False)

    def __post_init__(self) -> None:
        own = {
            buffer.name: buffer
            for step in self.steps
            for buffer in step.buffers.values()
            if buffer.name not in WEIGHT and buffer.name not in ("a", "c")
        }
        object.__setattr__(self, "workspaces", tuple(own.values()))

    @property
    def own(self) -> tuple[Step, ...]:
        """The steps whose kernels are ours: these can be compiled, interpreted and emulated."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    @property
    def foreign(self) -> bool:
        """Whether a step is AITER's."""
        return len(self.own) < len(self.steps)


class RouteFamily(Protocol):
    """A way to compute the GEMM and the settings it can be launched with."""

    @property
    def name(self) -> str:
        """Key of the family in routes and tables."""
        ...

    @property
    def tunables(self) -> tuple[Tunable, ...]:
        """Every setting, in the order they are shown."""
        ...

    def missing(self, device: Device) -> str | None:
        """Say what ``device`` or this machine lacks to run the family, or None."""
        ...

    def normalise(self, config: Config, shape: Shape) -> Config:
        """Return the config that launches the same thing and is written one way only."""
        ...

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """Say whether ``config`` may be used for ``shape`` on ``device``."""
        ...

    def waste(
        self, config: Config, shape: Shape, device: Device, *, won: bool = False
    ) -> str | None:
        """Say why a legal config is not worth trying for ``shape`` on ``device``, or None.

        ``won``: it has won somewhere, so that what usually does not pay may.
        """
        ...

    def fallback(self, shape: Shape) -> Config:
        """Return a config that is legal for ``shape`` on every device, not necessarily fast."""
        ...

    def plan(self, config: Config, problem: Problem) -> Plan:
        """Return the launches that ``config`` means for ``problem``."""
        ...
