"""One launch of an AITER f4gemm kernel, as AITER's host code makes it.

The argument struct gives every field a slot of 16 bytes, the last one excepted. The host declares
it without an initial value and leaves some fields alone, so those hold whatever lay on its stack:
here a pattern that no kernel survives if it uses one.
Source: ROCm/aiter, csrc/py_itfs_cu/asm_gemm_a4w4.cu (KernelArgs, gemm_a4w4_asm).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mxtune.configs.shapes import Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.asm_catalogue import AsmKernel
from mxtune.kernels.tiles import ceil_div
from mxtune.kernels.weight import PLAIN, SHUFFLED
from mxtune.tuner.check import Case
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.launch import Launch
from mxtune.tuner.emulate.memory import Memory

if TYPE_CHECKING:
    from torch import Tensor

THREADS = 256
UNWRITTEN = 0x7FC1  # a bf16 NaN that no kernel computes: what the output holds before the launch

_SLOT = 16
# In the order of the struct: what the host sets, and how it is written; "" is never set.
_FIELDS = (
    ("out", "Q"),
    ("bias", "Q"),
    ("a", "Q"),
    ("b", "Q"),
    ("alpha", "f"),
    ("beta", "f"),
    ("stride_d0", ""),
    ("stride_d1", ""),
    ("stride_c0", "I"),  # elements between rows of the output, in spite of its name
    ("stride_c1", ""),
    ("stride_a0", "I"),  # FP4 elements, two a byte
    ("stride_a1", ""),
    ("stride_b0", "I"),
    ("stride_b1", ""),
    ("m", "I"),
    ("n", "I"),
    ("k", "I"),
    ("scale_a", "Q"),
    ("scale_b", "Q"),
    ("stride_scale_a0", "I"),  # bytes, of the padded rows
    ("stride_scale_a1", ""),
    ("stride_scale_b0", "I"),
    ("stride_scale_b1", ""),
    ("log2_k_split", "i"),
)
ARGUMENT_BYTES = _SLOT * (len(_FIELDS) - 1) + 4
_STACK = b"\xa5"  # what the host's stack holds where it writes nothing
_K_STEP = 256  # a split is a multiple of this


@dataclass(frozen=True, slots=True)
class AsmOptions:
    """What a caller of ``gemm_a4w4_asm`` may choose besides the operands."""

    alpha: float = 1.0
    beta: float = 0.0  # with a bias fp32 [M, N] of ones unless 0
    log2_k_split: int = 0
    row_stride: int = 0  # elements between rows of the output; 0 for N
    scale_padding: int = 0  # the byte that fills the padding of both operands' scales


PLAIN_CALL = AsmOptions()


@dataclass(frozen=True, slots=True)
class AsmLaunch:
    """A launch that is ready to run, and where its output will be."""

    launch: Launch
    memory: Memory
    shape: Shape
    row_stride: int

    def output(self) -> NDArray[np.uint16]:
        """Return the bits of C, bf16 [M, row stride], as they are now."""
        return self.memory.view("out").view(np.uint16).reshape(self.shape.m, self.row_stride)


def asm_arguments(values: Mapping[str, int | float]) -> bytes:
    """Write the struct; what ``values`` does not name holds what lay on the stack."""
    written = bytearray(_STACK * ARGUMENT_BYTES)
    for slot, (name, kind) in enumerate(_FIELDS):
        if kind:
            struct.pack_into(f"<{kind}", written, slot * _SLOT, values[name])
    return bytes(written)


def k_share(kernel: AsmKernel, shape: Shape, log2_k_split: int) -> int:
    """Return how much of K one workgroup takes."""
    if not kernel.split_k or not log2_k_split:
        return shape.k
    return layouts.round_up(shape.k >> log2_k_split, _K_STEP)


def asm_grid(kernel: AsmKernel, shape: Shape, log2_k_split: int) -> tuple[int, int, int]:
    """Return the workgroups in x (along N), y (along M) and z (along K)."""
    return (
        ceil_div(shape.n, kernel.tile_n),
        ceil_div(shape.m, kernel.tile_m),
        ceil_div(shape.k, k_share(kernel, shape, log2_k_split)),
    )


def asm_launch(
    kernel: AsmKernel, code: CodeObject, case: Case, options: AsmOptions = PLAIN_CALL
) -> AsmLaunch:
    """Put the operands of ``case`` into memory as the kernel wants them, and set up its launch.

    The output has exactly M rows. It is poisoned before, or zeroed where the host would: for a
    split. ConfigError if the weights have no shuffled layout.
    """
    shape = Shape(case.a.shape[0], case.weight.n, case.weight.k)
    memory = Memory()
    row_stride = options.row_stride or shape.n
    values = _operands(kernel, case, options, memory)
    # the host sets it only for kernels that the catalogue marks
    split = options.log2_k_split if kernel.split_k else 0
    before = 0 if split else UNWRITTEN
    values["out"] = memory.allocate("out", np.full((shape.m, row_stride), before, np.uint16))
    values |= {"m": shape.m, "n": shape.n, "k": shape.k, "log2_k_split": split}
    values |= {"stride_a0": shape.k, "stride_b0": shape.k, "stride_c0": row_stride}
    launch = Launch(
        code=code,
        arguments=asm_arguments(values | {"alpha": options.alpha, "beta": options.beta}),
        grid=asm_grid(kernel, shape, split),
        threads=THREADS,
    )
    return AsmLaunch(launch, memory, shape, row_stride)


def _operands(
    kernel: AsmKernel, case: Case, options: AsmOptions, memory: Memory
) -> dict[str, int | float]:
    """Allocate A, B, their scales and the bias; return what the struct says of them."""
    codes, scales = formats.quantise(case.a, case.weight.rule)
    weights = case.weight.codes(SHUFFLED if kernel.shuffled_weights else PLAIN)
    scale_a = _padded(scales, options.scale_padding)
    scale_b = _padded(case.weight.scales(PLAIN), options.scale_padding)
    bias = np.ones(tuple(case.expected.shape), np.float32)
    return {
        "a": memory.allocate("a", codes.numpy()),
        "b": memory.allocate("b", weights.numpy()),
        "scale_a": memory.allocate("scale_a", scale_a.numpy()),
        "scale_b": memory.allocate("scale_b", scale_b.numpy()),
        "stride_scale_a0": scale_a.shape[1],
        "stride_scale_b0": scale_b.shape[1],
        "bias": memory.allocate("bias", bias) if options.beta else 0,
    }


def _padded(scales: "Tensor", padding: int) -> "Tensor":
    """Shuffle scale bytes, with ``padding`` where AITER leaves what it finds."""
    rows, columns = scales.shape
    whole = scales.new_full(layouts.padded_scales(rows, columns), padding)
    whole[:rows, :columns] = scales
    return layouts.shuffle_scales(whole)
