"""AITER's ASM kernels are read from a wheel, a checkout or an installed package, old or new."""

import zipfile
from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.kernels.asm_catalogue import AsmKernel, read_catalogue

STEM = "f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128"
PLAIN = "f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256"
FOLDER = "hsa/gfx950/f4gemm"
ROWS = f"""\
256,256,0,0,_ZN5aiter44{PLAIN}E,{PLAIN}.co
32,128,1,1,_ZN5aiter41{STEM}E,{STEM}.co
"""
OLD = "tile_m,tile_n,splitK,bpreshuffle,knl_name,co_name\n" + ROWS
NEW = "tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name\n" + ROWS
SMALL = AsmKernel(
    name=f"_ZN5aiter41{STEM}E",
    file=f"{STEM}.co",
    tile_m=32,
    tile_n=128,
    split_k=True,
    shuffled_weights=True,
)
WIDE = AsmKernel(
    name=f"_ZN5aiter44{PLAIN}E",
    file=f"{PLAIN}.co",
    tile_m=256,
    tile_n=256,
    split_k=False,
    shuffled_weights=False,
)


def make_folder(root: Path, catalogue: str | None = NEW) -> Path:
    """Write the objects of two kernels under ``root``, with or without a catalogue."""
    folder = root / FOLDER
    folder.mkdir(parents=True)
    (folder / f"{STEM}.co").write_bytes(b"small")
    (folder / f"{PLAIN}.co").write_bytes(b"wide")
    if catalogue is not None:
        (folder / "f4gemm_bf16_per1x32Fp4.csv").write_text(catalogue, "utf-8")
    return root


@pytest.mark.parametrize("catalogue", [OLD, NEW])
def test_column_names_may_have_either_case(tmp_path: Path, catalogue: str) -> None:
    assert read_catalogue(make_folder(tmp_path, catalogue)).kernels == (SMALL, WIDE)


def test_the_objects_bytes_come_from_beside_the_catalogue(tmp_path: Path) -> None:
    found = read_catalogue(make_folder(tmp_path))
    assert [found.code(kernel) for kernel in found.kernels] == [b"small", b"wide"]


def test_a_wheel_is_read_where_it_lies(tmp_path: Path) -> None:
    make_folder(tmp_path / "aiter_meta")
    wheel = tmp_path / "amd_aiter-0.1.7.post2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted((tmp_path / "aiter_meta").rglob("*.c*")):
            archive.write(path, path.relative_to(tmp_path))
    found = read_catalogue(wheel)
    assert found.kernels == (SMALL, WIDE)
    assert found.release == "0.1.7.post2"
    assert found.code(SMALL) == b"small"


@pytest.mark.parametrize("named", ["", "aiter", "aiter_meta", f"aiter_meta/{FOLDER}"])
def test_an_installed_package_may_be_named_by_any_of_its_folders(
    tmp_path: Path, named: str
) -> None:
    make_folder(tmp_path / "aiter_meta")
    (tmp_path / "aiter").mkdir()
    assert read_catalogue(tmp_path / named).kernels == (SMALL, WIDE)


def test_an_installers_record_tells_the_release(tmp_path: Path) -> None:
    make_folder(tmp_path / "aiter_meta")
    (tmp_path / "aiter").mkdir()
    (tmp_path / "amd_aiter-0.1.9.dist-info").mkdir()
    assert read_catalogue(tmp_path / "aiter").release == "0.1.9"
    assert read_catalogue(tmp_path).release == "0.1.9"


def test_without_a_catalogue_file_names_tell_tile_and_layout(tmp_path: Path) -> None:
    small, wide = read_catalogue(make_folder(tmp_path, None)).kernels
    assert (small.name, small.tile_m, small.tile_n) == (SMALL.name, 32, 128)
    assert (small.split_k, small.shuffled_weights) == (False, True)
    assert wide == WIDE


def test_a_kernel_is_called_by_label_file_or_name(tmp_path: Path) -> None:
    found = read_catalogue(make_folder(tmp_path))
    for word in ("32x128", STEM, f"{STEM}.co", SMALL.name):
        assert found.called(word) == (SMALL,)
    assert found.called("256x256 plain") == (WIDE,)
    assert found.called("all") == (SMALL, WIDE)


def test_an_unknown_kernel_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_catalogue(make_folder(tmp_path)).called("64x64")
    assert str(caught.value) == (
        "no ASM kernel is called '64x64': all, or one of 32x128, 256x256 plain"
    )


def test_a_path_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: there is no such file or folder$"):
        read_catalogue(tmp_path / "nowhere")


def test_a_folder_without_objects_is_told_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no {FOLDER} in it; name an AITER wheel or checkout$"):
        read_catalogue(tmp_path)


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("aiter", "utf-8")
    with pytest.raises(ConfigError, match=r"neither a folder nor a wheel of AITER$"):
        read_catalogue(tmp_path / "notes.txt")


def test_an_object_that_only_the_catalogue_knows_is_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path) / FOLDER
    (folder / f"{STEM}.co").unlink()
    with pytest.raises(ConfigError, match=rf"{STEM}\.co is in the catalogue, but not in"):
        read_catalogue(tmp_path)


def test_an_empty_folder_of_objects_is_no_catalogue(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"no f4gemm objects \(\.co\) in"):
        read_catalogue(tmp_path)


@pytest.mark.parametrize(
    ("catalogue", "told"),
    [
        (NEW.replace("knl_name", "symbol"), "no column knl_name in it"),
        (NEW.replace("32,128,1", "32,wide,1"), "invalid literal for int"),
    ],
)
def test_a_damaged_catalogue_is_told_what_is_wrong(
    tmp_path: Path, catalogue: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        read_catalogue(make_folder(tmp_path, catalogue))
