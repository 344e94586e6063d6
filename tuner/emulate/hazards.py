"""Finds too few wait states in gfx950 code, where the hardware does not wait by itself.

Nothing runs: from every instruction the walk goes back over all paths that lead to it. As in
LLVM, an instruction is one wait state and S_NOP as many as it says. Of several that write one
register the last counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mxtune.tuner.emulate.hazard_rules import RULES, Rule
from mxtune.tuner.emulate.instruction import Instruction, successors
from mxtune.tuner.emulate.matrix_hazards import MATRIX_RULES

ALL_RULES: tuple[Rule, ...] = RULES + MATRIX_RULES

# What is still looked for on a path: rules by their place in ALL_RULES, with registers.
_Wanted = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hazard:
    """An instruction at ``pc`` that comes too early after the one at ``producer_pc``."""

    pc: int
    name: str
    rule: str
    producer_pc: int
    needed: int  # wait states between the two
    found: int

    def __str__(self) -> str:
        return (
            f"{self.rule}: {self.found} wait states after {self.producer_pc:#x}, "
            f"{self.needed} needed"
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction as the walk meets it."""

    instruction: Instruction
    produced: tuple[int, ...]  # a set of registers for each rule
    touched: int  # all of them together, and what it writes
    wait_states: int


def hazards(code: Sequence[Instruction]) -> list[Hazard]:
    """Return every violated rule in ``code``, what `reachable` returns, by address.

    An instruction is reported once for each rule, with the producer that lacks most.
    """
    steps = {instruction.pc: _step(instruction) for instruction in code}
    before = _predecessors(code)
    found: list[Hazard] = []
    for instruction in code:
        consumed = ((at, rule.consumes(instruction)) for at, rule in enumerate(ALL_RULES))
        wanted = tuple((at, registers) for at, registers in consumed if registers)
        if wanted:
            found += _worst(_violations(instruction, wanted, steps, before))
    return found


def wait_states(instruction: Instruction) -> int:
    """Return how many wait states an instruction is for those around it."""
    return (instruction.fields["simm16"] & 15) + 1 if instruction.name == "S_NOP" else 1


def _step(instruction: Instruction) -> _Step:
    produced = tuple(rule.produces(instruction) for rule in ALL_RULES)
    touched = instruction.writes
    for registers in produced:
        touched |= registers
    return _Step(instruction, produced, touched, wait_states(instruction))


def _predecessors(code: Sequence[Instruction]) -> dict[int, list[int]]:
    before: dict[int, list[int]] = {instruction.pc: [] for instruction in code}
    for instruction in code:
        for pc in successors(instruction):
            before.setdefault(pc, []).append(instruction.pc)
    return before


def _violations(
    consumer: Instruction,
    wanted: _Wanted,
    steps: Mapping[int, _Step],
    before: Mapping[int, Sequence[int]],
) -> Iterator[Hazard]:
    """Walk back from one instruction until no rule reaches that far."""
    nearest: dict[tuple[int, _Wanted], int] = {}
    paths = [(pc, 0, wanted) for pc in before[consumer.pc]]
    while paths:
        pc, distance, wanted = paths.pop()
        if nearest.get((pc, wanted), distance + 1) <= distance:
            continue
        nearest[pc, wanted] = distance
        step = steps[pc]
        if any(step.touched & registers for _, registers in wanted):
            yield from _at_step(consumer, step, distance, wanted)
            wanted = _without(step, wanted)
        distance += step.wait_states
        wanted = tuple(each for each in wanted if ALL_RULES[each[0]].wait_states > distance)
        if wanted:
            paths += [(previous, distance, wanted) for previous in before[pc]]


def _at_step(
    consumer: Instruction, step: _Step, distance: int, wanted: _Wanted
) -> Iterator[Hazard]:
    producer = step.instruction
    for at, registers in wanted:
        if step.produced[at] & registers:
            rule = ALL_RULES[at]
            needed = rule.needed(producer, consumer)
            if distance < needed:
                yield Hazard(consumer.pc, consumer.name, rule.name, producer.pc, needed, distance)


def _without(step: _Step, wanted: _Wanted) -> _Wanted:
    """Return what is left to look for: whoever writes a register hides those before it."""
    written = step.instruction.writes
    left = ((at, registers & ~(step.produced[at] | written)) for at, registers in wanted)
    return tuple((at, registers) for at, registers in left if registers)


def _worst(violations: Iterator[Hazard]) -> list[Hazard]:
    worst: dict[str, Hazard] = {}
    for hazard in violations:
        other = worst.get(hazard.rule)
        if other is None or hazard.needed - hazard.found > other.needed - other.found:
            worst[hazard.rule] = hazard
    return list(worst.values())
