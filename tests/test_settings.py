"""The environment: visibility variables, and a cache that works wherever HOME and TMPDIR point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.settings import Settings, for_child, read_settings

READ = """
import json
from mxtune.configs.errors import ConfigError
from mxtune.configs.settings import read_settings
try:
    settings = read_settings()
    print(json.dumps([str(settings.triton_cache), settings.triton_cache_note]))
except ConfigError as error:
    print(json.dumps(["refused", str(error)]))
"""
# What a full disk does: files can be made, nothing can be written into them.
NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
SPARE = f"mxtune-triton-{os.getuid()}"


def read_in(folder: Path, program: str = READ, **variables: str) -> tuple[str, str]:
    """Return cache and note as a process in ``folder`` with exactly ``variables`` finds them."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    cache, note = json.loads(done.stdout)
    return cache, note


@pytest.fixture
def plain_file(tmp_path: Path) -> Path:
    """Return a file where a folder is expected: nobody can write below it, not even root."""
    path = tmp_path / "plain"
    path.write_text("", "utf-8")
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return an empty current folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_the_cache_is_where_triton_looks(tmp_path: Path) -> None:
    settings = read_settings({"HOME": str(tmp_path)})
    assert settings.triton_cache == tmp_path / ".triton" / "cache"
    assert settings.triton_cache_note == ""
    assert settings.triton_cache.is_dir()


def test_the_cache_asked_for_comes_first(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    settings = read_settings({"HOME": str(tmp_path), "TRITON_CACHE_DIR": str(asked)})
    assert settings.triton_cache == asked
    assert not (tmp_path / ".triton").exists()


def test_triton_home_comes_before_home(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    settings = read_settings({"HOME": str(tmp_path), "TRITON_HOME": str(tmp_path / "disk")})
    assert settings.triton_cache == tmp_path / "disk" / ".triton" / "cache"


def test_an_absent_home_is_not_made(tmp_path: Path, work: Path) -> None:  # BL-101
    home = tmp_path / "absent"
    cache, note = read_in(work, HOME=str(home), TMPDIR=str(tmp_path))
    assert cache == str(tmp_path / SPARE)
    assert note == (
        f"{home}/.triton/cache cannot be written (HOME={home} is not a folder);"
        " set TRITON_CACHE_DIR"
    )
    assert not home.exists()


def test_without_home_the_cache_is_temporary(tmp_path: Path, work: Path) -> None:  # BL-101
    cache, note = read_in(work, TMPDIR=str(tmp_path))
    assert cache == str(tmp_path / SPARE)
    assert note == "~/.triton/cache cannot be written (HOME is not set); set TRITON_CACHE_DIR"
    assert not Path("/nonexistent").exists()


def test_a_home_that_cannot_be_written(tmp_path: Path, plain_file: Path, work: Path) -> None:
    # BL-101: as in a read-only home, .triton cannot be made
    (home := tmp_path / "home").mkdir()
    (home / ".triton").symlink_to(plain_file)
    cache, note = read_in(work, HOME=str(home), TMPDIR=str(tmp_path))
    assert cache == str(tmp_path / SPARE)
    assert note.startswith(f"{home}/.triton/cache cannot be written (")
    assert note.endswith("); set TRITON_CACHE_DIR")


def test_the_temporary_cache_is_private(tmp_path: Path, work: Path) -> None:
    cache, _ = read_in(work, TMPDIR=str(tmp_path))
    assert Path(cache).stat().st_mode & 0o777 == 0o700


def test_an_absent_tmpdir_is_passed_over(tmp_path: Path, plain_file: Path, work: Path) -> None:
    # BL-101
    absent = tmp_path / "absent"
    cache, _ = read_in(work, HOME=str(plain_file), TMPDIR=str(absent))
    assert Path(cache).name == SPARE
    assert not absent.exists()
    assert list(work.iterdir()) == []


def test_xdg_cache_home_is_not_asked(tmp_path: Path, plain_file: Path, work: Path) -> None:
    # BL-101
    (home := tmp_path / "home").mkdir()
    cache, note = read_in(work, HOME=str(home), XDG_CACHE_HOME=str(plain_file))
    assert (cache, note) == (str(home / ".triton" / "cache"), "")
    assert list(work.iterdir()) == []


def test_no_room_anywhere_names_both_variables(tmp_path: Path, work: Path) -> None:  # BL-101
    (home := tmp_path / "home").mkdir()
    cache, note = read_in(work, f"{NO_ROOM}\n{READ}", HOME=str(home), TMPDIR=str(tmp_path))
    assert cache == "refused"
    assert f"{home}/.triton/cache cannot be written (File too large)" in note
    assert "set TRITON_CACHE_DIR, or TMPDIR to a folder with room" in note
    assert list(work.iterdir()) == []


def test_a_file_in_place_of_the_temporary_cache(tmp_path: Path, work: Path) -> None:  # BL-101
    (tmp_path / SPARE).write_text("", "utf-8")
    cache, note = read_in(work, TMPDIR=str(tmp_path))
    assert cache == "refused"
    assert note.endswith(f"set TRITON_CACHE_DIR; nor can {tmp_path / SPARE} (File exists)")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_temporary_cache_of_someone_else_is_refused(tmp_path: Path, work: Path) -> None:
    # BL-101: Triton would load the code that someone else left there
    (theirs := tmp_path / SPARE).mkdir()
    os.chown(theirs, 12345, 12345)
    cache, note = read_in(work, TMPDIR=str(tmp_path))
    assert cache == "refused"
    assert note.endswith(f"nor can {theirs} (another user owns it)")


def test_a_refusal_is_an_error_of_configuration() -> None:
    assert ConfigError.exit_status == 2


def test_visibility_keeps_what_is_set_in_filtering_order(tmp_path: Path) -> None:  # BL-097
    variables = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1", "OTHER": "2"}
    settings = read_settings({"HOME": str(tmp_path), **variables})
    assert list(settings.visibility.items()) == [
        ("ROCR_VISIBLE_DEVICES", "1"),
        ("CUDA_VISIBLE_DEVICES", "0"),
    ]


def test_an_empty_visibility_variable_is_set(tmp_path: Path) -> None:  # BL-098
    settings = read_settings({"HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""})
    assert settings.visibility == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(("interpret", "value"), [(True, "1"), (False, "0")])
def test_a_child_is_told_cache_and_mode(interpret: bool, value: str) -> None:  # noqa: FBT001
    variables = for_child(Settings(Path("/cache"), "", {}), interpret=interpret)
    assert variables == {"TRITON_CACHE_DIR": "/cache", "TRITON_INTERPRET": value}
