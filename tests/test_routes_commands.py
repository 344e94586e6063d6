"""`mxtune lint` and `mxtune merge`: what they print, what they write, and their exit status."""

import json
from pathlib import Path

import pytest
from tests.tables import entry, measured, raw_entry, reported, saved, table
from typer.testing import CliRunner, Result

from mxtune.cli import app
from mxtune.configs.table import Entry, RouteTable
from mxtune.results.findings import Finding, as_json, counted, lines
from mxtune.results.installed import Installed
from mxtune.results.lint import lint

SHAPE = (1, 512, 1024)
GOOD = entry(SHAPE, "fused", measured(5.0))
BAD = raw_entry(SHAPE, BLOCK_M=24)
SLOW = (entry(SHAPE, "fused", measured(9.0)), entry((2, 512, 1024), "fused", measured(5.0)))


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)), prog_name="mxtune")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, so that files have short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("entries", "status", "worst"),
    [
        ((GOOD,), 0, "0 errors, 0 warnings"),
        (SLOW, 1, "0 errors, 1 warning"),
        ((BAD,), 3, "1 error, 0 warnings"),
        ((BAD, SLOW[1]), 3, "1 error, 0 warnings"),
    ],
)
def test_the_exit_status_is_that_of_the_worst_finding(
    here: Path, entries: tuple[Entry, ...], status: int, worst: str
) -> None:
    saved(here / "routes.json", table(*entries))
    shown = invoke("lint", "routes.json")
    assert shown.exit_code == status
    counts = shown.stdout.splitlines()[-1]
    assert counts.startswith(f"{worst}, ")
    assert counts.endswith(" in 1 file")
    assert shown.stderr == ""


def test_a_command_that_cannot_be_understood_has_another_status(here: Path) -> None:
    saved(here / "routes.json", table(GOOD))
    assert invoke("lint").exit_code == 2
    shown = invoke("lint", "routes.json", "--target", "gfx000")
    assert shown.exit_code == 2
    assert shown.output == "mxtune: no device is called 'gfx000': one of gfx950, sm_90\n"


def test_findings_stand_under_their_file_the_worst_first(here: Path) -> None:
    saved(here / "a.json", table(*SLOW[::-1], BAD.model_copy(update={"shape": (8, 512, 1024)})))
    (here / "b.json").write_text("{", "utf-8")
    (here / "c.csv").write_text("M\n", "utf-8")
    files = [Path(name) for name in ("a.json", "b.json", "c.csv")]
    assert list(lines(lint(files, None, Installed()), len(files))) == [
        "a.json",
        "  error    unknown    routes.2  8x512x1024  "
        "fused: BLOCK_M must be one of 4, 8, 16, 32, 64, 128, 256, not 24",
        "  warning  monotonic  routes.0  1x512x1024  "
        "9 us, 1.80 times the 5 us of 2x512x1024 (routes.1)",
        "b.json",
        "  error  load      not JSON: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "c.csv",
        "  error  load      1: no column cu_num, n, k, splitk, us, kernelname; "
        "not a tuned a4w4 table of AITER's",
        "3 errors, 1 warning, 0 notes in 3 files",
    ]


def test_counts_are_in_words() -> None:
    def found(severity: str) -> Finding:
        return Finding(severity, "hole", "a.json", "", None, "")  # type: ignore[arg-type]

    assert counted([], 0) == "0 errors, 0 warnings, 0 notes in 0 files"
    some = [found("error"), found("note"), found("note")]
    assert counted(some, 1) == "1 error, 0 warnings, 2 notes in 1 file"
    assert list(lines([], 2)) == ["0 errors, 0 warnings, 0 notes in 2 files"]


def test_json_holds_every_finding_and_the_counts(here: Path) -> None:
    (here / "b.json").write_text("{}", "utf-8")
    saved(here / "a.json", table(BAD))
    shown = invoke("lint", "b.json", "a.json", "--json")
    body = json.loads(shown.stdout)
    assert shown.exit_code == 3
    assert list(body) == ["files", "counts", "findings"]
    assert (body["files"], body["counts"]["error"], body["counts"]["warning"]) == (2, 2, 0)
    assert body["findings"][:2] == [
        {
            "severity": "error",
            "rule": "load",
            "file": "b.json",
            "place": "",
            "shape": None,
            "message": "schema None; this mxtune reads 'mxtune.routes/1'",
        },
        {
            "severity": "error",
            "rule": "unknown",
            "file": "a.json",
            "place": "routes.0",
            "shape": [1, 512, 1024],
            "message": "fused: BLOCK_M must be one of 4, 8, 16, 32, 64, 128, 256, not 24",
        },
    ]
    assert json.loads(as_json([], 0)) == {
        "files": 0,
        "counts": {"error": 0, "warning": 0, "note": 0},
        "findings": [],
    }


def test_merging_writes_the_table_and_tells_each_conflict_in_a_line(here: Path) -> None:
    saved(here / "a.json", table(entry(SHAPE, "direct", reported(4.0)), SLOW[1]))
    saved(here / "b.json", table(GOOD))
    shown = invoke("merge", "a.json", "b.json", "--out", "all.json")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr.splitlines() == [
        "1x512x1024: fused 16x64x256 of b.json counts, not direct 16x64x256 of a.json: "
        "measured counts more than reported",
        "all.json: 2 routes of 2 tables",
    ]
    assert RouteTable.load(here / "all.json").routes == (GOOD, SLOW[1])


def test_a_csv_of_aiters_is_merged_and_what_is_left_out_is_told(here: Path) -> None:
    path = Path(__file__).parent / "data" / "aiter-tuned.csv"
    shown = invoke("merge", path, "--out", "routes.json")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr.splitlines() == [
        f"{path}: 6 of 11 rows left out; lint lists them",
        "routes.json: 5 routes of 1 tables",
    ]
    assert [entry.family for entry in RouteTable.load(here / "routes.json").routes] == ["asm"] * 5


def test_tables_that_cannot_be_merged_leave_no_file(here: Path) -> None:
    saved(here / "a.json", table(GOOD))
    saved(here / "b.json", table(GOOD, arch="sm_90"))
    shown = invoke("merge", "a.json", "b.json", "--out", "all.json")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr == (
        "mxtune: a.json and b.json cannot be merged: "
        "device.arch is 'gfx950' in one and 'sm_90' in the other\n"
    )
    assert not (here / "all.json").exists()


def test_merging_needs_tables_and_a_file_to_write(here: Path) -> None:
    saved(here / "a.json", table(GOOD))
    assert invoke("merge", "--out", "all.json").exit_code == 2
    assert invoke("merge", "a.json").exit_code == 2
    assert invoke("merge", "a.json", "none.json", "--out", "all.json").exit_code == 2
    assert [path.name for path in here.iterdir()] == ["a.json"]
