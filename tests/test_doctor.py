"""The doctor: a fact a line, a hint for each lack, and what can be done here."""

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.settings import Settings
from mxtune.tuner.doctor import Fact, examine, lines
from mxtune.tuner.machine import Machine

MI355X = load_device("gfx950")
ROCM = Machine(
    torch="2.10.0+rocm7.1",
    triton="3.9.0",
    python="3.12.3",
    driver="ROCm 7.1.25424, driver 6.16.6",
    gpus=(MI355X,),
    bus_ids=("0000:75:00.0",),
    note="",
    warnings=(),
)
NO_GPU = "no GPU is visible: torch 2.13.0+cpu is a build for CPUs"
CPU = replace(ROCM, torch="2.13.0+cpu", driver=None, gpus=(), bus_ids=(), note=NO_GPU)
BARE = replace(CPU, torch=None, triton=None, note="torch is not installed")


def facts(machine: Machine, settings: Settings | None = None) -> dict[str, Fact]:
    settings = settings or Settings(Path("/tmp"), "", {})
    return {fact.name: fact for fact in examine(settings, machine)}


def test_a_fact_is_a_line_with_its_hint() -> None:
    shown = lines((Fact("torch", "none", "install it"), Fact("python", "3.12.3")))
    assert list(shown) == ["torch: none  (install it)", "python: 3.12.3"]


def test_facts_are_plain_values() -> None:
    assert asdict(Fact("python", "3.12.3")) == {"name": "python", "value": "3.12.3", "hint": ""}


def test_a_complete_machine() -> None:
    found = facts(ROCM)
    assert found["python"] == Fact("python", "3.12.3")
    assert found["torch"] == Fact("torch", "2.10.0+rocm7.1 (ROCm build)")
    assert found["triton"] == Fact("triton", "3.9.0")
    assert found["gpu 0"] == Fact(
        "gpu 0", "AMD Instinct MI355X (gfx950, 256 CUs), 160 KiB LDS, bus 0000:75:00.0"
    )
    assert found["driver"] == Fact("driver", "ROCm 7.1.25424, driver 6.16.6")
    assert int(found["cpu cores"].value) >= 1


@pytest.mark.parametrize(
    ("machine", "measured", "offline", "interpreted", "compiled"),
    [
        (ROCM, "yes, on AMD Instinct MI355X (gfx950, 256 CUs)", "yes", "yes", "yes"),
        (CPU, "no", "yes", "yes", "yes"),
        (replace(CPU, triton="3.7.1"), "no", "no", "no", "yes"),
        (replace(CPU, triton="2.1.0"), "no", "no", "no", "no"),
        (replace(CPU, torch=None), "no", "no", "no", "yes"),
        (BARE, "no", "no", "no", "no"),
    ],
    ids=["rocm", "cpu", "no dot_scaled", "old triton", "no torch", "bare"],
)
def test_what_can_be_done_here(
    machine: Machine, measured: str, offline: str, interpreted: str, compiled: str
) -> None:
    found = facts(machine)
    assert found["sweep, measured"].value == measured
    assert found["sweep, offline for gfx950"].value == offline
    assert found["run in the interpreter"].value == interpreted
    assert found["compile for gfx950"].value == compiled
    assert all(f.hint for f in found.values() if f.value in ("no", "none") and f.name != "driver")


def test_no_gpu_says_why() -> None:  # BL-098
    hidden = replace(CPU, note="no GPU is visible; CUDA_VISIBLE_DEVICES='-1' is set")
    settings = Settings(Path("/tmp"), "", {"CUDA_VISIBLE_DEVICES": "-1"})
    found = facts(hidden, settings)
    assert found["gpu"] == Fact("gpu", "none", hidden.note)
    assert found["sweep, measured"].hint == hidden.note
    assert found["CUDA_VISIBLE_DEVICES"] == Fact("CUDA_VISIBLE_DEVICES", "'-1'", "hides every GPU")


def test_conflicting_variables_are_shown_and_warned_of() -> None:  # BL-097
    visibility = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}
    warned = replace(ROCM, warnings=("set only one",))
    found = facts(warned, Settings(Path("/tmp"), "", visibility))
    assert found["ROCR_VISIBLE_DEVICES"] == Fact("ROCR_VISIBLE_DEVICES", "'1'")
    assert found["HIP_VISIBLE_DEVICES"] == Fact("HIP_VISIBLE_DEVICES", "'1'")
    assert found["warning"] == Fact("warning", "set only one")


@pytest.mark.parametrize(
    ("version", "hint"),
    [  # BL-094
        (None, "triton is missing; 3.6 or newer is needed"),
        ("2.1.0", "triton 2.1.0 is too old; 3.6 or newer is needed"),
        ("3.6.0", "triton 3.6.0 is too old; to interpret 3.8 or newer is needed"),
        ("3.8.0", ""),
        ("3.9.0+git1234", ""),
        ("3.10.0", "newer than 3.9: untested"),
    ],
)
def test_triton_versions(version: str | None, hint: str) -> None:
    assert facts(replace(CPU, triton=version))["triton"] == Fact("triton", version or "none", hint)


def test_a_build_for_cpus_hints_at_the_others() -> None:
    assert facts(CPU)["torch"] == Fact(
        "torch", "2.13.0+cpu (CPU build)", "a CUDA or ROCm build is needed to measure"
    )


def test_a_cache_elsewhere_says_why(tmp_path: Path) -> None:  # BL-101
    settings = Settings(tmp_path / "gone", "HOME is not set; set TRITON_CACHE_DIR", {})
    found = facts(CPU, settings)
    assert found["triton cache"] == Fact(
        "triton cache", str(tmp_path / "gone"), "HOME is not set; set TRITON_CACHE_DIR"
    )
    assert found["free for the cache"].value.endswith(" GiB")


def test_a_full_disk_is_hinted_at() -> None:
    full = facts(CPU, Settings(Path("/proc"), "", {}))["free for the cache"]  # it has no room ever
    assert full == Fact(
        "free for the cache", "0.0 GiB", "under 1 GiB; set TRITON_CACHE_DIR to a larger disk"
    )


EXAMINE = """
from mxtune.configs.settings import read_settings
from mxtune.tuner.doctor import examine, lines
from mxtune.tuner.machine import probe
settings = read_settings()
print(*lines(examine(settings, probe(settings))), sep="\\n")
"""


def test_the_wrong_aiter_and_an_old_triton(tmp_path: Path) -> None:  # BL-092, BL-094
    for package, version in (("aiter", "0.13.20191203"), ("triton", "2.1.0")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f'__version__ = "{version}"\n', "utf-8")
    done = subprocess.run(
        [sys.executable, "-B", "-c", EXAMINE],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = done.stdout.splitlines()
    assert (
        f"aiter: not AMD's  (aiter found at {tmp_path / 'aiter'}, but it is not AMD's"
        " (no gemm_a4w4); install amd-aiter)"
    ) in shown
    assert "triton: 2.1.0  (triton 2.1.0 is too old; 3.6 or newer is needed)" in shown
    assert done.stderr == ""
