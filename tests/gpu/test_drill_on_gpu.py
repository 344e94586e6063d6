"""The drill on the GPU that is here, with a real illegal access and a kernel that spins."""

from collections import Counter

import psutil
import pytest

from mxtune.configs.settings import read_settings
from mxtune.tuner.drill import drill_on, faults_for, grounds, line
from mxtune.tuner.machine import probe

pytestmark = pytest.mark.gpu


def children() -> int:
    """Count the children of this process; Python keeps one to clean up after the others."""
    found = psutil.Process().children(recursive=True)
    return sum("resource_tracker" not in " ".join(child.cmdline()) for child in found)


def test_every_fault_is_survived_on_the_gpu() -> None:  # BL-064, BL-065, BL-078, BL-083
    settings = read_settings()
    _, ground = grounds(probe(settings))
    before = children()
    faults = faults_for(ground.place)
    results = list(drill_on(ground, faults, settings))
    print(*map(line, results), sep="\n")
    assert [line(drilled) for drilled in results if not drilled.passed] == []
    expected = [fault.kind for fault in faults]
    kinds = Counter(drilled.kind for drilled in results)
    assert kinds == Counter([*expected, "states", "finals", "processes"])
    reasons = {drilled.kind: drilled.reason for drilled in results}
    if ground.place == "cuda":
        assert "illegal memory access" in reasons["illegal_access"]
        assert reasons["spins"] == "no answer within 10 s"
    assert children() == before
