"""Shapes come from words, bundled lists and files; what is none of these is refused."""

import os
from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.shape_lists import bundled, gather, load_shapes
from mxtune.configs.shapes import Shape

TWO = (Shape(16, 64, 64), Shape(32, 128, 64))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let errors name files as the user typed them: relative."""
    monkeypatch.chdir(tmp_path)


def refused_source(source: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_shapes(source)
    return str(caught.value)


def test_text_that_is_not_utf_8_is_refused_with_its_line() -> None:
    Path("shapes.csv").write_bytes(b"M,N,K\n16,64,64\n\xff,64,64\n")
    assert refused_source("shapes.csv") == "shapes.csv:3: not UTF-8 text; save the file as UTF-8"
    Path("shapes.txt").write_text("16x64x64\n", encoding="utf-16")
    assert refused_source("shapes.txt") == "shapes.txt:1: not UTF-8 text; save the file as UTF-8"


# BL-057: what is not a file at all
def test_a_folder_is_refused() -> None:
    Path("shapes.csv").mkdir()
    assert refused_source("shapes.csv") == ("'shapes.csv': a folder; give a CSV, YAML or text file")


def test_a_pipe_is_refused_instead_of_waited_for() -> None:
    os.mkfifo("shapes.csv")
    assert refused_source("shapes.csv") == (
        "'shapes.csv': not a regular file; give a CSV, YAML or text file"
    )


def test_a_link_to_itself_cannot_be_read() -> None:
    Path("shapes.csv").symlink_to("shapes.csv")
    assert refused_source("shapes.csv").startswith("'shapes.csv': cannot be read (Too many")


def test_a_name_that_no_file_can_have_cannot_be_read() -> None:
    assert refused_source("shapes\0.csv").startswith("'shapes\\x00.csv': cannot be read (")


def test_a_huge_file_is_refused_unread() -> None:
    with Path("shapes.csv").open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    assert refused_source("shapes.csv") == "shapes.csv: 16777217 bytes; at most 16777216 are read"


# BL-057: a missing file
def test_an_unknown_name_is_refused_with_the_bundled_names() -> None:
    assert refused_source("shapes.csv") == (
        "'shapes.csv': no such file or bundled list (bundled: amd-mxfp4-mm, amd-mxfp4-mm-tests, "
        "deepseek-r1, gpt-oss-120b, llama-3.1-405b)"
    )


@pytest.mark.parametrize(
    ("source", "nearest"),
    [
        ("deepseek", "deepseek-r1"),
        ("deepseek-r1.yaml", "deepseek-r1"),
        ("llama-3-405b", "llama-3.1-405b"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(source: str, nearest: str) -> None:
    assert f"no such file or bundled list; did you mean {nearest}? (" in refused_source(source)


def test_the_bundled_lists_are_known_by_name() -> None:
    assert bundled() == (
        "amd-mxfp4-mm",
        "amd-mxfp4-mm-tests",
        "deepseek-r1",
        "gpt-oss-120b",
        "llama-3.1-405b",
    )


@pytest.mark.parametrize("name", bundled())
def test_a_bundled_list_loads_and_writes_every_shape_once(name: str) -> None:
    shapes = load_shapes(name)
    assert 0 < len(shapes) < 120
    assert len(set(shapes)) == len(shapes)


def test_the_contest_lists_are_those_of_the_contest() -> None:
    assert load_shapes("amd-mxfp4-mm") == (
        Shape(4, 2880, 512),
        Shape(16, 2112, 7168),
        Shape(32, 4096, 512),
        Shape(32, 2880, 512),
        Shape(64, 7168, 2048),
        Shape(256, 3072, 1536),
    )
    assert load_shapes("amd-mxfp4-mm-tests") == (
        Shape(8, 2112, 7168),
        Shape(16, 3072, 1536),
        Shape(64, 3072, 1536),
        Shape(256, 2880, 512),
    )


@pytest.mark.parametrize(
    ("name", "count", "gemms"),
    [
        (
            "deepseek-r1",
            88,
            [
                (2112, 7168),
                (3072, 1536),
                (4096, 512),
                (7168, 2048),
                (4608, 7168),
                (7168, 2304),
                (512, 7168),
                (7168, 256),
            ],
        ),
        ("llama-3.1-405b", 44, [(2304, 16384), (16384, 2048), (13312, 16384), (16384, 6656)]),
        ("gpt-oss-120b", 44, [(5120, 2880), (2880, 4096), (5760, 2880), (2880, 2880)]),
    ],
)
def test_a_model_list_has_the_gemms_of_the_model(
    name: str, count: int, gemms: list[tuple[int, int]]
) -> None:
    shapes = load_shapes(name)
    assert len(shapes) == count
    assert [(shape.n, shape.k) for shape in shapes if shape.m == 1] == gemms


def test_words_come_before_the_source_and_count_once() -> None:
    Path("shapes.csv").write_text("M,N,K\n16,64,64\n32,128,64\n", encoding="utf-8")
    assert gather(["8x64x64", "32x128x64", "8x64x64"], "shapes.csv") == (
        Shape(8, 64, 64),
        Shape(32, 128, 64),
        Shape(16, 64, 64),
    )


def test_words_need_no_source_and_a_source_no_words() -> None:
    Path("shapes.txt").write_text("16x64x64 32x128x64", encoding="utf-8")
    assert gather(["16x64x64", "32x128x64"], None) == TWO
    assert gather([], "shapes.txt") == TWO


def test_every_wrong_word_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        gather(["16x64x100", "16x64x64", "16x64"], None)
    assert str(caught.value).splitlines() == [
        "16x64x100: K must be a multiple of 32, not 100",
        "'16x64': not a shape; write MxNxK, as in 16x2112x7168",
    ]


# BL-063: nothing given is an error too
def test_no_words_and_no_source_are_no_shapes() -> None:
    with pytest.raises(ConfigError, match="no shapes; give some as MxNxK, a file, or one of amd-"):
        gather([], None)
