"""AITER's CSV of tuned GEMMs becomes a route table, and no row of it is lost without a word."""

import os
from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.table import DeviceInfo, RouteTable
from mxtune.kernels.registry import checked_route
from mxtune.results.aiter_csv import aiter_table, read_aiter_csv
from mxtune.results.aiter_rows import Remark

DATA = Path(__file__).parent / "data"
FILE = DATA / "aiter-tuned.csv"
HEADER = "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
SMALL = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
WIDE = "_ZN5aiter42f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256E"
CK = "a4w4_blockscale_256x64x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8_2x2_intrawave_v3"


def row(m: int = 16, **cells: object) -> str:
    """A row of a kernel that took 5.5 us, but for what is given."""
    usual: dict[str, object] = {
        "gfx": "gfx950", "cu_num": 256, "M": m, "N": 512, "K": 1024, "kernelId": 1, "splitK": 0,
        "us": 5.5, "kernelName": SMALL, "tflops": 1.0, "bw": 1.0, "errRatio": 0.0,
    }  # fmt: skip
    return ",".join(str((usual | cells)[name]) for name in HEADER.split(","))


def written(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "tuned.csv"
    path.write_text("\n".join((header, *rows)) + "\n", "utf-8")
    return path


def routes(table: RouteTable) -> list[tuple[str, str, object, object]]:
    """Each route's shape, family, kernel and split."""
    found = table.routes
    return [(str(e.key), e.family, e.config["kernel"], e.config["log2_k_split"]) for e in found]


def told(remarks: list[Remark]) -> list[tuple[int, str, str]]:
    return [(remark.line, remark.kind, str(remark)) for remark in remarks]


def test_rows_become_routes_of_asm_and_every_other_row_is_told() -> None:  # BL-051
    before = FILE.read_bytes()
    table, remarks = read_aiter_csv(FILE)
    assert routes(table) == [
        ("16x512x1024", "asm", "64x128", 0),
        ("64x512x1024", "asm", "64x128", 0),
        ("512x512x1024", "asm", "256x256", 2),
        ("1024x512x1024", "asm", "256x256 plain", 0),
        ("4096x512x1024", "asm", "256x256", 0),
    ]
    assert told(remarks) == [
        (2, "slower", "line 2: 16x512x1024: 32x128 5.5 us; line 3 is taken: 64x128 5.1 us"),
        (4, "wrong", "line 4: 16x512x1024: 0.37 of its results were wrong; at most 0.05 is taken"),
        (6, "copy", "line 6: 64x512x1024: the same as line 5"),
        (
            7,
            "device",
            "line 7: 16x512x1024: for 'gfx950' with 128 compute units; "
            "most rows are for 'gfx950' with 256",
        ),
        (8, "foreign", f"line 8: 128x512x1024: '{CK}' is a CK kernel; no family calls those"),
        (
            11,
            "unknown",
            "line 11: 2048x512x1024: no ASM kernel of AITER's is called 'made_up_kernel'",
        ),
        (
            12,
            "untimed",
            "line 12: 4096x512x1024: its time is not above zero: taken as not measured",
        ),
    ]
    assert FILE.read_bytes() == before


def test_a_route_is_whole_and_reported_with_its_time() -> None:
    table = read_aiter_csv(FILE)[0]
    assert all(checked_route(entry.route) == entry.route for entry in table.routes)
    assert [entry.evidence for entry in table.routes] == [
        Reported(source="aiter-tuned.csv", us=us) for us in (5.1, 7.25, 9.0, 11.0, None)
    ]


def test_a_table_says_what_it_is_for_and_that_its_versions_are_unknown() -> None:
    table = read_aiter_csv(FILE)[0]
    assert table.device == DeviceInfo(
        arch="gfx950", name="AMD Instinct MI355X", compute_units=256, partition=None
    )
    assert (table.made.at, table.made.rule, table.made.aiter) == ("", "even", None)
    assert table.default is None


def test_a_table_is_written_and_read_back(tmp_path: Path) -> None:
    table = read_aiter_csv(FILE)[0]
    table.save(tmp_path / "routes.json")
    assert RouteTable.load(tmp_path / "routes.json") == table


def test_lines_tell_where_each_route_stands() -> None:
    found = aiter_table(FILE)
    assert (found.lines, found.rows) == ((3, 5, 9, 10, 12), 11)


def test_an_older_file_without_architectures_is_for_gfx950() -> None:  # BL-040
    table, remarks = read_aiter_csv(DATA / "aiter-tuned-older.csv")
    assert routes(table) == [
        ("16x512x1024", "asm", "32x128", 0),
        ("64x512x1024", "asm", "64x128", 0),
    ]
    assert (table.device.arch, table.device.compute_units, remarks) == ("gfx950", 256, [])


def test_an_architecture_loses_its_features(tmp_path: Path) -> None:  # BL-042
    path = written(tmp_path, row(gfx="gfx950:sramecc+:xnack-"))
    assert read_aiter_csv(path)[0].device.arch == "gfx950"


def test_an_architecture_that_is_not_described_keeps_its_name(tmp_path: Path) -> None:
    device = read_aiter_csv(written(tmp_path, row(gfx="gfx942", cu_num=304)))[0].device
    assert (device.arch, device.name, device.compute_units) == ("gfx942", "gfx942", 304)


def test_of_two_gpus_with_as_many_rows_the_first_counts(tmp_path: Path) -> None:
    table, remarks = read_aiter_csv(written(tmp_path, row(cu_num=128), row(64)))
    assert (table.device.compute_units, [remark.kind for remark in remarks]) == (128, ["device"])


TURNED = f"KERNELNAME, us ,splitK,K,N,M,note,cu_num\r\n{SMALL},5.5,0,1024,512,16,mine,256\r\n"


@pytest.mark.parametrize(
    "content",
    [
        FILE.read_bytes().replace(b"\n", b"\r\n"),
        FILE.read_bytes().replace(b"\n", b"\n\n").replace(b",", b", "),
        FILE.read_bytes() + b",,,,,,,,,,,\n  \n",
    ],
    ids=["CRLF", "blank lines and spaces", "empty cells at the end"],
)
def test_how_a_file_was_saved_does_not_matter(tmp_path: Path, content: bytes) -> None:  # BL-057
    path = tmp_path / FILE.name
    path.write_bytes(content)
    assert read_aiter_csv(path)[0] == read_aiter_csv(FILE)[0]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:  # BL-057
    older = DATA / "aiter-tuned-older.csv"  # whose first column is needed
    (tmp_path / older.name).write_bytes(b"\xef\xbb\xbf" + older.read_bytes())
    assert read_aiter_csv(tmp_path / older.name) == read_aiter_csv(older)


def test_columns_have_any_order_and_case_and_others_are_ignored(tmp_path: Path) -> None:  # BL-057
    (tmp_path / "a.csv").write_bytes(TURNED.encode())
    table, remarks = read_aiter_csv(tmp_path / "a.csv")
    assert routes(table) == [("16x512x1024", "asm", "32x128", 0)]
    assert remarks == []


@pytest.mark.parametrize("us", ["0", "0.0", "-0.002", "nan", "inf", "-inf", ""])
def test_a_time_that_is_none_is_not_measured(tmp_path: Path, us: str) -> None:  # BL-056
    table, remarks = read_aiter_csv(written(tmp_path, row(us=us)))
    assert [entry.evidence for entry in table.routes] == [Reported(source="tuned.csv", us=None)]
    assert [remark.kind for remark in remarks] == ["untimed"]


def test_a_row_with_a_time_is_taken_before_one_without(tmp_path: Path) -> None:  # BL-056
    path = written(tmp_path, row(us=0.0), row(kernelName=WIDE, us=99.0))
    table, remarks = read_aiter_csv(path)
    assert routes(table) == [("16x512x1024", "asm", "256x256", 0)]
    assert [str(remark) for remark in remarks] == [
        "line 2: 16x512x1024: 32x128 no time; line 3 is taken: 256x256 99 us"
    ]


def test_of_two_equal_times_the_first_row_counts(tmp_path: Path) -> None:
    table, _ = read_aiter_csv(written(tmp_path, row(), row(kernelName=WIDE)))
    assert routes(table) == [("16x512x1024", "asm", "32x128", 0)]


@pytest.mark.parametrize("unchecked", ["", "nan", "-1"])
def test_a_row_that_was_checked_is_taken_before_one_that_was_not(
    tmp_path: Path, unchecked: str
) -> None:
    path = written(tmp_path, row(kernelName=WIDE, us=1.0, errRatio=unchecked), row())
    table, remarks = read_aiter_csv(path)
    assert routes(table) == [("16x512x1024", "asm", "32x128", 0)]
    assert [str(remark) for remark in remarks] == [
        "line 2: 16x512x1024: 256x256 1 us, unchecked; line 3 is taken: 32x128 5.5 us"
    ]


def test_a_row_that_was_wrong_is_not_taken_even_alone(tmp_path: Path) -> None:
    table, remarks = read_aiter_csv(written(tmp_path, row(errRatio=0.051), row(64, errRatio=0.05)))
    assert [str(entry.key) for entry in table.routes] == ["64x512x1024"]
    assert [remark.kind for remark in remarks] == ["wrong"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(K=1000), "K must be a multiple of 32, not 1000"),
        (row(M="1e3"), "M must be a whole number, not '1e3'"),
        (row(M=0), "M must be between 1 and 2147483647, not 0"),
        (row(cu_num="many"), "cu_num must be a whole number, not 'many'"),
        (row(splitK=-1), "splitK must be a whole number, not '-1'"),
        (row(us="fast"), "us must be a number, not 'fast'"),
        (row(us="1_0"), "us must be a number, not '1_0'"),
        (row(us="9" * 200 + "x"), f"us must be a number, not '{'9' * 100}...'"),
        (row(errRatio="few"), "errRatio must be a number, not 'few'"),
        (row() + ",1", "the header has 12 cells, this row 13"),
        ("16", "the header has 12 cells, this row 1"),
        (row(kernelName='"open'), "a quote is not closed on its line"),
    ],
)
def test_a_row_that_cannot_be_read_is_told_and_the_others_are_used(
    tmp_path: Path, bad: str, reason: str
) -> None:
    table, remarks = read_aiter_csv(written(tmp_path, bad, row(64)))
    assert [str(entry.key) for entry in table.routes] == ["64x512x1024"]
    assert [(r.line, r.kind, r.reason) for r in remarks] == [(2, "malformed", reason)]


def test_a_split_that_aiter_does_not_try_is_told(tmp_path: Path) -> None:
    table, remarks = read_aiter_csv(written(tmp_path, row(splitK=5)))
    assert table.routes == ()
    assert [str(remark) for remark in remarks] == [
        "line 2: 16x512x1024: asm: log2_k_split must be one of 0, 1, 2, 3, 4, not 5"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: no column cu_num, m, n, k, splitk, us, kernelname; not a tuned a4w4 table of "
         "AITER's"),
        (HEADER.encode(), ": no rows in it"),
        (b"\nM,N,K,us,kernelName,splitK\n", ":2: no column cu_num; not a tuned a4w4 table of "
         "AITER's"),
        (HEADER.encode() + b",us\n", ":1: two columns are named us"),
        (b"\xff\xfe", ": cannot be read (not UTF-8)"),
    ],
    ids=["empty", "no rows", "a column missing", "a column twice", "not text"],
)  # fmt: skip
def test_a_file_that_is_no_such_table_is_refused_in_one_line(  # BL-053, BL-057
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "tuned.csv"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_aiter_csv(path)
    assert str(caught.value) == f"{path}{message}"


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")  # opening it would wait for ever
    for name, reason in (
        ("pipe.csv", "not a file"),
        ("none.csv", "cannot be read (No such file or directory)"),
    ):
        with pytest.raises(ConfigError) as caught:
            read_aiter_csv(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {reason}"
