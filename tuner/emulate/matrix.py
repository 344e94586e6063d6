"""Matrix instructions: D = A Bᵀ + C over the registers of a whole wave, whatever EXEC says.

In a tile of side n, lane l holds row l % n of A and of B, and of K the group l // n. Lane l holds
column l % n of D, whose rows come in fours: register r is row 4 (l // n) + r % 4, plus four times
the number of groups for each four registers. A scale byte belongs to its lane's row and to the 32
values of K that the lane holds. Products are summed in fp64 and rounded once: the order in which
hardware adds is not public, so results are compared with a tolerance.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.convert import E2M1_PAIRS, e8m0
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import VGPR, Instruction
from mxtune.tuner.emulate.operands import constant, vector
from mxtune.tuner.emulate.valu_tables import bits, floats
from mxtune.tuner.emulate.wave import LANE, LANES, M32, Wave

U32, F32, F64 = np.uint32, np.float32, np.float64
Values = NDArray[np.float64]
Operand = Callable[[Wave], Values]

_NAME = re.compile(r"V_MFMA_(SCALE_)?F32_(\d+)X\d+X(\d+)_(\w+)")
_FP4 = 4  # the format code of an operand
_FP4_REGISTERS = 4  # 32 values


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a matrix instruction: ``side`` x ``side``, ``depth`` values of K."""

    side: int
    depth: int

    @property
    def groups(self) -> int:
        """Over how many groups of lanes K is spread."""
        return LANES // self.side

    @property
    def registers(self) -> int:
        """Registers of C and D."""
        return self.side * self.side // LANES

    def gathered(self, lanes: Values) -> Values:
        """Turn [64, values a lane] into [side, depth]."""
        shape = (self.groups, self.side, lanes.shape[1])
        return lanes.reshape(shape).transpose(1, 0, 2).reshape(self.side, self.depth)

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and column of D for each register and lane, both [registers, 64]."""
        register = np.arange(self.registers)[:, None]
        row = 4 * (LANE // self.side) + register % 4 + 4 * self.groups * (register // 4)
        return row, np.broadcast_to(LANE % self.side, row.shape)


def _build(instruction: Instruction) -> Callable[[Wave], None]:
    match = _NAME.fullmatch(instruction.name)
    if match is None:
        raise EmulationError(f"{instruction.name} is not known")
    tile = Tile(int(match[2]), int(match[3]))
    a, b = (_side(instruction, tile, at, match[4]) for at in (0, 1))
    rows, columns = tile.places()
    base = VGPR * instruction.fields["acc_cd"]
    to = instruction.fields["vdst"] + base
    c = _addend(instruction, tile, base)

    def run(wave: Wave) -> None:
        product = a(wave) @ b(wave).T
        total = (c(wave) + product[rows, columns]).astype(F32)
        wave.v[to : to + tile.registers] = bits(total)

    return run


def _addend(
    instruction: Instruction, tile: Tile, base: int
) -> "Callable[[Wave], NDArray[np.float32]]":
    number = instruction.fields["src2"]
    if number >= VGPR:
        row = number - VGPR + base
        return lambda wave: floats(wave.v[row : row + tile.registers])
    fixed = constant(number, 0)
    if fixed is None:
        raise EmulationError(f"{instruction.name} with operand {number} as C")
    value = np.array([fixed & M32], U32).view(F32)
    return lambda _: value


def _side(instruction: Instruction, tile: Tile, at: int, kind: str) -> Operand:
    fields = instruction.fields
    row = fields[f"src{at}"] - VGPR + VGPR * (fields["acc"] >> at & 1)
    if kind in ("BF16", "F16"):
        return _sixteen_bit(tile, row, kind)
    if kind != "F8F6F4" or fields["blgp" if at else "cbsz"] != _FP4:
        raise EmulationError(f"{instruction.name} on a format other than FP4")
    unscaled = _fp4(row)
    if instruction.encoding != "VOP3PX2":
        return lambda wave: tile.gathered(unscaled(wave))
    factor = _scale(fields, at)
    return lambda wave: tile.gathered(unscaled(wave) * factor(wave))


def _fp4(row: int) -> Operand:
    """Fetch 32 FP4 values a lane, [64, 32]."""

    def fetch(wave: Wave) -> Values:
        packed = np.ascontiguousarray(wave.v[row : row + _FP4_REGISTERS].T).view(np.uint8)
        return E2M1_PAIRS[packed].reshape(LANES, -1)

    return fetch


def _scale(fields: Mapping[str, int], at: int) -> Operand:
    """Fetch a lane's scale, [64, 1]; op_sel and op_sel_hi choose the byte of the register."""
    byte = (fields["opsel"] >> at & 1) + 2 * (fields["opsel_hi"] >> at & 1)
    fetch, shift = vector(fields[f"scale_src{at}"]), U32(8 * byte)
    return lambda wave: e8m0(fetch(wave) >> shift & U32(255))[:, None]


def _sixteen_bit(tile: Tile, row: int, kind: str) -> Operand:
    count = tile.depth // tile.groups // 2  # registers

    def fetch(wave: Wave) -> Values:
        packed = np.ascontiguousarray(wave.v[row : row + count].T)
        if kind == "F16":
            return tile.gathered(packed.view(np.float16).astype(F64))
        halves = packed.view(np.uint16).astype(U32) << U32(16)
        return tile.gathered(halves.view(F32).astype(F64))

    return fetch


_KNOWN = (
    "V_MFMA_SCALE_F32_16X16X128_F8F6F4",
    "V_MFMA_SCALE_F32_32X32X64_F8F6F4",
    "V_MFMA_F32_16X16X128_F8F6F4",
    "V_MFMA_F32_32X32X64_F8F6F4",
    "V_MFMA_F32_16X16X32_BF16",
    "V_MFMA_F32_16X16X32_F16",
    "V_MFMA_F32_32X32X16_BF16",
    "V_MFMA_F32_32X32X16_F16",
)
MATRIX: Mapping[str, Callable[[Instruction], Callable[[Wave], None]]] = dict.fromkeys(
    _KNOWN, _build
)
