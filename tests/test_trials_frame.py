"""Every trial of a session as a row, for people and for pandas."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from mxtune.cli import app
from mxtune.configs.errors import MissingError
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.results.store import Store
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial
from mxtune.results.trials_frame import Journal, frame_of, write_csv

Trials = Callable[..., Trial]
Sessions = Callable[[Mapping[str, Any]], Session]

ODD = Trial(
    Shape(16, 64, 64),
    Route("splitk", Config.of({"split_k": 7, "cache_modifier": ".cg"})),
    "screen",
    "hung",
    'no "answer",\nwithin 10 s',
)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words, prog_name="mxtune")


@pytest.fixture
def path(tmp_path: Path, session_with: Sessions, trial_of: Trials) -> Path:
    """A store of two sessions; the newer has two shapes."""
    path = tmp_path / "out" / "trials.sqlite"
    store = Store.open(path, create=True)
    store.add(store.session(session_with({"triton": "3.5.0"})), ODD)
    number = store.session(session_with({}))
    beside = [Trial(Shape(64, 128, 512), r, "final", "ok", "", (3.0,)) for r in (FLOOR, BASELINE)]
    for trial in (
        trial_of(16, 5.0, 4.0, 6.0, 0.0),
        trial_of(32, 9.0),
        trial_of(64, state="wrong"),
        trial_of(16, 5.5, 5.5, 5.5, stage="final"),
        *beside,
        ODD,
    ):
        store.add(number, trial)
    store.close()
    return path


def test_a_summary_counts_states_and_names_the_best(path: Path) -> None:
    shown = invoke("trials", str(path.parent))
    assert (shown.exit_code, shown.stderr) == (0, "")
    first, *rest = [line.split() for line in shown.stdout.splitlines()]
    assert first[2:7] == ["measured", "cold", "eager", "on", "NVIDIA"]
    assert first[-2:] == ["7", "trials"]
    assert rest[:5] == [
        [],
        ["shape", "hung", "ok", "wrong"],
        ["16x64x64", "1", "0", "0"],
        ["64x128x512", "0", "2", "1"],
        [],
    ]
    assert rest[5] == ["shape", "us", "low", "high", "samples", "stage", "route"]
    assert [row[:7] for row in rest[6:]] == [
        ["64x128x512", "5.50", "5.50", "5.50", "3", "final", "direct"],
        ["64x128x512", "9.00", "9.00", "9.00", "1", "screen", "direct"],
    ]


def test_a_row_has_what_a_trial_has(path: Path) -> None:
    frame = frame_of(Journal.load(path, None))
    assert len(frame) == 7
    first, odd = frame.iloc[0], frame.iloc[6]
    assert first["shape"] == "64x128x512"
    assert list(first[["m", "n", "k", "config.BLOCK_M", "samples"]]) == [64, 128, 512, 16, 4]
    assert list(first[["median_us", "low_us", "high_us"]]) == [5.0, 4.2, 5.8]  # 0.0 is no time
    assert list(first[["arch", "triton", "regime"]]) == ["sm_90", "3.6.0", "cold eager"]
    assert list(odd[["family", "state", "config.split_k"]]) == ["splitk", "hung", 7]
    assert pd.isna(odd["median_us"])
    assert pd.isna(odd["config.BLOCK_M"])
    assert str(frame["config.BLOCK_M"].dtype) == "Int64"


def test_csv_and_parquet_hold_the_same_rows(path: Path, tmp_path: Path) -> None:
    csv, parquet = tmp_path / "new" / "trials.csv", tmp_path / "trials.parquet"
    shown = invoke("trials", str(path), "--csv", str(csv), "--parquet", str(parquet))
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == f"{csv}: 7 trials\n{parquet}: 7 trials\n"
    text, typed = pd.read_csv(csv), pd.read_parquet(parquet)
    assert list(text.columns) == list(typed.columns)
    for name in ("m", "config.split_k", "median_us", "reason", "state"):
        same = text[name].fillna(0 if name != "reason" else "").tolist()
        assert same == typed[name].fillna(0 if name != "reason" else "").tolist()
    assert typed["reason"].iloc[6] == 'no "answer",\nwithin 10 s'
    assert {each.name for each in tmp_path.iterdir()} == {"new", "out", "trials.parquet"}


def test_json_is_a_list_of_rows(path: Path) -> None:
    rows = json.loads(invoke("trials", str(path), "--json").stdout)
    assert [row["state"] for row in rows] == ["ok", "ok", "wrong", "ok", "ok", "ok", "hung"]
    assert (rows[0]["median_us"], rows[0]["config.split_k"]) == (5.0, None)
    assert len({tuple(row) for row in rows}) == 1  # the same columns everywhere


def test_a_session_is_named_as_in_export(path: Path) -> None:
    store = Store.open(path)
    key = store.sessions()[1].key
    store.close()
    rows = json.loads(invoke("trials", str(path), "--json", "--session", key[:8]).stdout)
    assert [(row["triton"], row["state"]) for row in rows] == [("3.5.0", "hung")]
    refused = invoke("trials", str(path), "--session", "xyz")
    assert (refused.exit_code, refused.stdout) == (6, "")
    assert "no session 'xyz'; it has " in refused.stderr


def test_a_modelled_route_has_a_score_and_no_time(
    tmp_path: Path, session_with: Sessions, trial_of: Trials
) -> None:
    store = Store.open(tmp_path / "trials.sqlite", create=True)
    number = store.session(session_with({"kind": "modelled", "regime": None}))
    store.add(number, trial_of(16, facts={"score_us": 7.25}))
    store.add(number, trial_of(16, stage="check"))
    store.close()
    last = invoke("trials", str(tmp_path)).stdout.splitlines()[-1].split()
    assert last[:5] == ["64x128x512", "7.25", "0", "modelled", "direct"]


# BL-053: a run that left nothing
def test_a_store_of_nothing_is_one_line(tmp_path: Path, session_with: Sessions) -> None:
    store = Store.open(tmp_path / "trials.sqlite", create=True)
    refused = invoke("trials", str(tmp_path))
    assert refused.stderr == (
        f"mxtune: {tmp_path}/trials.sqlite: no results in it; run a sweep first\n"
    )
    store.session(session_with({}))
    store.close()
    shown = invoke("trials", str(tmp_path))
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0].endswith(", 0 trials")


@pytest.mark.parametrize(("option", "lacks"), [("--csv", "pandas"), ("--parquet", "pyarrow")])
def test_without_the_extra_a_file_is_one_line(
    option: str, lacks: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, lacks, None)  # as if it were not installed
    refused = invoke("trials", str(path), option, str(tmp_path / "file"))
    assert (refused.exit_code, refused.stdout) == (MissingError.exit_status, "")
    assert refused.stderr == (
        f"mxtune: {lacks} is not installed; writing trials needs it: pip install 'mxtune[data]'\n"
    )
    assert not (tmp_path / "file").exists()
    assert invoke("trials", str(path)).exit_code == 0
    assert invoke("trials", str(path), "--json").exit_code == 0


def test_a_file_that_cannot_be_written_is_one_line_and_nothing_is_left(
    path: Path, tmp_path: Path
) -> None:
    refused = invoke("trials", str(path), "--csv", str(tmp_path))
    assert (refused.exit_code, refused.stderr) == (2, f"mxtune: {tmp_path}: not a file\n")
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "trials.csv"
    refused = invoke("trials", str(path), "--csv", str(below))
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"mxtune: {below}: cannot be written (")
    assert {each.name for each in tmp_path.iterdir()} == {"out", "file"}


def test_the_same_store_gives_the_same_csv(path: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_csv(Journal.load(path, None), tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert (tmp_path / "first").read_bytes().endswith(b"\n")
