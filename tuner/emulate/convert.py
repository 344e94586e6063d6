"""FP4 conversions of gfx950.

The manual's pseudo-code fixes which half becomes which nibble, which byte of the destination is
written, that the rest of it is kept, and that the scale is the exponent field of an fp32. It names
but does not define the rounding: nearest, ties to even, saturating at 6, the sign of zero kept, a
NaN giving code 0 is our reading.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.instruction import Instruction
from mxtune.tuner.emulate.operands import VectorSource, modified, vector
from mxtune.tuner.emulate.valu_tables import bf16_bits
from mxtune.tuner.emulate.wave import Lanes, Wave

U32, F32, F64 = np.uint32, np.float32, np.float64

E2M1: NDArray[np.float64] = np.array(
    [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F64
)
# The two values of a byte, the low nibble first.
E2M1_PAIRS: NDArray[np.float64] = np.stack(
    [E2M1[np.arange(256) & 15], E2M1[np.arange(256) >> 4]], 1
)

_MIDDLES = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
_TIES_UP = (0.75, 1.75, 3.5)  # midway, the even code is the upper one


def e8m0(byte: "NDArray[np.generic] | int") -> NDArray[np.float64]:
    """Return the factor that a scale byte stands for; 255 is NaN."""
    exponent = np.asarray(byte, F64)
    return np.where(exponent == 255, np.nan, np.exp2(exponent - 127))


def to_e2m1(values: Lanes, exponent_field: Lanes) -> Lanes:
    """Return the codes of fp32 values (bits) divided by 2 ** (exponent_field - 127)."""
    real = values.view(F32).astype(F64)
    size = np.abs(real) * np.exp2(127.0 - exponent_field.astype(F64))
    code = np.minimum((size[:, None] > _MIDDLES).sum(axis=1), 7)
    code = code + np.isin(size, _TIES_UP)
    sign = np.where(np.signbit(real), 8, 0)
    return np.where(np.isnan(size), 0, code | sign).astype(U32)


def _narrow_pair(instruction: Instruction) -> "tuple[VectorSource, VectorSource, VectorSource]":
    """Fetch the two values, as fp32 bits, and the scale."""
    fields = instruction.fields
    sources = [
        modified(
            vector(fields[f"src{at}"]),
            negate=fields["neg"] >> at & 1,
            absolute=fields["abs"] >> at & 1,
        )
        for at in range(3)
    ]
    if instruction.name.endswith("_F32"):
        return sources[0], sources[1], sources[2]
    packed = sources[0]
    if instruction.name.endswith("BF16"):
        return (
            lambda wave: packed(wave) << U32(16),
            lambda wave: packed(wave) & U32(0xFFFF0000),
            sources[1],
        )
    return _f16(packed, 0), _f16(packed, 1), sources[1]


def _f16(packed: VectorSource, which: int) -> VectorSource:
    def fetch(wave: Wave) -> Lanes:
        halves = np.ascontiguousarray(packed(wave)).view(np.float16).reshape(-1, 2)
        return halves[:, which].astype(F32).view(U32)

    return fetch


def _to_fp4(instruction: Instruction) -> Callable[[Wave], None]:
    low, high, scale = _narrow_pair(instruction)
    row = instruction.fields["vdst"]
    shift = U32(8 * (instruction.fields["opsel"] >> 2 & 3))

    def run(wave: Wave) -> None:
        exponent = scale(wave) >> U32(23) & U32(255)
        pair = to_e2m1(low(wave), exponent) | to_e2m1(high(wave), exponent) << U32(4)
        wave.write(row, wave.v[row] & ~(U32(255) << shift) | pair << shift)

    return run


def _from_fp4(instruction: Instruction) -> Callable[[Wave], None]:
    fields, row = instruction.fields, instruction.fields["vdst"]
    packed, scale = vector(fields["src0"]), vector(fields["src1"], instruction.literal)
    shift = U32(8 * (fields["opsel"] & 3))

    def run(wave: Wave) -> None:
        factor = e8m0(scale(wave) >> U32(23) & U32(255))
        pair = (E2M1_PAIRS[packed(wave) >> shift & U32(255)] * factor[:, None]).astype(F32)
        halves = bf16_bits(np.ascontiguousarray(pair).view(U32))
        wave.write(row, halves[:, 0] | halves[:, 1] << U32(16))

    return run


CONVERT: Mapping[str, Callable[[Instruction], Callable[[Wave], None]]] = {
    "V_CVT_SCALEF32_PK_FP4_F32": _to_fp4,
    "V_CVT_SCALEF32_PK_FP4_F16": _to_fp4,
    "V_CVT_SCALEF32_PK_FP4_BF16": _to_fp4,
    "V_CVT_SCALEF32_PK_BF16_FP4": _from_fp4,
}
