"""A second opinion where it is at hand: KernelGuard, which the contest's server asks too."""

from pathlib import Path

import pytest
from tests.submission_tables import H200, STARTING, text_of

from mxtune.configs.table import RouteTable


@pytest.mark.parametrize("table", [STARTING, H200], ids=lambda path: path.stem)
def test_it_has_nothing_against_a_submission(table: Path) -> None:
    kernelguard = pytest.importorskip("kernelguard", reason="kernelguard is not installed")
    said = kernelguard.analyze_code(text_of(RouteTable.load(table)))
    assert said["matched_patterns"] == []
    assert said["classification"] == "valid"
    assert not said["should_filter"]
