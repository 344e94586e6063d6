"""Every arithmetic instruction that kernels hold, against the pseudo-code of AMD's manual."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pseudocode import BY_NAME, Variables, evaluate
from tests.pseudocode_values import Value
from tests.semantics_cases import encodings, random_case
from tests.semantics_comparison import difference
from tinygrad.renderer.amd.dsl import s, v
from tinygrad.runtime.autogen.amd.cdna import ins
from tinygrad.runtime.autogen.amd.cdna.enum import DSOp, SOPCOp, SOPPOp, VOP1Op, VOP3POp

from mxtune.tuner.emulate.execute import build
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.instruction import decode
from mxtune.tuner.emulate.wave import Wave, blank_wave

MET = Path(__file__).parent / "data" / "instructions_met.txt"
VECTOR_SEEDS, SCALAR_SEEDS = 8, 40  # a vector instruction computes 64 times as much

# What the evaluator cannot evaluate; the tests at the end of this file try what has a result.
NOT_EVALUATED = {
    "S_NOP": "no result: its pseudo-code is an empty loop",
    "S_WAITCNT": "prose: what it waits for is tried with the memory instructions",
    "S_BARRIER": "no pseudo-code",
    "S_ENDPGM": "no pseudo-code",
    "S_SLEEP": "prose",
    "S_SETPRIO": "no pseudo-code",
    "S_SETHALT": "no pseudo-code",
    "S_INST_PREFETCH": "no pseudo-code",
    "S_ICACHE_INV": "no pseudo-code",
    "S_TTRACEDATA": "no pseudo-code",
    "S_SET_GPR_IDX_ON": "a mode that changes the operands of others",
    "S_SET_GPR_IDX_OFF": "no pseudo-code",
    "V_NOP": "no pseudo-code",
    "V_ACCVGPR_READ": "no pseudo-code",
    "V_ACCVGPR_WRITE": "no pseudo-code",
    "V_ACCVGPR_MOV_B32": "no pseudo-code",
    "V_RNDNE_F32": "the text adds 0.5 first, which rounds 0.49999997 up and makes -0.3 a 0.0",
    "V_MFMA_SCALE_F32_16X16X128_F8F6F4": "prose: D = A * B + C",
    "V_MFMA_SCALE_F32_32X32X64_F8F6F4": "prose: D = A * B + C",
    "V_MFMA_F32_16X16X128_F8F6F4": "prose: D = A * B + C",
    "V_MFMA_F32_32X32X64_F8F6F4": "prose: D = A * B + C",
    "V_MFMA_F32_16X16X32_BF16": "prose: D = A * B + C",
}


def met() -> list[tuple[str, str]]:
    lines = (line.split() for line in MET.read_text().splitlines() if not line.startswith("#"))
    return [(name, encoding) for name, encoding in lines]


def supported(name: str, encoding: str, seed: int) -> bool:
    """Whether the emulator takes the instruction with the operands that ``seed`` draws."""
    try:
        build(decode(random_case(name, encoding, seed).code, 0))
    except EmulationError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "encoding"), [pair for pair in met() if pair[0] not in NOT_EVALUATED]
)
def test_an_instruction_met_does_what_the_manual_says(name: str, encoding: str) -> None:
    seeds = SCALAR_SEEDS if encoding.startswith("SOP") else VECTOR_SEEDS
    compared = [seed for seed in range(seeds) if supported(name, encoding, seed)]
    assert compared
    for seed in compared:
        found = difference(random_case(name, encoding, seed), seed)
        assert not found, found


def test_what_else_is_supported_does_what_the_manual_says() -> None:
    known = set(met())
    others = [
        (name, encoding)
        for name, encoding in encodings()
        if (name, encoding) not in known and name not in NOT_EVALUATED
    ]
    cases = [(pair, seed) for pair in others for seed in range(3) if supported(*pair, seed)]
    found = [difference(random_case(*pair, seed), seed) for pair, seed in cases]
    assert not any(found), "\n".join(filter(None, found))
    assert len({pair for pair, _ in cases}) > 300


def encoded(kind: str, op: Any, **fields: Any) -> bytes:
    code: bytes = getattr(ins, kind)(op, **fields).to_bytes()
    return code


def run(wave: Wave, *instructions: bytes) -> None:
    code = b"".join(instructions)
    pc = 0
    while pc < len(code):
        instruction = decode(code, pc)
        pc += instruction.size
        with np.errstate(all="ignore"):
            build(instruction)(wave)


@pytest.fixture
def wave() -> Wave:
    """A wave whose register r holds 1000 r + lane in each lane."""
    made = blank_wave()
    made.v[:] = 1000 * np.arange(512)[:, None] + np.arange(64)
    return made


def test_accumulators_are_read_written_and_moved(wave: Wave) -> None:
    wave.set_exec(0b101)
    read = encoded("VOP3P", VOP3POp.V_ACCVGPR_READ, vdst=v[1], src0=v[2])
    write = encoded("VOP3P", VOP3POp.V_ACCVGPR_WRITE, vdst=v[3], src0=v[4])
    move = encoded("VOP1", VOP1Op.V_ACCVGPR_MOV_B32_E32, vdst=v[5], src0=v[6])
    run(wave, read, write, move)
    assert wave.v[1, :3].tolist() == [258000, 1001, 258002]
    assert wave.v[259, :3].tolist() == [4000, 259001, 4002]
    assert wave.v[261, :3].tolist() == [262000, 261001, 262002]


def test_the_source_of_an_accumulator_is_moved_by_an_index(wave: Wave) -> None:
    wave.set_scalar(7, 0x305)  # 5: the rest is ignored
    on = encoded("SOPC", SOPCOp.S_SET_GPR_IDX_ON, ssrc0=s[7], ssrc1=s[1])
    off = encoded("SOPP", SOPPOp.S_SET_GPR_IDX_OFF, simm16=0)
    reads = [encoded("VOP3P", VOP3POp.V_ACCVGPR_READ, vdst=v[row], src0=v[10]) for row in (1, 2)]
    run(wave, on, reads[0], off, reads[1])
    assert (wave.v[1, 0], wave.v[2, 0]) == (271000, 266000)
    assert wave.scalar(124) & 0xF0FF == 0x1005  # M0: bits 7:0 the index, 15:12 what it moves


def test_floats_are_rounded_to_even_integers(wave: Wave) -> None:
    numbers = [0.5, 1.5, 2.5, -0.5, -0.3, 0.49999997, 8388607.5, np.inf]
    wave.v[0, :8] = np.array(numbers, np.float32).view(np.uint32)
    run(wave, encoded("VOP1", VOP1Op.V_RNDNE_F32_E32, vdst=v[1], src0=v[0]))
    wanted = np.array([0, 2, 2, -0.0, -0.0, 0, 8388608, np.inf], np.float32)
    assert wave.v[1, :8].tolist() == wanted.view(np.uint32).tolist()


@pytest.mark.parametrize("exec_mask", [(1 << 64) - 1, 0xF0F0FF00FF0F0F0F])
def test_lanes_are_permuted(wave: Wave, exec_mask: int) -> None:
    wave.set_exec(exec_mask)
    wave.v[1] = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    lanes = range(64)
    registers = {
        lane: {row: Value("U", 32, int(wave.v[row, lane])) for row in range(4)} for lane in lanes
    }
    variables: Variables = {
        "VGPR": registers,
        "EXEC": Value("U", 64, exec_mask),
        "OFFSET": Value("U", 16, 8),
        **{name: Value("U", 32, at) for name, at in (("ADDR", 1), ("DATA0", 2), ("VDST", 3))},
    }
    evaluate(BY_NAME["DS_BPERMUTE_B32"], variables)
    run(wave, encoded("DS", DSOp.DS_BPERMUTE_B32, vdst=v[3], addr=v[1], data0=v[2], offset0=8))
    assert wave.v[3].tolist() == [registers[lane][3].bits for lane in lanes]


def test_what_has_no_result_changes_nothing(wave: Wave) -> None:
    before = wave.v.copy(), list(wave.s), wave.exec, wave.scc
    names = ("S_NOP", "S_SLEEP", "S_SETPRIO", "S_WAITCNT")
    run(wave, *(encoded("SOPP", SOPPOp[name], simm16=1) for name in names))
    run(wave, encoded("VOP1", VOP1Op.V_NOP_E32))
    assert np.array_equal(wave.v, before[0])
    assert (wave.s, wave.exec, wave.scc) == before[1:]
    assert not wave.done


def test_a_wave_ends(wave: Wave) -> None:
    run(wave, encoded("SOPP", SOPPOp.S_BARRIER, simm16=0))
    assert (wave.at_barrier, wave.done) == (True, False)
    run(wave, encoded("SOPP", SOPPOp.S_ENDPGM, simm16=0))
    assert wave.done
