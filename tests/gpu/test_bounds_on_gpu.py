"""No byte outside a tensor is read or written: NVIDIA's checker watches every access."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not here"
    ),
]

PROGRAM = Path(__file__).parent / "launched_at_odd_sizes.py"


def checked(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with every tensor in an allocation of its own, which the checker guards."""
    return subprocess.run(
        ["compute-sanitizer", "--error-exitcode", "9", sys.executable, "-P", str(PROGRAM), *words],
        env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_no_family_touches_a_byte_outside_its_tensors() -> None:
    done = checked()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(done.stdout.split(" launched")[0].split()[-1]) > 50


def test_a_write_past_the_end_is_seen() -> None:
    done = checked("past-the-end")
    assert done.returncode == 9, done.stdout[-3000:]
    assert "Invalid __global__ write" in done.stdout
