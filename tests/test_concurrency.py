"""Sweeps that share a folder or a cache of compiled kernels do not disturb each other."""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable

SHAPES = (Shape(1, 32, 128), Shape(3, 70, 96))
MXTUNE = "from mxtune.cli import app; app()"
COMPILERS = 8

# Compiles the candidates of a shape as a sweep's worker does; says how many kernels came of it.
COMPILER = """
import sys
from mxtune.configs.devices import load_device
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import own_families
from mxtune.tuner.objects import CompileJob, compile_service
from mxtune.tuner.task import make_task

shape, device = Shape(1, 32, 128), load_device("gfx950")
routes = make_task(shape, own_families(), device, 2, ()).ranked
service = compile_service()
sys.stdin.readline()
print(sum(len(service(CompileJob(route, shape, device))) for route in routes))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Nothing is compiled yet; a GPU that is here is hidden."""
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "CUDA_VISIBLE_DEVICES": "-1"}
    return {**os.environ, **cache}


def begun(out: Path, shape: Shape, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    options = ("--target", "gfx950", "--max-candidates", "2", "--out", str(out))
    words = [sys.executable, "-P", "-c", MXTUNE, "sweep", str(shape), *options]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)


def loaded(path: Path) -> str:
    """Return what loading a table comes to."""
    try:
        return f"{len(RouteTable.load(path).routes)} routes"
    except ConfigError as error:
        return str(error).removeprefix(f"{path}: ")


def loads_until_both_end(path: Path, sweeps: list["subprocess.Popen[str]"]) -> Counter[str]:
    """Load a table again and again; count by what came of it."""
    seen: Counter[str] = Counter()
    while any(each.poll() is None for each in sweeps):
        seen[loaded(path)] += 1
        time.sleep(0.0005)  # the sweeps need the core too
    return seen


def test_two_sweeps_into_one_folder_lose_and_tear_nothing(  # BL-050
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sweeps = [begun(out, shape, environment) for shape in SHAPES]
    seen = loads_until_both_end(out / "routes.json", sweeps)
    said = [each.communicate(timeout=60)[1] for each in sweeps]
    assert [each.returncode for each in sweeps] == [0, 0], said
    assert set(seen) <= {"cannot be read (No such file or directory)", "1 routes", "2 routes"}
    assert seen["1 routes"] + seen["2 routes"] > 0
    assert counted(out) == {(*shape_of(shape), stage): n for shape in SHAPES for stage, n in KINDS}
    table = RouteTable.load(out / "routes.json")  # the later sweep's, which saw both
    assert [entry.key for entry in table.routes] == list(SHAPES)
    assert sorted(path.name for path in out.iterdir() if ".sqlite-" not in path.name) == [
        "routes.json",
        "trials.sqlite",
    ]


KINDS = (("screen", 2), ("check", 1), ("emulate", 1))


def shape_of(shape: Shape) -> tuple[int, int, int]:
    return shape.m, shape.n, shape.k


def counted(out: Path) -> dict[Any, int]:
    """Count the trials of a sound store by shape and stage."""
    with closing(sqlite3.connect(out / "trials.sqlite")) as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert store.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
        return Counter(store.execute("SELECT m, n, k, stage FROM trials").fetchall())


def test_processes_that_compile_the_same_kernels_at_once_all_succeed(
    environment: Mapping[str, str],
) -> None:
    words = [sys.executable, "-P", "-c", COMPILER]
    pipe = subprocess.PIPE
    compilers = [
        subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(COMPILERS)
    ]
    for each in compilers:  # all are ready before the first begins
        assert each.stdin
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [each.communicate(timeout=120) for each in compilers]
    assert [each.returncode for each in compilers] == [0] * COMPILERS, answers
    assert len({out for out, _ in answers}) == 1
    assert int(answers[0][0]) >= 2
