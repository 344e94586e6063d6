"""SDWA and DPP: parts of registers, and operands from other lanes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import VGPR
from mxtune.tuner.emulate.operands import VectorSource, modified, vector
from mxtune.tuner.emulate.wave import LANE, Lanes, Mask, Wave

U32 = np.uint32
WHOLE = 6  # the selector of a whole register; 0-3 are bytes, 4 and 5 halves
_SIGN_EXTEND, _PRESERVE = 1, 2


def part_bits(selector: int) -> tuple[int, int]:
    """Return where a selected part of a register begins and how many bits it has."""
    if selector > WHOLE:
        raise EmulationError(f"SDWA selector {selector}")
    if selector == WHOLE:
        return 0, 32
    return (8 * selector, 8) if selector < 4 else (16 * (selector - 4), 16)


def part(source: VectorSource, selector: int, *, sign: int) -> VectorSource:
    """Fetch the selected part of an operand, extended to 32 bits."""
    start, width = part_bits(selector)
    if width == 32:
        return source
    mask, spare = U32((1 << width) - 1), np.int32(32 - width)

    def fetch(wave: Wave) -> Lanes:
        low = source(wave) >> U32(start) & mask
        if not sign:
            return low
        return ((low << U32(spare)).view(np.int32) >> spare).view(U32)

    return fetch


def sdwa_source(fields: Mapping[str, int], at: int) -> VectorSource:
    """Fetch operand 0 or 1 of an SDWA instruction with its selector and modifiers."""
    base = 0 if fields[f"s{at}"] else VGPR
    chosen = part(
        vector(fields[f"vsrc{at}"] + base),
        fields[f"src{at}_sel"],
        sign=fields[f"src{at}_sext"],
    )
    return modified(chosen, negate=fields[f"src{at}_neg"], absolute=fields[f"src{at}_abs"])


def sdwa_store(wave: Wave, fields: Mapping[str, int], value: Lanes) -> None:
    """Put a result into the selected part of its register; what else it holds is set or kept."""
    start, width = part_bits(fields["dst_sel"])
    row = fields["vdst"]
    if width == 32:
        wave.write(row, value)
        return
    mask = ((1 << width) - 1) << start
    placed = value << U32(start) & U32(mask)
    if fields["dst_unused"] == _PRESERVE:
        placed = placed | wave.v[row] & U32(~mask & 0xFFFFFFFF)
    elif fields["dst_unused"] == _SIGN_EXTEND:
        spare = np.int32(32 - start - width)
        placed = ((placed << U32(spare)).view(np.int32) >> spare).view(U32)
    wave.write(row, placed)


def dpp_lanes(control: int) -> NDArray[np.int64]:
    """Return which lane each lane reads from, -1 where it would be outside its row."""
    row, place = LANE // 16 * 16, LANE % 16
    amount = control & 15
    if control < 0x100:  # quad_perm
        return LANE // 4 * 4 + (control >> 2 * (LANE % 4) & 3)
    if 0x101 <= control <= 0x10F:  # row_shl
        return np.where(place + amount > 15, -1, LANE + amount)
    if 0x111 <= control <= 0x11F:  # row_shr
        return np.where(place < amount, -1, LANE - amount)
    if 0x121 <= control <= 0x12F:  # row_ror
        return row + (place - amount) % 16
    if 0x150 <= control <= 0x15F:  # row_newbcast
        return row + amount
    return _fixed_pattern(control)


def _fixed_pattern(control: int) -> NDArray[np.int64]:
    row, place = LANE // 16 * 16, LANE % 16
    patterns = {
        0x130: np.where(LANE == 63, -1, LANE + 1),  # wave_shl
        0x134: (LANE + 1) % 64,  # wave_rol
        0x138: LANE - 1,  # wave_shr
        0x13C: (LANE - 1) % 64,  # wave_ror
        0x140: row + 15 - place,  # row_mirror
        0x141: LANE // 8 * 8 + 7 - LANE % 8,  # row_half_mirror
        0x142: np.where(row == 0, -1, row - 1),  # row_bcast:15
        0x143: np.where(LANE < 32, -1, 31),  # row_bcast:31
    }
    if control not in patterns:
        raise EmulationError(f"DPP control {control:#x}")
    return patterns[control]


class DppSource:
    """Operand 0 of a DPP instruction, and which lanes get a result."""

    def __init__(self, fields: Mapping[str, int]) -> None:
        self._row = fields["vsrc0"]
        self._from = dpp_lanes(fields["dpp"])
        self._inside = self._from >= 0
        self._source = np.maximum(self._from, 0)
        self._zeros = bool(fields["bc"])  # an operand from nowhere is 0 instead of no result
        enabled = fields["row_mask"] >> (LANE // 16) & fields["bank_mask"] >> (LANE % 16 // 4) & 1
        self._enabled: Mask = enabled.astype(np.bool_)

    def __call__(self, wave: Wave) -> tuple[Lanes, Mask]:
        """Return the operand and the lanes that are written."""
        there = self._inside & wave.active[self._source]
        value = np.where(there, wave.v[self._row][self._source], U32(0))
        written = wave.active & self._enabled
        return value, written if self._zeros else written & there
