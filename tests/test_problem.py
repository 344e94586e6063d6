"""The contest's harness runs unchanged in a child: here with small files that speak as it does."""

import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError, MissingError, WrongResultError
from mxtune.configs.settings import Settings
from mxtune.tuner.machine import Machine
from mxtune.tuner.problem import MODES, Mode, ProblemReport, read_problem, run_problem

SETTINGS = Settings(Path("cache"), "", {})
MACHINE = Machine("2", "3", "3.11", None, (), (), "no GPU is visible", ())
WITH_A_GPU = replace(MACHINE, gpus=(load_device("sm_90"),), note="")  # which these do not touch

# Speaks the protocol of the contest's eval.py: a mode, a file of cases, POPCORN_FD.
EVAL = """
import os, sys
import reference, task, utils
from submission import custom_kernel

mode, file = sys.argv[1:]
cases = open(file).read().splitlines()
with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as out:
    def log(key, value): print(f"{key}: {value}", file=out, flush=True)
    what = "test" if mode == "test" else "benchmark"
    log(f"{what}-count", len(cases))
    for at, case in enumerate(cases):
        log(f"{what}.{at}.spec", case)
        for key, value in custom_kernel(mode, case).items():
            log(f"{what}.{at}.{key}", value)
    log("check", "pass")
print("the end", file=sys.stderr)
sys.exit(0)
"""
RIGHT = """
def custom_kernel(mode, case):
    if mode == "test":
        return {"status": "pass"}
    m = int(case.split(";")[0].split(":")[1])
    return {"runs": 3, "mean": 1000.0 * m, "best": 900.0 * m, "worst": 2000.0 * m}
"""
TASK = """
tests:
  - {"m": 8, "n": 2112, "k": 7168, "seed": 124}
benchmarks:
  - {"m": 4, "n": 2880, "k": 512, "seed": 4565}
  - {"m": 16, "n": 2112, "k": 7168, "seed": 15}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A problem as it lies in the contest's repository: some files one folder up."""
    inner = tmp_path / "all" / "mxfp4-mm"
    inner.mkdir(parents=True)
    for name in ("reference.py", "task.py"):
        (inner / name).write_text("", "utf-8")
    (inner.parent / "utils.py").write_text("", "utf-8")
    (inner.parent / "eval.py").write_text(EVAL, "utf-8")
    (inner / "task.yml").write_text(TASK, "utf-8")
    return inner


def submitted(folder: Path, code: str) -> Path:
    file = folder.parent.parent / "mine.py"
    file.write_text(code, "utf-8")
    return file


def test_every_mode_runs_and_its_times_are_told(folder: Path) -> None:
    report = run_problem(submitted(folder, RIGHT), folder, WITH_A_GPU, SETTINGS)
    assert list(report.lines()) == [
        "test         all 1 right",
        "benchmark    4.00 us (3.60 to 8.00)  m: 4; n: 2880; k: 512; seed: 4565",
        "benchmark    16.00 us (14.40 to 32.00)  m: 16; n: 2112; k: 7168; seed: 15",
        "benchmark    8.00 us, the geometric mean",
        "leaderboard  4.00 us (3.60 to 8.00)  m: 4; n: 2880; k: 512; seed: 4565",
        "leaderboard  16.00 us (14.40 to 32.00)  m: 16; n: 2112; k: 7168; seed: 15",
        "leaderboard  8.00 us, the geometric mean",
    ]
    assert report.as_json()["test"] == {
        "test-count": "1",
        "test.0.spec": "m: 8; n: 2112; k: 7168; seed: 124",
        "test.0.status": "pass",
        "check": "pass",
    }
    assert not list(folder.glob("submission.py"))  # nothing is left in the user's folder


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "def custom_kernel(mode, case):\n    return {'error': 'two\\\\nlines ' + 'x' * 300}",
            "test: m: 8; n: 2112; k: 7168; seed: 124: two; lines xxxx",
        ),
        (
            "def custom_kernel(mode, case):\n    raise ValueError('no route')",
            "test: eval.py ended with 1: ValueError: no route",
        ),
        ("import nowhere", "test: eval.py ended with 1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(111)", "test: eval.py ended with 111: it said nothing"),
        (RIGHT.replace('"pass"', "1 / 0"), "test: eval.py ended with 1: ZeroDivisionError"),
    ],
)
def test_the_first_thing_that_is_wrong_is_one_line(code: str, said: str, folder: Path) -> None:
    with pytest.raises(WrongResultError) as caught:
        run_problem(submitted(folder, code), folder, WITH_A_GPU, SETTINGS)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_aiter_is_stood_in_for_where_there_is_none(folder: Path) -> None:
    (folder / "reference.py").write_text("from aiter.ops.shuffle import shuffle_weight", "utf-8")
    file = submitted(folder, RIGHT)
    report = run_problem(file, folder, WITH_A_GPU, SETTINGS, MODES[:1])
    assert list(report.lines()) == ["test         all 1 right"]


def test_what_does_not_end_is_killed_with_its_children(folder: Path, tmp_path: Path) -> None:
    child = tmp_path / "child"
    (folder.parent / "eval.py").write_text(
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)\n",
        "utf-8",
    )
    modes = (Mode("test", "tests", 3.0),)
    with pytest.raises(WrongResultError, match="test: no end within 3 s"):
        run_problem(submitted(folder, RIGHT), folder, WITH_A_GPU, SETTINGS, modes)
    number = int(child.read_text("utf-8"))
    deadline = time.monotonic() + 10
    while lives(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(number)


def lives(number: int) -> bool:
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_the_problems_files_are_asked_for_by_name(folder: Path, tmp_path: Path) -> None:
    (folder.parent / "utils.py").unlink()
    for place, name in ((folder, "utils.py"), (tmp_path / "none", "eval.py")):
        with pytest.raises(ConfigError) as caught:
            read_problem(place)
        assert str(caught.value) == f"{place}: no {name} in it or in the folder above"


def test_cases_are_the_tasks_or_the_contests(folder: Path) -> None:
    assert read_problem(folder).cases["benchmarks"][1] == "m: 16; n: 2112; k: 7168; seed: 15"
    (folder / "task.yml").unlink()
    cases = read_problem(folder).cases
    assert (len(cases["tests"]), len(cases["benchmarks"])) == (4, 6)
    assert cases["benchmarks"][0] == "m: 4; n: 2880; k: 512; seed: 2026"


@pytest.mark.parametrize("text", ["tests: 3", "benchmarks: []", "- a", "{", "tests: [1]"])
def test_a_task_that_cannot_be_read_is_one_line(text: str, folder: Path) -> None:
    (folder / "task.yml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_problem(folder)
    assert str(caught.value).startswith(f"{folder / 'task.yml'}: tests and benchmarks cannot be")
    assert "\n" not in str(caught.value)


def test_without_a_gpu_the_contests_harness_is_not_started(folder: Path) -> None:
    with pytest.raises(MissingError, match="the contest's harness needs a GPU: no GPU is visible"):
        run_problem(submitted(folder, RIGHT), folder, MACHINE, SETTINGS)


def test_a_report_without_benchmarks_has_no_mean() -> None:
    report = ProblemReport({"test": {"test-count": "4", "check": "pass"}})
    assert list(report.lines()) == ["test         all 4 right"]
