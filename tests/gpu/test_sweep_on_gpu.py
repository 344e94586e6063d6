"""The measured sweep, whole, through the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mxtune.configs.evidence import Measured
from mxtune.configs.table import RouteTable
from mxtune.tuner.search import EFFORTS

pytestmark = pytest.mark.gpu


def mxtune(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "mxtune.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


def test_a_measured_sweep_chooses_what_was_right_and_fast(tmp_path: Path) -> None:
    first = mxtune(
        "sweep", "16x256x512", "3x70x96", "--max-candidates", "6", "--out", str(tmp_path)
    )
    assert "measured cold eager on" in first.stderr
    table = RouteTable.load(tmp_path / "routes.json")
    assert [entry.shape for entry in table.routes] == [(3, 70, 96), (16, 256, 512)]
    for entry in table.routes:
        evidence = entry.evidence
        assert isinstance(evidence, Measured)
        assert evidence.error.worst <= 1
        assert evidence.floor_us is not None
        assert evidence.median_us > evidence.floor_us
        assert evidence.rounds == EFFORTS["default"].final_rounds

    again = mxtune(
        "sweep", "16x256x512", "3x70x96", "--max-candidates", "6", "--out", str(tmp_path)
    )
    assert "12 known from" in again.stderr
    assert RouteTable.load(tmp_path / "routes.json").routes == table.routes


def test_run_times_a_route_and_reports_the_floor(tmp_path: Path) -> None:
    del tmp_path
    report = json.loads(mxtune("run", "16x2112x7168", "--family", "fused", "--json").stdout)
    timing = report["timing"]
    assert 0 < timing["floor_us"] < timing["median_us"]
    assert 0 < timing["roofline_share"] <= 1
    assert report["error"]["worst"] <= 1
