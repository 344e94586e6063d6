"""Too few wait states are found where LLVM puts them for gfx950, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.hazard_pairs import CODE, PAIRS, UNRELATED

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from mxtune.configs.devices import load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels.build import build
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.hazards import ALL_RULES, Hazard, hazards
from mxtune.tuner.emulate.instruction import Instruction, reachable

END = "000081bf"  # s_endpgm


def found_in(*code: str) -> list[Hazard]:
    image = bytes.fromhex("".join(CODE.get(each, each) for each in code) + END)
    return hazards(reachable(image, 0))


def nops(wait_states: int) -> str:
    """Return S_NOPs; one has up to 16 wait states."""
    parts = [16] * (wait_states // 16) + [wait_states % 16]
    return "".join(f"{part - 1:02x}0080bf" for part in parts if part)


def jump_if_scc0(words: int) -> str:
    """Return S_CBRANCH_SCC0 over ``words`` of four bytes; negative ones go back."""
    return (words & 0xFFFF).to_bytes(2, "little").hex() + "84bf"


@pytest.mark.parametrize(("rule", "needed", "first", "second"), PAIRS)
def test_one_wait_state_too_few_is_found(rule: str, needed: int, first: str, second: str) -> None:
    (hazard,) = found_in(first, nops(needed - 1), second)
    at = len(bytes.fromhex(CODE[first] + nops(needed - 1)))
    assert (hazard.pc, hazard.producer_pc) == (at, 0)
    assert (hazard.rule, hazard.needed, hazard.found) == (rule, needed, needed - 1)


@pytest.mark.parametrize(("rule", "needed", "first", "second"), PAIRS)
def test_enough_wait_states_are_no_hazard(rule: str, needed: int, first: str, second: str) -> None:
    assert rule in {each.name for each in ALL_RULES}
    assert found_in(first, nops(needed), second) == []


def test_every_rule_is_tried() -> None:
    assert {rule.name for rule in ALL_RULES} == {rule for rule, *_ in PAIRS}


@pytest.mark.parametrize(("first", "second"), UNRELATED)
def test_pairs_that_need_nothing(first: str, second: str) -> None:
    assert found_in(first, second) == []


def test_a_hazard_says_what_comes_too_early_after_what() -> None:
    (hazard,) = found_in("fp4 v0.byte1", "fp4 v0.byte2")
    name = "V_CVT_SCALEF32_PK_FP4_BF16"
    assert hazard == Hazard(8, name, "partly written register", 0, 1, 0)
    assert str(hazard) == "partly written register: 0 wait states after 0x0, 1 needed"


def test_conversions_into_two_registers_by_turns_need_no_nop() -> None:
    assert found_in("fp4 v0.byte1", "fp4 v6.byte1", "fp4 v0.byte2", "fp4 v6.byte1") == []


def test_an_unrelated_instruction_is_one_wait_state() -> None:
    (hazard,) = found_in("v_readfirstlane_b32 s4, v1", "v_mov_b32 v1, v2", "v_add_f32 v2, s4, v3")
    assert (hazard.pc, hazard.producer_pc, hazard.found) == (8, 0, 1)


def test_a_later_scalar_instruction_supersedes_the_vector_one() -> None:
    assert found_in("v_readfirstlane_b32 s4, v1", "s_mov_b32 s4, s9", "v_add_f32 v2, s4, v3") == []


def test_the_last_of_two_matrix_instructions_counts() -> None:
    late = ("fp4 16x16 v[40:43]", nops(8), "store v41")
    assert found_in("fp8 32x32 v[40:55]", nops(18), *late) == []
    (hazard,) = found_in("fp4 16x16 v[40:43]", "fp4 16x16 v[40:43]", nops(7), "store v41")
    assert (hazard.pc, hazard.producer_pc) == (36, 16)


def test_the_shorter_of_two_paths_counts() -> None:
    code = ["v_readfirstlane_b32 s4, v1", jump_if_scc0(1), nops(4), "v_add_f32 v2, s4, v3"]
    (hazard,) = found_in(*code)
    assert (hazard.pc, hazard.producer_pc, hazard.found) == (12, 0, 1)


def test_each_path_has_its_own_distance() -> None:
    # the store lies on one side only, the longer side is without it
    code = [jump_if_scc0(2), "store x4", nops(1), "v_mov_b32 v3, v9"]
    (hazard,) = found_in(*code)
    assert (hazard.pc, hazard.producer_pc, hazard.found) == (16, 4, 1)


def test_a_hazard_is_found_around_a_loop() -> None:
    code = ["v_add_f32 v2, s4, v3", "v_readfirstlane_b32 s4, v1", jump_if_scc0(-3)]
    (hazard,) = found_in(*code)
    assert (hazard.pc, hazard.producer_pc, hazard.found) == (0, 4, 1)
    assert found_in(code[0], code[1], nops(1), jump_if_scc0(-4)) == []


def compiled(name: str) -> list[Instruction]:
    shape, device = Shape(64, 64, 320), load_device("gfx950")
    chosen = family(name)
    steps = chosen.plan(chosen.fallback(shape), Problem.contiguous(shape, device)).own
    code = CodeObject.read(build(steps[-1], device).asm["hsaco"])
    return reachable(code.image, code.entry)


def without(code: Sequence[Instruction], nop: Instruction) -> list[Instruction]:
    """Return the code in which the instruction before an S_NOP goes on behind it."""
    return [
        replace(each, size=each.size + 4) if each.pc + each.size == nop.pc else each
        for each in code
        if each is not nop
    ]


@pytest.mark.parametrize("name", ["direct", "fused"])
def test_llvm_leaves_no_hazard_and_none_of_its_nops_is_idle(name: str) -> None:
    code = compiled(name)
    added = [each for each in code if each.name == "S_NOP"]
    assert added
    assert hazards(code) == []
    idle = [each.pc for each in added if not hazards(without(code, each))]
    # LLVM also pads, so that a loop starts a fetch window
    assert [pc for pc in idle if (pc + 4) % 32] == []
