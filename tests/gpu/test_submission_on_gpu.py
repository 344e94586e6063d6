"""A submission of a measured table on the GPU that is here, by our harness and by the contest's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.submission_tables import H200

from mxtune.results.exports import ExportWish, export
from mxtune.tuner.problem import NEEDED

pytestmark = pytest.mark.gpu

CHECKED = ["8x2112x7168", "16x3072x1536", "64x3072x1536", "256x2880x512"]
TIMED = [
    "4x2880x512",
    "16x2112x7168",
    "32x4096x512",
    "32x2880x512",
    "64x7168x2048",
    "256x3072x1536",
]
PROBLEM = Path(__file__).parent.parent.parent / ".problem" / "mxfp4-mm"  # if somebody put it there


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("submission") / "submission.py"
    export(ExportWish(H200, "submission", file))
    return file


def verify(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "mxtune.cli", "verify", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800)


def test_its_contest_shapes_are_right_on_fresh_inputs_every_time(submission: Path) -> None:
    done = verify(str(submission), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    times = {row["shape"]: row["times_us"] for row in json.loads(done.stdout)}
    assert list(times) == CHECKED + TIMED
    assert all(times[shape] == [] for shape in CHECKED)
    assert all(3 <= len(times[shape]) <= 100 and min(times[shape]) > 0 for shape in TIMED)


def test_its_times_are_told_with_their_mean(submission: Path) -> None:
    done = verify(str(submission), "4x2880x512", "17x96x320")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, last = done.stdout.splitlines()
    assert first.startswith("4x2880x512     right  ")
    assert second.startswith("17x96x320      right  ")  # by the default
    assert " us of 2 shapes, cold caches, on " in last


def test_a_wrong_result_on_the_gpu_is_told_at_its_shape(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("def custom_kernel(data): return data[0] @ data[1].T", "utf-8")
    done = verify(str(file), "4x2880x512")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"mxtune: {file}: 4x2880x512: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(
    not all((PROBLEM / name).is_file() or (PROBLEM.parent / name).is_file() for name in NEEDED),
    reason="the contest's files are not in .problem/mxfp4-mm",
)
def test_the_contests_own_harness_accepts_it(submission: Path) -> None:
    done = verify(str(submission), "--problem", str(PROBLEM), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [report[mode]["check"] for mode in ("test", "benchmark", "leaderboard")] == ["pass"] * 3
