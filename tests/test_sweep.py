"""Small sweeps for a GPU that is not here, through the command line, disturbed in many ways."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.evidence import Modelled
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.candidates import candidates
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import own_families

SHAPES = ("1x32x128", "3x70x96")
OFFERED = [
    len(candidates(own_families(), Shape.parse(word), load_device("gfx950")).routes)
    for word in SHAPES
]
TRIALS = 12  # four compiled candidates, a check and an emulation a shape
MXTUNE = "from mxtune.cli import app; app()"
COMPILER_FAILS = """
from functools import partial
from mxtune.tuner import offline
make = offline.compile_crew
offline.compile_crew = lambda settings: make(settings, partial(partial, int))
"""
SLOW_TO_CLOSE = """
import time
from mxtune.tuner import offline
offline.Crew = type("Slow", (offline.Crew,), {"close": lambda self: time.sleep(60)})
"""
NO_COMPILER = (
    "the first failed with TypeError: int() argument must be a string, a bytes-like object or a "
    "real number, not 'CompileJob'"
)

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Compiled kernels are kept between the tests; a GPU that is here is hidden."""
    cache = tmp_path_factory.getbasetemp() / "triton"
    return {**os.environ, "TRITON_CACHE_DIR": str(cache), "CUDA_VISIBLE_DEVICES": "-1"}


def command(out: Path, *shapes: str, program: str = MXTUNE) -> list[str]:
    options = ("--target", "gfx950", "--max-candidates", "4", "--out", str(out))
    return [sys.executable, "-P", "-c", program, "sweep", *shapes, *options]


@pytest.fixture(scope="module")
def sweep(environment: Mapping[str, str]) -> Callable[[list[str]], Done]:
    def run(words: list[str]) -> Done:
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="module")
def undisturbed(
    sweep: Callable[[list[str]], Done], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Done]:
    out = tmp_path_factory.mktemp("undisturbed")
    return out, sweep(command(out, *SHAPES))


def trials(out: Path) -> Counter[tuple[Any, ...]]:
    """Count the rows of a store by shape, route and stage; none while there is no store."""
    try:
        with closing(sqlite3.connect(f"file:{out}/trials.sqlite?mode=rw", uri=True)) as store:
            return Counter(store.execute("SELECT m, n, k, family, config, stage FROM trials"))
    except sqlite3.OperationalError:
        return Counter()


def routes(out: Path) -> Any:
    return json.loads((out / "routes.json").read_text("utf-8"))["routes"]


def assert_whole(out: Path, undisturbed: Path) -> None:
    """Check that a store holds every trial once and the table is that of ``undisturbed``."""
    found = trials(out)
    assert (len(found), set(found.values())) == (TRIALS, {1})
    assert routes(out) == routes(undisturbed)


def test_every_shape_gets_a_legal_route_whose_numbers_were_checked(
    undisturbed: tuple[Path, Done],
) -> None:
    out, done = undisturbed
    assert done.returncode == 0
    table = RouteTable.load(out / "routes.json")
    assert (table.device.arch, table.made.regime) == ("gfx950", None)
    assert [entry.key for entry in table.routes] == [Shape(1, 32, 128), Shape(3, 70, 96)]
    for entry in table.routes:
        assert isinstance(entry.evidence, Modelled)
        assert entry.evidence.error.where == "interpreter"
        assert entry.evidence.error.shape == entry.shape
        assert entry.evidence.error.seeds == 2
        assert 0 < entry.evidence.error.worst <= 1
        assert entry.evidence.emulated
        assert (entry.evidence.emulated.where, entry.evidence.emulated.seeds) == ("emulator", 1)
        assert 0 < entry.evidence.emulated.worst <= 1
        assert entry.evidence.objects.scaled_mfma
        assert entry.evidence.runner_up
        assert entry.evidence.score_us <= entry.evidence.runner_up.us
        planned(entry.route, Problem.contiguous(entry.key, load_device("gfx950")))


def test_results_go_to_stdout_and_all_else_to_stderr(undisturbed: tuple[Path, Done]) -> None:
    out, done = undisturbed
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["shape", *SHAPES]
    assert [row[-2:] for row in rows] == [["wrong", "failed"], ["0", "0"], ["0", "0"]]
    # on a slow machine there are lines of progress, too: those do not begin with a time
    lines = done.stderr.splitlines()
    said = [line for line in lines if not re.match(r"\d+x\d+x\d+: ", line)]
    assert said[0] == (
        "2 shapes, 8 candidates, offline, by compiling and modelling, for "
        "AMD Instinct MI355X (gfx950, 256 CUs)"
    )
    assert [line.count("4 tried") for line in said] == [0, 1, 1, 0, 0]
    assert said[3] == f"{sum(OFFERED)} candidates: {sum(OFFERED) - 8} not tried, 8 ok"
    assert said[4] == f"{out}/routes.json: 2 routes"


def test_exactly_the_asked_shapes_are_swept(undisturbed: tuple[Path, Done]) -> None:  # BL-063
    out, _ = undisturbed
    assert {row[:3] for row in trials(out)} == {(1, 32, 128), (3, 70, 96)}


def test_a_list_of_comments_is_no_default_list(  # BL-063
    sweep: Callable[[list[str]], Done], tmp_path: Path
) -> None:
    listed = tmp_path / "shapes.csv"
    listed.write_text("# M,N,K\n# 1,32,128\n", "utf-8")
    done = sweep(command(tmp_path / "out", "--shapes", str(listed)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"mxtune: no shapes in {listed}\n"


def test_a_second_sweep_tries_nothing_again(
    undisturbed: tuple[Path, Done], sweep: Callable[[list[str]], Done]
) -> None:
    out, first = undisturbed
    again = sweep(command(out, *SHAPES))
    assert again.returncode == 0
    assert f"; 8 known from {out}/trials.sqlite" in again.stderr.splitlines()[0]
    assert again.stdout == first.stdout
    assert_whole(out, out)


def begun(words: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a sweep in a process group of its own, as a shell does."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def until(process: "subprocess.Popen[str]", condition: Callable[[], bool]) -> list[psutil.Process]:
    """Wait for a moment of a sweep; return the children that it has then."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "the sweep ended before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return list(psutil.Process(process.pid).children(recursive=True))


@pytest.mark.parametrize("stage", ["screen", "check", "emulate"])
def test_a_killed_sweep_goes_on_where_it_was(  # BL-052
    stage: str,
    undisturbed: tuple[Path, Done],
    sweep: Callable[[list[str]], Done],
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    words = command(tmp_path, *SHAPES)
    with begun(words, environment) as process:
        children = until(process, lambda: any(row[-1] == stage for row in trials(tmp_path)))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert psutil.wait_procs(children, timeout=2)[1] == []
    before = trials(tmp_path)
    assert 1 <= len(before) < TRIALS
    known = sum(row[-1] == "screen" for row in before)
    done = sweep(words)
    assert done.returncode == 0
    assert f"; {known} known from " in done.stderr.splitlines()[0]
    assert_whole(tmp_path, undisturbed[0])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_or_sigterm_ends_a_sweep_at_once_and_it_goes_on_later(  # BL-073
    number: signal.Signals,
    status: int,
    undisturbed: tuple[Path, Done],
    sweep: Callable[[list[str]], Done],
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    words = command(tmp_path, *SHAPES)
    process = begun(words, environment)
    children = until(process, lambda: len(trials(tmp_path)) > 0)
    os.killpg(process.pid, number)
    out, said = process.communicate(timeout=5)
    assert (process.returncode, out) == (status, "")
    assert said.splitlines()[-1] == "mxtune: stopped; the same command goes on where it was"
    assert sum("candidates" not in line and "tried" not in line for line in said.splitlines()) == 1
    assert psutil.wait_procs(children, timeout=2)[1] == []
    with closing(sqlite3.connect(tmp_path / "trials.sqlite")) as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert sweep(words).returncode == 0
    assert_whole(tmp_path, undisturbed[0])


def test_a_second_ctrl_c_does_not_wait_for_the_first(  # BL-073
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    process = begun(command(tmp_path, *SHAPES, program=SLOW_TO_CLOSE + MXTUNE), environment)
    children = until(process, lambda: len(trials(tmp_path)) > 0)
    os.killpg(process.pid, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=1)
    assert process.returncode == 130
    assert psutil.wait_procs(children, timeout=2)[1] == []
    assert len(trials(tmp_path)) > 0


def test_what_the_caller_ignores_stays_ignored(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    quiet = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {MXTUNE}"
    process = begun(command(tmp_path, *SHAPES, program=quiet), environment)
    until(process, lambda: len(trials(tmp_path)) > 0)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_ctrl_c_while_the_machine_is_probed_is_one_line(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    process = begun(command(tmp_path, *SHAPES), environment)
    until(process, lambda: len(psutil.Process(process.pid).children()) == 2)  # one is the tracker
    os.killpg(process.pid, signal.SIGINT)
    out, said = process.communicate(timeout=5)
    assert (process.returncode, out) == (130, "")
    assert said == "mxtune: stopped; the same command goes on where it was\n"


def test_a_sweep_where_all_fail_counts_the_reasons(  # BL-069
    sweep: Callable[[list[str]], Done], tmp_path: Path
) -> None:
    done = sweep(command(tmp_path, *SHAPES, program=COMPILER_FAILS + MXTUNE))
    assert (done.returncode, done.stdout) == (3, "")
    said = [line.partition(" s: ")[2] or line for line in done.stderr.splitlines()]
    assert sorted(said[1:3]) == [
        f"1x32x128: unsolved, 4 failed_compile; 4 tried, {OFFERED[0] - 4} not tried, {NO_COMPILER}",
        f"3x70x96: unsolved, 4 failed_compile; 4 tried, {OFFERED[1] - 4} not tried, {NO_COMPILER}",
    ]
    assert said[3:] == ["mxtune: 2 of 2 unsolved: 1x32x128, 3x70x96; nothing is written"]
    assert not (tmp_path / "routes.json").exists()


def test_an_unsolved_shape_does_not_keep_the_others_from_their_table(  # BL-069
    sweep: Callable[[list[str]], Done], undisturbed: tuple[Path, Done], tmp_path: Path
) -> None:
    assert sweep(command(tmp_path, "3x70x96")).returncode == 0
    done = sweep(command(tmp_path, *SHAPES, program=COMPILER_FAILS + MXTUNE))
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].split() == ["1x32x128", "unsolved", "0", "4"]
    assert done.stderr.splitlines()[-1] == (
        f"mxtune: 1 of 2 unsolved: 1x32x128; the others are in {tmp_path}/routes.json"
    )
    assert routes(tmp_path) == routes(undisturbed[0])[1:]
