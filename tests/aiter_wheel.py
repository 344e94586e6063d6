"""AITER's wheel, downloaded once; without a network what needs it is skipped."""

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock

CACHE = Path(__file__).parent.parent / ".cache" / "aiter"
RELEASE = "amd-aiter==0.1.7.post2.dev18"  # another one may have other objects


@cache
def aiter_wheel() -> Path:
    """Return the wheel, or skip the test that asks for it."""
    with FileLock(f"{CACHE}.lock"):  # tests run in two processes
        return _downloaded()


def _downloaded() -> Path:
    wheels = sorted(CACHE.glob("amd_aiter-*.whl"))
    if not wheels:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE)]
        try:
            subprocess.run([*command, RELEASE], check=True, capture_output=True, timeout=300)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"AITER's wheel cannot be downloaded: {error}")
        wheels = sorted(CACHE.glob("amd_aiter-*.whl"))
    return wheels[0]


def text_in_wheel(name: str) -> str:
    """Return a file of the wheel."""
    with zipfile.ZipFile(aiter_wheel()) as wheel:
        return wheel.read(name).decode("utf-8")
