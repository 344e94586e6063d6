"""Twelve kinds of faults, planted in machine code that is right, are each found and named."""

import pytest

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")
pytest.importorskip("elftools", reason="the emulator reads ELF files with pyelftools")

from tests.planted import FAULTS, Fault
from tests.planted_code import CONFIGS, Outcome, compiled, outcome
from tests.planted_quantiser import assembled, lines, quantised

CLEAN = Outcome(frozenset(), ())
ASKED_FOR = {
    "wrong nibble",
    "wrong byte select",
    "scale byte off by one",
    "missing barrier",
    "missing wait",
    "mask off by one",
    "hazard pair",
    "weight rows read past the end",
    "LDS read before write",
    "swapped scale registers",
    "strides in bytes",
    "wrong accumulator init",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_route_as_it_is_compiled_is_clean(name: str) -> None:
    assert outcome(compiled(name)) == CLEAN


def test_the_hand_written_quantiser_is_clean() -> None:
    assert quantised(assembled(*lines())) == CLEAN


def test_every_kind_of_fault_is_planted() -> None:
    assert {fault.name for fault in FAULTS} == ASKED_FOR


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}: {fault.where}")
def test_a_planted_fault_is_found_and_named(fault: Fault) -> None:
    found = fault.plant()
    assert found.kinds == fault.kinds, found.texts
    assert found.text_with(fault.words), found.texts
