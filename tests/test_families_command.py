"""`mxtune families`: what each family lacks here, and what a shape leaves of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.aiter_package import (
    A4W4,
    A4W4_PLACE,
    A4W4_RETURNS,
    A16,
    NEW_PLACE,
    with_path,
    write_aiter,
)

from mxtune.tuner.families import OfShape, Standing, lines, standings

PROGRAM = (sys.executable, "-P", "-c", "from mxtune.cli import app; app(prog_name='mxtune')")
HERE = ("families", "--target", "gfx950", "--json")
DECODE = ("families", "--shape", "16x2112x7168", "--target", "gfx950", "--json")
NO_GPU = "AITER needs an AMD GPU, and torch sees none"
OURS = {
    "direct",
    "fused",
    "fused_atomic",
    "fused_preshuffle",
    "fused_preshuffle_atomic",
    "splitk",
    "splitk_atomic",
}


def asked(folder: Path, *words: str) -> list[dict[str, Any]]:
    """Return what the command prints where Python finds what lies in ``folder`` first."""
    done = subprocess.run(
        (*PROGRAM, *(words or HERE)),
        env=with_path(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def lacks(found: list[dict[str, Any]]) -> dict[str, str]:
    """What AITER's families lack; ours lack nothing."""
    told = {row["family"]: row["lack"] for row in found}
    assert {name: told.pop(name) for name in OURS} == dict.fromkeys(OURS, "")
    assert set(told) == {"aiter", "aiter_a16", "aiter_preshuffle", "asm"}
    return told


def of(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (row,) = (row for row in found if row["family"] == name)
    return row


def test_without_aiter_its_families_are_counted_and_cannot_run(tmp_path: Path) -> None:
    found = asked(tmp_path, *DECODE)
    assert set(lacks(found).values()) == {"aiter is not installed; install amd-aiter"}
    asm = of(found, "asm")
    assert asm["candidates"] == 35 * 3 * 2 * 2 + 40  # kernels and launches of the quantiser
    counts = asm["of_shape"]
    assert counts["worth"] + counts["collapsed"] + sum(counts["rejected"].values()) == 460
    races = "N must be a multiple of 256: the last columns of C are not masked and race with the "
    assert counts["rejected"][f"192x256: {races}next row"] == 12
    assert counts["suspect"] == 0
    rejected = of(found, "aiter_preshuffle")["of_shape"]["rejected"]
    assert "N is no multiple of BLOCK_SIZE_N 128: it reads weights past the end" in rejected
    aiter = of(found, "aiter")["of_shape"]
    assert aiter["suspect"] == aiter["worth"] > 0  # its table may pick a tile that races


def test_the_library_of_async_iterators_is_not_taken_for_it(tmp_path: Path) -> None:  # BL-092
    write_aiter(tmp_path, {"__init__.py": '__version__ = "0.13.20191203"\n'})
    told = f"aiter found at {tmp_path / 'aiter'}, but it is not AMD's (no gemm_a4w4); "
    assert set(lacks(asked(tmp_path)).values()) == {told + "install amd-aiter"}


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ('raise RuntimeError("no ROCm:\\n  rocminfo failed")', "RuntimeError: no ROCm: rocminfo"),
        ("import hip_of_nowhere", "ModuleNotFoundError: No module named 'hip_of_nowhere'"),
        ('raise OSError("libamdhip64.so: cannot open")', "OSError: libamdhip64.so: cannot open"),
    ],
)
def test_an_aiter_that_raises_as_it_is_imported_is_a_reason(
    tmp_path: Path, statement: str, told: str
) -> None:
    write_aiter(tmp_path, {"__init__.py": statement, A4W4_PLACE: A4W4})
    (reason,) = set(lacks(asked(tmp_path)).values())
    assert reason.startswith(f"aiter cannot be imported: {told}")


def test_a_release_without_the_kernels_for_a16_has_the_others(tmp_path: Path) -> None:
    write_aiter(tmp_path, {A4W4_PLACE: A4W4 + A4W4_RETURNS})
    place = tmp_path / "aiter"
    assert lacks(asked(tmp_path)) == {
        "aiter": NO_GPU,
        "asm": NO_GPU,
        "aiter_a16": f"AITER at {place} has no gemm_a16wfp4",
        "aiter_preshuffle": f"AITER at {place} has no gemm_a16wfp4_preshuffle",
    }


def test_a_part_that_cannot_be_imported_is_a_reason(tmp_path: Path) -> None:
    write_aiter(tmp_path, {A4W4_PLACE: A4W4 + A4W4_RETURNS, NEW_PLACE: "import nothing_here"})
    told = lacks(asked(tmp_path))
    assert told["asm"] == NO_GPU
    assert told["aiter_a16"] == (
        "aiter.ops.triton.gemm.basic.gemm_a16wfp4 cannot be imported: "
        "ModuleNotFoundError: No module named 'nothing_here'"
    )


def test_an_unknown_signature_is_a_reason(tmp_path: Path) -> None:
    a4w4 = A4W4.replace("kernelName, bias", "kernel_id, bias") + A4W4_RETURNS
    a16 = A16.replace("prequant=True", "prequant").replace("config: dict = None", "tuned=None")
    write_aiter(tmp_path, {A4W4_PLACE: a4w4, NEW_PLACE: a16})
    assert lacks(asked(tmp_path)) == {
        "aiter": NO_GPU,
        "asm": "gemm_a4w4_asm of this AITER takes no kernelName",
        "aiter_a16": "gemm_a16wfp4 of this AITER takes no config",
        "aiter_preshuffle": "gemm_a16wfp4_preshuffle of this AITER takes no config",
    }


def test_a_family_that_is_missing_cannot_be_asked_for(tmp_path: Path) -> None:
    words = ("sweep", "16x64x512", "--families", "asm", "--target", "gfx950", "--out")
    done = subprocess.run(
        (*PROGRAM, *words, str(tmp_path / "out")),
        env=with_path(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "mxtune: asm: aiter is not installed; install amd-aiter\n"


def test_another_gpu_has_none_of_aiters() -> None:
    found = {standing.family: standing for standing in standings("16x64x512", "sm_90")}
    assert found["asm"].lack == "AITER's FP4 kernels are for gfx950, not sm_90"
    assert found["asm"].candidates == 1
    assert found["asm"].of_shape == OfShape(
        legal=0,
        worth=0,
        suspect=0,
        collapsed=0,
        rejected={"the kernels are code for gfx950, not sm_90": 1},
    )
    assert found["direct"].lack == ""


def test_without_a_shape_nothing_is_said_of_one() -> None:
    assert {standing.of_shape for standing in standings(None, "gfx950")} == {None}


def test_people_read_the_most_frequent_reasons() -> None:
    left = OfShape(
        9, 6, 2, 1, {"too wide": 40, "too tall": 30, "too deep": 20, "odd": 3, "even": 2}
    )
    assert list(
        lines([Standing("asm", "no AITER", 102, left), Standing("fused", "", 7, None)])
    ) == [
        "asm: 102 candidates; not here: no AITER",
        "  9 legal, 6 worth trying, 2 of them suspect; 1 launch the same as another",
        "  40 are not: too wide",
        "  30 are not: too tall",
        "  20 are not: too deep",
        "  5 are not for other reasons",
        "fused: 7 candidates; can run",
    ]
