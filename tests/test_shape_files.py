"""A file is read whole, or refused with every line that is wrong."""

from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.shape_lists import load_shapes
from mxtune.configs.shapes import Shape

TWO = (Shape(16, 64, 64), Shape(32, 128, 64))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let errors name files as the user typed them: relative."""
    monkeypatch.chdir(tmp_path)


def load(name: str, content: str | bytes) -> tuple[Shape, ...]:
    raw = content.encode("utf-8") if isinstance(content, str) else content
    Path(name).write_bytes(raw)
    return load_shapes(name)


def refusal(name: str, content: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load(name, content)
    return str(caught.value)


# BL-057: what a CSV file may look like
@pytest.mark.parametrize(
    "content",
    [
        "M,N,K\n16,64,64\n32,128,64\n",
        b"\xef\xbb\xbfM,N,K\r\n16,64,64\r\n\r\n32,128,64\r\n",
        "M,N,K\r16,64,64\r32,128,64",
        "# decode\n\n  # more\nM,N,K\n16,64,64\n   \n# prefill\n32,128,64",
        ' m , "n" ,K\n16, 64,64\n "32" ,128 , "64"\n',
        'layer,K,N,M,count\nqkv,64,64,16,3\n"out, down",64,128,32,1\n',
        "M,N,K,q_dtype_w\n16,64,64,torch.float4_e2m1fn_x2\n32,128,64,torch.float4_e2m1fn_x2\n",
        "M,N,K\n16,64,64\n16,64,64\n16, 64,64\n32,128,64\n16,64,64\n",
    ],
    ids=["plain", "bom-crlf", "cr", "comments", "spaces-quotes", "columns", "aiter", "duplicates"],
)
def test_a_csv_file_gives_its_distinct_shapes_in_order(content: str | bytes) -> None:
    assert load("shapes.csv", content) == TWO


# BL-027: good lines between bad ones are not taken either
def test_every_bad_line_of_a_csv_file_is_named_with_its_reason() -> None:
    rows = [
        "# good: lines 3, 6, 10 and 15",
        "M,N,K",
        "16,64,64",
        "16,64,100",
        "16,64,33",
        " 32 , 128 , 64 ",
        "16,64,0",
        "0,64,64",
        "-1,64,64",
        '"64",128,128',
        "16.5,64,64",
        "1e3,64,64",
        "16,64",
        "",
        "1,64,32",
        "99999999999999999999,64,64",
        "sixteen,64,64",
        "16,64,64,7",
        "16;64;64",
        '"16,64,64',
        ",,",
    ]
    assert refusal("shapes.csv", "\n".join(rows)).splitlines() == [
        "shapes.csv:4: K must be a multiple of 32, not 100",
        "shapes.csv:5: K must be a multiple of 32, not 33",
        "shapes.csv:7: K must be between 1 and 2147483647, not 0",
        "shapes.csv:8: M must be between 1 and 2147483647, not 0",
        "shapes.csv:9: M must be between 1 and 2147483647, not -1",
        "shapes.csv:11: M must be a whole number, not '16.5'",
        "shapes.csv:12: M must be a whole number, not '1e3'",
        "shapes.csv:13: the header has 3 cells, this row 2",
        "shapes.csv:16: M must be between 1 and 2147483647, not 99999999999999999999",
        "shapes.csv:17: M must be a whole number, not 'sixteen'",
        "shapes.csv:18: the header has 3 cells, this row 4",
        "shapes.csv:19: the header has 3 cells, this row 1",
        "shapes.csv:20: a quote is not closed on its line",
        "shapes.csv:21: M must be a whole number, not ''",
    ]


# BL-057: a header that cannot be used is refused in one line, whatever follows
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("16,64,64\n32,128,64\n", "1: no header; the first line must name the columns M,N,K"),
        ("\nM,N\n16,64\n", "2: no column K; the first line must name the columns M,N,K"),
        ("N,count\n64,1\n", "1: no column M, K; the first line must name the columns M,N,K"),
        ("M;N;K\n16;64;64\n", "1: cells are separated by semicolons; use commas, as in M,N,K"),
        ("M\tN\tK\n16\t64\t64\n", "1: cells are separated by tabs; use commas, as in M,N,K"),
        ("M,N,K,m\n16,64,64,16\n", "1: two columns are named M"),
        ('M,N,"K\n16,64,64\n', "1: a quote is not closed on its line"),
    ],
)
def test_a_csv_header_is_refused_in_one_line(content: str, message: str) -> None:
    assert refusal("shapes.csv", content) == f"shapes.csv:{message}"


def test_a_cell_beyond_the_limit_of_the_csv_reader_is_refused() -> None:
    content = f"layer,M,N,K\n{'q' * 200_000},16,64,64\n"
    assert refusal("shapes.csv", content).startswith("shapes.csv:2: not CSV (field larger than")


# BL-063: an empty list is an error, never a default set
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("shapes.csv", "# only comments here\n# M,N,K\n\n"),
        ("shapes.csv", "M,N,K\n"),
        ("shapes.csv", ""),
        ("shapes.csv", b"\xef\xbb\xbf"),
        ("shapes.yaml", "# only comments\n"),
        ("shapes.yaml", "about: nothing\n"),
        ("shapes.yaml", "shapes: []\n"),
        ("shapes.yaml", "m: []\ngemms: [{n: 64, k: 64}]\n"),
        ("shapes.txt", "# 16x64x64\n"),
    ],
)
def test_a_list_without_shapes_is_an_error(name: str, content: str | bytes) -> None:
    assert refusal(name, content) == f"no shapes in {name}"


# BL-063: exactly the shapes of the list
def test_words_in_a_text_file_are_shapes() -> None:
    content = "16x64x64  32x128x64 # qkv\n# 8x64x64\n\n16x64x64\n"
    assert load("shapes.txt", content) == TWO
    assert load("shapes", content) == TWO


def test_every_bad_line_of_a_text_file_is_named() -> None:
    assert refusal("shapes.txt", "16x64x64\n16x64x100 16x64\n\n0x64x64\n").splitlines() == [
        "shapes.txt:2: '16x64': not a shape; write MxNxK, as in 16x2112x7168; "
        "16x64x100: K must be a multiple of 32, not 100",
        "shapes.txt:4: 0x64x64: M must be between 1 and 2147483647, not 0",
    ]


@pytest.mark.parametrize("name", ["shapes.yaml", "shapes.yml", "SHAPES.YAML"])
def test_a_yaml_file_lists_shapes_in_three_forms(name: str) -> None:
    content = 'shapes: ["16x64x64", [8, 64, 64], {k: 64, m: 4, n: 64}, 2x64x64, [16, 64, 64]]\n'
    assert load(name, content) == (
        Shape(16, 64, 64),
        Shape(8, 64, 64),
        Shape(4, 64, 64),
        Shape(2, 64, 64),
    )


def test_a_yaml_file_crosses_gemms_with_the_ms_after_its_shapes() -> None:
    content = (
        "about: a model\nsource: https://example.com\n"
        "m: [1, 4]\ngemms:\n- {n: 2112, k: 7168, layer: qkv}\n- {n: 64, k: 32}\n"
        "shapes: [16x64x64, [4, 64, 32]]\n"
    )
    assert load("shapes.yaml", content) == (
        Shape(16, 64, 64),
        Shape(4, 64, 32),
        Shape(1, 2112, 7168),
        Shape(4, 2112, 7168),
        Shape(1, 64, 32),
    )


def test_every_bad_line_of_the_shapes_of_a_yaml_file_is_named() -> None:
    rows = [
        "abuot: a slip",
        "shapes:",
        "- 16x64x64",
        "- 16x64x100",
        "- [16, 64]",
        "- [yes, 64, 64]",
        "- [16, 64.0, 64]",
        '- [16, "64", 64]',
        "- [0x10, 1_000, 64]",
        "- [16, 64, [64]]",
        "- m: 16",
        "  n: 0",
        "  k: 64",
        "- {m: 16, n: 64}",
        "- {m: 16, n: 64, k: 64, K: 64}",
        "- {m: 16, n: 64, k: 64, m: 8}",
        "-",
        "- {m: 16, n: 64, k: 64, ? [1] : 2}",
    ]
    assert refusal("shapes.yaml", "\n".join(rows)).splitlines() == [
        "shapes.yaml:1: unknown key 'abuot'; known are about, source, shapes, m, gemms",
        "shapes.yaml:4: 16x64x100: K must be a multiple of 32, not 100",
        "shapes.yaml:5: a shape is M, N and K, not 2 numbers",
        "shapes.yaml:6: M must be a whole number, not 'yes'",
        "shapes.yaml:7: N must be a whole number, not '64.0'",
        "shapes.yaml:8: N must be a whole number without quotes or tag",
        "shapes.yaml:9: M must be a whole number, not '0x10'; "
        "N must be a whole number, not '1_000'",
        "shapes.yaml:10: K must be a whole number, not a list or mapping",
        "shapes.yaml:12: N must be between 1 and 2147483647, not 0",
        "shapes.yaml:14: k is missing",
        "shapes.yaml:15: unknown key 'K'; known are m, n, k, calls",
        "shapes.yaml:16: m is given twice",
        "shapes.yaml:17: '': not a shape; write MxNxK, as in 16x2112x7168",
        "shapes.yaml:18: unknown key that is no word; known are m, n, k, calls",
    ]


def test_every_bad_line_of_the_gemms_of_a_yaml_file_is_named_once() -> None:
    rows = [
        "gemms:",
        "- {n: 64, k: 100}",
        "- {n: 64, k: 64, layers: qkv}",
        "- {n: 64}",
        "- 64x64",
        "- {n: 64, k: 64}",
        "m: [1, 2.5,",
        "  0]",
    ]
    assert refusal("shapes.yaml", "\n".join(rows)).splitlines() == [
        "shapes.yaml:2: K must be a multiple of 32, not 100",
        "shapes.yaml:3: unknown key 'layers'; known are n, k, layer",
        "shapes.yaml:4: k is missing",
        "shapes.yaml:5: a gemm is written {n: 2112, k: 7168}",
        "shapes.yaml:7: M must be a whole number, not '2.5'",
        "shapes.yaml:8: M must be between 1 and 2147483647, not 0",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "- 16x64x64\n",
            "1: not a list of shapes; write shapes: [...], or m: [...] and gemms: [...]",
        ),
        ("about: x\nshapes: 16x64x64\n", "2: shapes must be a list"),
        ("about: x\nm: [1]\n", "2: m and gemms need each other"),
        ("gemms: [{n: 64, k: 64}]\n", "1: m and gemms need each other"),
        ("shapes: [16x64x64]\nshapes: [8x64x64]\n", "2: shapes is given twice"),
        (
            "shapes: [16x64x64\nm: 1\n",
            "2: not YAML (expected ',' or ']', but got ':')",
        ),
        ("shapes: []\n---\nshapes: []\n", "2: not YAML (but found another document)"),
        ("about: x\nshapes: ['\x01']\n", "2: not YAML (special characters are not allowed)"),
        ("shapes: " + "[" * 20_000, "1: not YAML that can be read (nested too deeply)"),
    ],
)
def test_a_yaml_file_of_another_make_is_refused_in_one_line(content: str, message: str) -> None:
    assert refusal("shapes.yaml", content) == f"shapes.yaml:{message}"


def test_a_slip_that_multiplies_to_too_many_shapes_is_refused() -> None:
    ms = ", ".join(str(m) for m in range(1, 402))
    gemms = "\n".join(f"- {{n: {n}, k: 64}}" for n in range(1, 251))
    assert refusal("shapes.yaml", f"m: [{ms}]\ngemms:\n{gemms}\n") == (
        "shapes.yaml:3: m and gemms make 100250 shapes; at most 100000 are swept"
    )
