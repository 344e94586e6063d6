"""Run an encoded instruction through the emulator and through the manual's pseudo-code."""

import zlib

import numpy as np
from numpy.typing import NDArray
from tests.semantics_machine import EXEC, LANES, Case, Machine, fill_random
from tests.semantics_reference import expected

from mxtune.tuner.emulate.execute import build
from mxtune.tuner.emulate.instruction import decode
from mxtune.tuner.emulate.wave import blank_wave

PC = 0x100

# Hardware is this many units in the last place off, the formula of the manual is exact.
APPROXIMATE_ULP = {"V_RCP_F32": 1, "V_RCP_IFLAG_F32": 1, "V_EXP_F32": 1, "V_LOG_F32": 1}


def random_machine(case: Case, seed: int) -> Machine:
    """Fill the registers that cases use; EXEC is full, sparse or half full by turns."""
    random = np.random.default_rng([seed, zlib.crc32(case.code)])
    machine = Machine(np.zeros((512, LANES), np.uint32), [0] * 128, int(random.integers(2)), PC)
    scalar = case.encoding.startswith("SOP")
    fill_random(machine, range(24, 26) if scalar else (*range(26), *range(256, 264)), random)
    machine.s = [int(bits) for bits in machine.v[24:26].ravel()]
    if "FP4" in case.name:
        _without_nan(machine)
    half = int(random.integers(1 << 63)) << 1 | int(random.integers(2))
    sparse = half & int(random.integers(1 << 63)) & int(random.integers(1 << 63))
    full = case.name.startswith("V_PERMLANE")  # the pseudo-code does not look at EXEC
    machine.set_pair(EXEC, (1 << 64) - 1 if full else ((1 << 64) - 1, sparse, half)[seed % 3])
    return machine


def _without_nan(machine: Machine) -> None:
    """Leave no NaN or infinity, in any format: the manual does not say what FP4 makes of them."""
    halves = machine.v.view(np.uint16)
    for exponent in (0x7F80, 0x7C00):  # of bf16, of fp16
        halves[halves & exponent == exponent] ^= 0x4000
    machine.s = [bits & ~0x40004000 for bits in machine.s]


def emulated(case: Case, before: Machine) -> Machine:
    """Return what the emulator makes of the bytes of a case."""
    instruction = decode(bytes(PC) + case.code + bytes(16), PC)
    assert (instruction.name, instruction.size) == (case.name, len(case.code))
    wave = blank_wave()
    wave.v[:] = before.v
    wave.s[:] = before.s
    wave.set_exec(before.pair(EXEC))
    wave.scc, wave.pc = before.scc, PC + instruction.size
    with np.errstate(all="ignore"):
        build(instruction)(wave)
    after = Machine(wave.v, list(wave.s), int(wave.scc), wave.pc)
    after.set_pair(EXEC, wave.exec)
    return after


def difference(case: Case, seed: int) -> str:
    """Say where the two sides differ in any register, "" if they do not."""
    before = random_machine(case, seed)
    got, wanted = emulated(case, before), expected(case, before)
    if (got.s, got.scc, got.pc) != (wanted.s, wanted.scc, wanted.pc):
        changed = {n: hex(got.s[n]) for n in range(128) if got.s[n] != wanted.s[n]}
        right = {n: hex(wanted.s[n]) for n in changed}
        return f"{case}: {changed}, SCC {got.scc}, PC {got.pc:#x}; the manual says {right}"
    mine, theirs = _comparable(case, got), _comparable(case, wanted)
    allowed = APPROXIMATE_ULP.get(case.name, 0)
    if np.array_equal(mine, theirs) or _largest_distance(mine, theirs) <= allowed:
        return ""
    row, lane = (int(at) for at in np.argwhere(mine != theirs)[0])
    found = f"v{row} of lane {lane} is {mine[row, lane]:#x}, not {theirs[row, lane]:#x}"
    return f"{case}: {found}, from {_inputs(case, before, lane)}"


def _inputs(case: Case, before: Machine, lane: int) -> list[str]:
    numbers = {f: case.fields[f] + 256 * (f == "vsrc1") for f in case.bits if "src" in f}
    return [
        hex(before.operand(number, lane, case.words(field), case.literal))
        for field, number in numbers.items()
        if number not in (249, 250)
    ]


def _comparable(case: Case, machine: Machine) -> NDArray[np.uint32]:
    """Return the vector registers, every NaN of a float result made the same."""
    rows = machine.v.copy()
    form = case.formats.get("vdst", "")
    first = case.fields.get("vdst", 0)
    results = rows[first : first + case.words("vdst")]
    if form.endswith("BF16"):
        halves = results.view(np.uint16)
        halves[halves & 0x7FFF > 0x7F80] = 0x7FC0
    elif form.endswith("F32"):
        results[results & 0x7FFFFFFF > 0x7F800000] = 0x7FC00000
    return rows


def _largest_distance(got: NDArray[np.uint32], wanted: NDArray[np.uint32]) -> int:
    """Return how far apart two arrays are as fp32, in units of the last place."""
    sides = []
    for side in (got, wanted):
        size = (side & 0x7FFFFFFF).astype(np.int64)
        sides.append(np.where(side >> 31, -size - 1, size))  # -0.0 is not 0.0
    return int(np.abs(sides[0] - sides[1]).max())
