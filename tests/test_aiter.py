"""AITER is told from the package that has its name, without importing either."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mxtune.kernels.aiter import Aiter

ROOT = Path(__file__).parent.parent
FIND = """
import json, sys
from dataclasses import asdict
from mxtune.kernels.aiter import find_aiter
found = asdict(find_aiter())
assert "aiter" not in sys.modules
print(json.dumps(found))
"""


def find_in(tmp_path: Path) -> dict[str, object]:
    """Return what is found where only the standard library and ``tmp_path`` can be imported."""
    (tmp_path / "mxtune").symlink_to(ROOT)
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", FIND],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def record(tmp_path: Path, name: str, version: str) -> None:
    """Write what an installer leaves of a distribution."""
    folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    write(folder / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_no_aiter(tmp_path: Path) -> None:
    assert find_in(tmp_path) == {
        "path": None,
        "version": None,
        "amd": False,
        "note": "aiter is not installed; install amd-aiter",
        "commit": None,
    }


def test_the_library_of_async_iterators_is_not_amds(tmp_path: Path) -> None:  # BL-092
    folder = tmp_path / "aiter"
    write(folder / "__init__.py", '__version__ = "0.13.20191203"\n')
    record(tmp_path, "aiter", "0.13.20191203")
    assert find_in(tmp_path) == {
        "path": str(folder),
        "version": "0.13.20191203",
        "amd": False,
        "note": f"aiter found at {folder}, but it is not AMD's (no gemm_a4w4); install amd-aiter",
        "commit": None,
    }


def test_amds_is_known_by_its_gemm_and_is_not_imported(tmp_path: Path) -> None:  # BL-092
    folder = tmp_path / "aiter"
    write(folder / "__init__.py", 'raise RuntimeError("needs ROCm")\n')
    write(folder / "ops" / "gemm_op_a4w4.py")
    record(tmp_path, "amd-aiter", "0.1.5")
    assert find_in(tmp_path) == {
        "path": str(folder),
        "version": "0.1.5",
        "amd": True,
        "note": "",
        "commit": None,
    }


def test_amds_in_a_source_checkout_has_no_version(tmp_path: Path) -> None:
    write(tmp_path / "aiter" / "__init__.py")
    write(tmp_path / "aiter" / "ops" / "gemm_op_a4w4.py")
    found = find_in(tmp_path)
    assert (found["version"], found["amd"]) == (None, True)


@pytest.mark.parametrize("packed", [False, True])
def test_the_commit_of_a_checkout_is_known(tmp_path: Path, packed: bool) -> None:  # noqa: FBT001
    write(tmp_path / "aiter" / "ops" / "gemm_op_a4w4.py")
    write(tmp_path / ".git" / "HEAD", "ref: refs/heads/main\n")
    if packed:
        write(tmp_path / ".git" / "packed-refs", f"# pack-refs\n{'4e' * 20} refs/heads/main\n")
    else:
        write(tmp_path / ".git" / "refs" / "heads" / "main", f"{'4e' * 20}\n")
    assert find_in(tmp_path)["commit"] == "4e" * 20


def test_the_commit_in_a_version_is_known(tmp_path: Path) -> None:
    write(tmp_path / "aiter" / "ops" / "gemm_op_a4w4.py")
    record(tmp_path, "amd-aiter", "0.1.10.dev3+ge4048607a")
    found = find_in(tmp_path)
    assert (found["version"], found["commit"]) == ("0.1.10.dev3+ge4048607a", "e4048607a")


def test_the_commit_in_an_installers_record_is_known(tmp_path: Path) -> None:
    write(tmp_path / "aiter" / "ops" / "gemm_op_a4w4.py")
    record(tmp_path, "amd-aiter", "0.1.10")
    told = {"url": "https://github.com/ROCm/aiter", "vcs_info": {"commit_id": "ab" * 20}}
    write(tmp_path / "amd_aiter-0.1.10.dist-info" / "direct_url.json", json.dumps(told))
    assert find_in(tmp_path)["commit"] == "ab" * 20


def test_a_release_is_told_by_version_and_commit() -> None:
    known = Aiter("/x", "0.1.10", amd=True, note="", commit="ab12")
    assert known.release == "0.1.10 commit ab12"
    assert Aiter("/x", None, amd=True, note="", commit="ab12").release == "commit ab12"
    assert Aiter("/x", None, amd=True, note="").release is None
    assert Aiter("/x", "0.13", amd=False, note="another's").release is None


def test_a_single_module_is_not_amds(tmp_path: Path) -> None:  # BL-092
    write(tmp_path / "aiter.py")
    found = find_in(tmp_path)
    assert (found["path"], found["amd"]) == (str(tmp_path / "aiter.py"), False)


def test_a_folder_without_code_is_not_amds(tmp_path: Path) -> None:  # BL-092
    (tmp_path / "aiter").mkdir()
    found = find_in(tmp_path)
    assert (found["path"], found["amd"]) == (str(tmp_path / "aiter"), False)
