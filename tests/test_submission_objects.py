"""What a submission compiles, by its own launcher, is the code that was checked and measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.older_triton import Compiler
from tests.submission_tables import H200, STARTING, text_of
from tests.triton_release import FOLDER

from mxtune.configs.table import RouteTable

SCRIPT = Path(__file__).parent / "submission_objects.py"
LAUNCHES = {
    "gfx950": [
        "4x2880x512 quantise",
        "16x2112x7168 fused",
        "16x2112x7168 reduce",
        "32x2880x512 fused",
        "32x4096x512 fused",
        "64x7168x2048 fused",
        "256x2880x512 quantise",
        "256x3072x1536 quantise",
    ],
    "sm_90": [
        "4x2880x512 fused",
        "16x2112x7168 quantise",
        "16x2112x7168 gemm",
        "16x2112x7168 reduce",
        "32x2880x512 fused",
        "32x4096x512 fused",
        "64x7168x2048 quantise",
        "64x7168x2048 gemm",
        "64x7168x2048 reduce",
        "256x3072x1536 quantise",
        "256x3072x1536 gemm",
        "256x3072x1536 reduce",
    ],
}


def compared(folder: Path, table: Path, arch: str, *first_on_path: Path) -> dict[str, str]:
    """Whether each launch has the code of our own build, by its shape and name."""
    file = folder / "submission.py"
    file.write_text(text_of(RouteTable.load(table)), "utf-8")
    path = os.pathsep.join([*map(str, first_on_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "0"}
    if first_on_path:
        environment["TRITON_CACHE_DIR"] = f"{FOLDER}-objects"
    command = [sys.executable, str(SCRIPT), str(file), str(table), arch]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = (line.split() for line in done.stdout.splitlines())
    found = [(f"{shape} {name}", int(count), word) for shape, name, count, word in lines]
    assert all(count > 100 for _, count, _ in found)
    return {name: word for name, _, word in found}


@pytest.mark.parametrize(("table", "arch"), [(STARTING, "gfx950"), (H200, "sm_90")], ids=str)
def test_a_submission_compiles_to_the_code_of_our_own_builds(
    table: Path, arch: str, tmp_path: Path
) -> None:
    assert compared(tmp_path, table, arch) == dict.fromkeys(LAUNCHES[arch], "same")


def test_so_it_does_with_the_triton_of_the_contest(tmp_path: Path, older_triton: Compiler) -> None:
    del older_triton  # it is installed
    found = compared(tmp_path, STARTING, "gfx950", FOLDER)
    assert found == dict.fromkeys(LAUNCHES["gfx950"], "same")
