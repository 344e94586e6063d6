"""What a person sees of a sweep, line by line."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from mxtune.configs.devices import load_device
from mxtune.configs.evidence import Checked, Evidence, Measured, Modelled, Objects, RunnerUp
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.candidates import Candidates
from mxtune.kernels.registry import checked_route
from mxtune.results.trial import Trial
from mxtune.tuner.show import (
    done_line,
    heading,
    make_console,
    progress_line,
    results_table,
    show,
)
from mxtune.tuner.sweep import Begun, Ended, Event, ShapeDone, Tried
from mxtune.tuner.task import Task

MI355X = load_device("gfx950")
SHAPE = Shape(16, 2112, 7168)
FAST, SLOW, WIDE = (
    checked_route(Route("fused", Config.of({"BLOCK_M": 16, "BLOCK_N": n}))) for n in (32, 64, 128)
)
SCREENED = Trial(SHAPE, FAST, "screen", "ok", facts={"score_us": 11.5})
CHECKED = Trial(SHAPE, FAST, "check", "ok")
SLOWER = Trial(SHAPE, SLOW, "screen", "ok", facts={"score_us": 12.5})
HUNG = Trial(SHAPE, WIDE, "screen", "hung", "no answer within 30 s")
CRASHED = Trial(SHAPE, SLOW, "screen", "crashed", "SIGSEGV: [bold] :bomb:")
TIMED = Trial(SHAPE, FAST, "screen", "ok", samples_us=(9.0, 8.25, 8.5))


def task(*trials: Trial, skipped: int = 0, shape: Shape = SHAPE) -> Task:
    """Return a task of three candidates and of some more that nobody tries."""
    ranked = (FAST, SLOW, WIDE)
    more = tuple(Route("fused", Config.of({"BLOCK_N": 256 + n})) for n in range(skipped))
    found = Candidates((*ranked, *more), points=9, collapsed=0, rejected={}, pruned=())
    return Task(shape, MI355X, found, ranked, list(trials), goal=3)


def begun(*tasks: Task, how: str = "offline, by compiling and modelling, for") -> Begun:
    return Begun(MI355X, how, Path("out/trials.sqlite"), tasks)


def console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200, highlight=False, force_terminal=terminal), text


def test_the_heading_says_what_is_swept_and_how() -> None:
    assert heading(begun(task(), task())) == (
        "2 shapes, 6 candidates, offline, by compiling and modelling, for "
        "AMD Instinct MI355X (gfx950, 256 CUs)"
    )
    assert heading(begun(task(SCREENED, HUNG), how="measured cold eager on")) == (
        "1 shapes, 3 candidates, measured cold eager on AMD Instinct MI355X (gfx950, 256 CUs); "
        "2 known from out/trials.sqlite"
    )


@pytest.mark.parametrize(
    ("trials", "line"),
    [
        ((), "0/3 tried, nothing right yet"),
        ((HUNG,), "1/3 tried, nothing right yet, 1 hung"),
        ((SLOWER, SCREENED), "2/3 tried, leading by model: fused 16x32x256"),
        ((SCREENED, CHECKED), "1/3 tried, best by model, numbers right: fused 16x32x256"),
        ((TIMED, CRASHED, HUNG), "3/3 tried, best 8.50 us fused 16x32x256, 1 crashed, 1 hung"),
    ],
)
def test_the_progress_line_says_where_a_shape_stands(trials: tuple[Trial, ...], line: str) -> None:
    assert progress_line(task(*trials)) == f"16x2112x7168: {line}"


def test_a_finished_shape_accounts_for_every_candidate() -> None:
    assert done_line(task(SCREENED, CHECKED, SLOWER, HUNG)) == (
        "16x2112x7168: best by model, numbers right: fused 16x32x256, 1 hung; 3 tried"
    )
    assert done_line(task(TIMED, SLOWER, HUNG, skipped=2)) == (
        "16x2112x7168: best 8.50 us fused 16x32x256, 1 hung; 3 tried, 2 not tried"
    )


def test_an_unsolved_shape_counts_the_reasons_and_gives_the_first() -> None:  # BL-069
    wrong = Trial(SHAPE, FAST, "check", "wrong", "5 of 33792 wrong")
    assert done_line(task(SCREENED, CRASHED, HUNG, wrong)) == (
        "16x2112x7168: unsolved, 1 crashed, 1 hung, 1 wrong; 3 tried, "
        "the first failed with 5 of 33792 wrong"
    )


def test_a_pipe_gets_plain_lines_and_the_caller_every_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unsolved = task(CRASHED)
    events: list[Event] = [begun(unsolved), Tried(unsolved, CRASHED), ShapeDone(unsolved)]
    assert list(show(iter(events), make_console())) == events
    assert capsys.readouterr().out.splitlines() == [
        "1 shapes, 3 candidates, offline, by compiling and modelling, for "
        "AMD Instinct MI355X (gfx950, 256 CUs); 1 known from out/trials.sqlite",
        "0 s: 16x2112x7168: unsolved, 1 crashed; 1 tried, 2 not tried, "
        "the first failed with SIGSEGV: [bold] :bomb:",
    ]


def test_a_terminal_keeps_what_is_finished() -> None:
    to, text = console(terminal=True)
    solved = task(SCREENED, CHECKED)
    events: list[Event] = [begun(solved), Tried(solved, SCREENED), ShapeDone(solved)]
    assert list(show(iter(events), to)) == events
    assert done_line(solved) in text.getvalue()


def test_a_pipe_is_wide_enough_for_a_whole_route(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("[bold] :bomb: " + 380 * "x")
    make_console(stderr=True).print("[/]")
    assert capsys.readouterr() == ("[bold] :bomb: " + 380 * "x" + "\n", "[/]\n")


ERROR = Checked(where="gpu", shape=(16, 2112, 7168), seeds=2, worst=0.9, largest_error=0.1)
OBJECTS = Objects(lds_bytes=4096)
MEASURED = Measured(
    median_us=8.5,
    low_us=8.25,
    high_us=9.0,
    rounds=60,
    baseline="torch.mm bf16",
    baseline_us=13.25,
    deterministic=True,
    error=ERROR,
    objects=OBJECTS,
)
MODELLED = Modelled(
    score_us=11.504,
    runner_up=RunnerUp(family="direct", config={}, us=12.25),
    deterministic=True,
    error=ERROR,
    objects=OBJECTS,
)


def entry(shape: tuple[int, int, int], evidence: Evidence) -> Entry:
    return Entry(shape=shape, family="fused", config=dict(FAST.config), evidence=evidence)


def test_the_table_at_the_end_has_a_row_for_every_shape() -> None:
    table = RouteTable(
        device=DeviceInfo(arch="gfx950", name="AMD Instinct MI355X", compute_units=256),
        made=Made(at="2026-01-02T03:04:05+00:00", mxtune="0.1.0"),
        routes=(entry((16, 2112, 7168), MEASURED), entry((1, 32, 128), MODELLED)),
    )
    tasks = (
        task(TIMED, CRASHED, HUNG),
        task(SCREENED, CHECKED, shape=Shape(1, 32, 128)),
        task(Trial(SHAPE, FAST, "screen", "wrong"), HUNG, shape=Shape(3, 70, 96)),
    )
    to, text = console()
    to.print(results_table(Ended(table, Path("out/routes.json"), tasks, {}, {})))
    assert [line.rstrip() for line in text.getvalue().splitlines()] == [
        "shape         route            result                             against"
        "                 wrong  failed",
        "16x2112x7168  fused 16x32x256  8.50 us                            torch.mm bf16 13.25 us"
        "  0      2",
        "1x32x128      fused 16x32x256  score 11.50 (modelled, not timed)  direct 12.25"
        "            0      0",
        "3x70x96                        unsolved"
        "                                                   1      1",
    ]
