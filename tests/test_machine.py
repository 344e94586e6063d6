"""What this machine has: whatever is missing or breaks becomes a note, never an exception."""

import os
import pickle
import select
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mxtune.configs.settings import Settings
from mxtune.kernels.gpu import Properties, device_of
from mxtune.tuner.machine import Found, Machine, described, found_by, visibility_conflicts
from mxtune.tuner.worker import Factory

ROOT = Path(__file__).parent.parent
PROBE = """
import pickle
from mxtune.configs.settings import Settings, read_settings
from mxtune.tuner.machine import probe
print(pickle.dumps(probe(read_settings())).hex())
"""
# What one H200 reported to torch 2.11 and triton 3.6.
H200 = Properties(
    backend="cuda",
    arch="sm_90",
    name="NVIDIA H200",
    warp_size=32,
    compute_units=132,
    lds_bytes=232448,
    l2_bytes=62914560,
    clock_khz=1980000,
    memory_clock_khz=3201000,
    memory_bus_bits=6016,
    bus_id="0000:00:06.0",
)
MI300X = Properties(
    backend="hip",
    arch="gfx942:sramecc+:xnack-",
    name="AMD Instinct MI300X",
    warp_size=64,
    compute_units=304,
    lds_bytes=65536,
    l2_bytes=4194304,
    clock_khz=2100000,
    memory_clock_khz=1300000,
    memory_bus_bits=8192,
    bus_id="0000:75:00.0",
)
# A torch and a Triton that see two GPUs of AMD's, or fail as real ones do.
FAKE_TORCH = """
from types import SimpleNamespace as New
__version__ = "2.10.0+rocm7.1"
version = New(hip="7.1.25424", cuda=None)
def properties(index):
    return New(
        name="AMD Instinct MI355X", gcnArchName="gfx950:sramecc+:xnack-", warp_size=64,
        multi_processor_count=256, L2_cache_size=4194304, shared_memory_per_block=65536,
        pci_domain_id=0, pci_bus_id=0x75 + index, pci_device_id=0,
    )
def init():
    {init}
cuda = New(init=init, device_count=lambda: 2, get_device_properties=properties)
"""
FAKE_TRITON_RUNTIME = """
from types import SimpleNamespace as New
def report(index):
    {report}
driver = New(active=New(utils=New(get_device_properties=report)))
"""
LDS_REPORT = 'return {"max_shared_mem": 163840, "warpSize": 64}'


def python(
    program: str, folder: Path, *flags: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with the packages in ``folder`` before all others."""
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *flags, "-B", "-c", program],
        env=env | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def probed(folder: Path, *flags: str, **variables: str) -> Machine:
    """Return what a fresh process finds, with the packages in ``folder`` before all others."""
    done = python(PROBE, folder, *flags, **variables)
    assert done.stderr == ""
    machine = pickle.loads(bytes.fromhex(done.stdout))
    assert isinstance(machine, Machine)
    return machine


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def write_torch(folder: Path, init: str = "pass") -> None:
    write(folder / "torch.py", FAKE_TORCH.replace("{init}", init))


def write_triton(folder: Path, version: str, report: str = LDS_REPORT) -> None:
    write(folder / "triton" / "__init__.py", f'__version__ = "{version}"\n')
    write(folder / "triton" / "runtime.py", FAKE_TRITON_RUNTIME.replace("{report}", report))


def test_a_described_gpu_takes_what_it_reports() -> None:
    pcie = Properties("cuda", "sm_90", "NVIDIA H100 PCIe", 32, 114, 232448, 52428800)
    device = device_of(pcie)
    assert device.name == "NVIDIA H100 PCIe"
    assert (device.compute_units, device.l2_bytes) == (114, 52428800)
    assert (device.flush_bytes, device.launch_us) == (268435456, 5.6)  # described, not reported


def test_a_described_gpu_that_reports_nothing_is_as_described() -> None:
    device = device_of(Properties("cuda", "sm_90"))
    assert (device.name, device.compute_units) == ("NVIDIA H200", 132)
    assert (device.lds_bytes, device.l2_bytes) == (232448, 62914560)


def test_the_l2_of_one_xcd_does_not_replace_that_of_all() -> None:
    mi355x = Properties("hip", "gfx950:sramecc+:xnack-", lds_bytes=163840, l2_bytes=4194304)
    device = device_of(mi355x)
    assert (device.arch, device.l2_bytes, device.scaled_mma) == ("gfx950", 33554432, True)


def test_an_undescribed_gpu_is_described_by_its_properties() -> None:
    device = device_of(MI300X)
    assert (device.arch, device.name) == ("gfx942", "AMD Instinct MI300X")
    assert (device.backend, device.warp_size, device.scaled_mma) == ("hip", 64, False)
    assert (device.compute_units, device.lds_bytes) == (304, 65536)
    assert (device.l2_bytes, device.flush_bytes) == (4194304, 268435456)
    assert device.clock_ghz == 2.1
    assert device.bandwidth_gbs == pytest.approx(2662.4)  # 1.3 GHz, 2 transfers, 1024 bytes
    assert device.fp4_tflops == pytest.approx(653.7216)  # 304 CUs, 1024 FLOP, 2.1 GHz


def test_an_undescribed_gpu_that_reports_nothing_is_taken_for_a_small_one() -> None:
    device = device_of(Properties("cuda", "sm_80"))
    assert (device.name, device.warp_size, device.compute_units) == ("sm_80", 32, 1)
    assert (device.bandwidth_gbs, device.clock_ghz, device.lds_bytes) == (1000.0, 1.0, 49152)


def test_a_large_l2_is_flushed_twice_over() -> None:
    b200 = Properties("cuda", "sm_100", l2_bytes=150 << 20)
    assert device_of(b200).flush_bytes == 300 << 20


def test_a_machine_keeps_gpus_and_bus_ids_in_order() -> None:
    machine = described(Found("2.11.0", "3.9.0", "CUDA 13.0", (H200, MI300X)), {})
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA H200", "AMD Instinct MI300X"]
    assert machine.bus_ids == ("0000:00:06.0", "0000:75:00.0")
    assert (machine.note, machine.warnings) == ("", ())


def test_a_hidden_gpu_names_every_variable_that_is_set() -> None:  # BL-098
    found = Found("2.11.0", "3.9.0", "ROCm 7.1", lacks=("no GPU is visible",))
    machine = described(found, {"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "-1"})
    assert machine.note == (
        "no GPU is visible; HIP_VISIBLE_DEVICES='' is set; CUDA_VISIBLE_DEVICES='-1' is set"
    )


@pytest.mark.parametrize(
    "visibility",
    [
        {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"},
        {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"},
    ],
)
def test_two_variables_conflict_on_amd(visibility: dict[str, str]) -> None:  # BL-097
    (warning,) = described(Found("2.11.0", driver="ROCm 7.1"), visibility).warnings
    assert all(f"{name}={value!r}" in warning for name, value in visibility.items())
    assert "set only one" in warning
    assert described(Found("2.11.0", driver="CUDA 13.0"), visibility).warnings == ()
    assert visibility_conflicts({"HIP_VISIBLE_DEVICES": "1"}) == ()


@pytest.mark.parametrize(
    ("factory", "how"),
    [
        (os.abort, "crashed: SIGABRT"),
        (partial(partial, select.select, [], [], []), "hung: no answer within 1 s"),
        (partial(partial, len), "raised: TypeError: object of type 'NoneType' has no len()"),
    ],
    ids=["crash", "hang", "error"],
)
def test_a_probe_that_fails_is_a_note(factory: Factory, how: str, tmp_path: Path) -> None:
    found = found_by(factory, Settings(tmp_path, "", {}), 1.0)
    assert found == Found(lacks=(f"the process that looks for GPUs {how}",))


def test_a_full_temporary_folder_is_a_note(tmp_path: Path) -> None:  # BL-101
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    done = python(full + PROBE.replace("read_settings()", "Settings(None, '', {})"), tmp_path)
    note = pickle.loads(bytes.fromhex(done.stdout)).note
    assert note.startswith("no process can be started to look for GPUs: ")
    assert "No usable temporary directory found" in note


def test_this_process_never_imports_torch(tmp_path: Path) -> None:
    program = f"{PROBE}\nimport sys\nassert not {{'torch', 'triton'}} & set(sys.modules)"
    python(program, tmp_path)


def test_without_torch_and_triton(tmp_path: Path) -> None:  # BL-094
    (tmp_path / "mxtune").symlink_to(ROOT)
    machine = probed(tmp_path, "-S")
    assert (machine.torch, machine.triton, machine.driver) == (None, None, None)
    assert machine.note.startswith("torch is not installed; triton is not installed (")
    assert "3.6 or newer" in machine.note


def test_a_broken_torch_says_why(tmp_path: Path) -> None:
    write(tmp_path / "torch.py", 'raise OSError("libcudart.so.12: cannot open shared object file")')
    write_triton(tmp_path, "3.9.0")
    assert probed(tmp_path).note == (
        "torch cannot be imported: libcudart.so.12: cannot open shared object file"
    )


def test_a_missing_triton_is_named_beside_the_gpu(tmp_path: Path) -> None:  # BL-094
    write_torch(tmp_path)
    write(tmp_path / "triton.py", 'raise ImportError("stub")')
    machine = probed(tmp_path)
    assert machine.triton is None
    assert [gpu.arch for gpu in machine.gpus] == ["gfx950", "gfx950"]
    assert machine.note.startswith("triton is not installed (stub)")


def test_an_old_triton_is_named_with_what_is_needed(tmp_path: Path) -> None:  # BL-094
    write_torch(tmp_path)
    write_triton(tmp_path, "2.1.0")
    machine = probed(tmp_path)
    assert machine.triton == "2.1.0"
    assert machine.note == "triton 2.1.0 is too old; 3.6 or newer is needed"


def test_two_gpus_of_amd(tmp_path: Path) -> None:  # BL-097: name and bus id of each
    write_torch(tmp_path)
    write_triton(tmp_path, "3.9.0")
    machine = probed(tmp_path, ROCR_VISIBLE_DEVICES="0,1", HIP_VISIBLE_DEVICES="0,1")
    assert (machine.torch, machine.note) == ("2.10.0+rocm7.1", "")
    assert (machine.driver or "").startswith("ROCm 7.1.25424, driver ")
    assert [str(gpu) for gpu in machine.gpus] == ["AMD Instinct MI355X (gfx950, 256 CUs)"] * 2
    assert machine.gpus[0].lds_bytes == 163840  # Triton's figure: torch's is of older GPUs
    assert machine.bus_ids == ("0000:75:00.0", "0000:76:00.0")
    assert len(machine.warnings) == 1


def test_a_gpu_that_triton_cannot_drive(tmp_path: Path) -> None:
    write_torch(tmp_path)
    write_triton(tmp_path, "3.9.0", 'raise RuntimeError("0 active drivers ([])")')
    machine = probed(tmp_path)
    assert len(machine.gpus) == 2
    assert machine.note == "triton cannot drive the GPU: 0 active drivers ([])"


@pytest.mark.parametrize("value", ["-1", "", "7", "GPU-deadbeef", "0,0"])
def test_a_hidden_gpu_is_one_line(value: str, tmp_path: Path) -> None:  # BL-098
    write_torch(tmp_path, 'raise RuntimeError("No HIP GPUs\\n are available")')
    write_triton(tmp_path, "3.9.0")
    machine = probed(tmp_path, CUDA_VISIBLE_DEVICES=value)
    assert machine.gpus == ()
    assert machine.note == (
        f"no GPU is visible: No HIP GPUs are available; CUDA_VISIBLE_DEVICES={value!r} is set"
    )


def test_the_real_torch_with_its_gpus_hidden(tmp_path: Path) -> None:  # BL-098
    pytest.importorskip("torch")
    machine = probed(tmp_path, CUDA_VISIBLE_DEVICES="-1")
    assert machine.gpus == ()
    assert machine.note.startswith("no GPU is visible: ")
    assert machine.note.endswith("; CUDA_VISIBLE_DEVICES='-1' is set")


def test_mxtune_is_imported_without_torch_triton_or_a_gpu(tmp_path: Path) -> None:
    # BL-094, BL-095
    write(tmp_path / "torch.py", 'raise ImportError("must not be asked for")')
    write(tmp_path / "triton.py", 'raise ImportError("must not be asked for")')
    python("import mxtune, mxtune.cli, mxtune.tuner.doctor", tmp_path)
