"""Fault candidates: each does by itself what its name says."""

import os
import resource
import subprocess
import sys
from functools import partial
from statistics import median

import pytest
import torch

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.regimes import Regime
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import family
from mxtune.tuner.check import SEEDS, check, make_case
from mxtune.tuner.compilers import COMPILE_LIMIT_S
from mxtune.tuner.fault_launches import FOREVER_S
from mxtune.tuner.faults import (
    FAULTS,
    WINNER,
    Chip,
    HostClock,
    bind_fault,
    fault_bench,
    fault_compiler,
    fault_of,
)
from mxtune.tuner.measure import Bench, FinalJob, ScreenJob
from mxtune.tuner.measured import RUN_LIMIT_S
from mxtune.tuner.objects import CompileJob, ObjectFacts

SHAPE = Shape(16, 256, 512)
MI355X = load_device("gfx950")
CASES = tuple(make_case(SHAPE, seed, "cpu") for seed in SEEDS)
RIGHT = ("correct", "slow_but_correct", "lucky_once", "drifts", "reads_zero", "aborts_in_finals")


def route(kind: str) -> Route:
    return Route("fault", Config.of({"kind": kind}))


def reason(kind: str) -> str:
    """Return why the gate refuses a kind; empty if it does not."""
    chip, problem = Chip(HostClock().wait), Problem.contiguous(SHAPE, MI355X)
    verdict = check(CASES, lambda weight: bind_fault(chip, route(kind), problem, weight))
    assert verdict.ok == (not verdict.reason)
    return verdict.reason


def bench() -> Bench:
    return fault_bench(MI355X, "cpu", Regime())


def finals(rounds: int, *kinds: str) -> list[float]:
    """Return the medians of one final."""
    routes = tuple(route(kind) for kind in kinds)
    return [median(samples) for samples in bench().finals(FinalJob(SHAPE, routes, rounds)).routes]


def launched(name: str) -> "subprocess.Popen[str]":
    """Launch a fault in a process of its own, which says so before and after."""
    program = f"from mxtune.tuner.fault_launches import *; print('now', flush=True); {name}()"
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", f"{program}; print('after')"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "now\n"
    return child


def test_kinds_are_distinct_and_no_sweep_can_meet_them() -> None:
    assert len({fault.kind for fault in FAULTS}) == len(FAULTS) == 30
    assert [fault.kind for fault in FAULTS if "cpu" not in fault.places] == [
        "illegal_access",
        "spins",
    ]
    assert fault_of(route(WINNER)).expected == "ok"
    with pytest.raises(ConfigError, match="no family is called 'fault'"):
        family("fault")


@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_kind_passes_the_gate(kind: str) -> None:
    assert reason(kind) == ""


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [  # BL-083, BL-084, BL-085: the position of the worst is told
        ("returns_zeros", "4096 of 4096 wrong, worst at ("),
        ("does_nothing", "4096 of 4096 not finite, first at (0, 0)"),
        ("scaled", " of 4096 wrong, worst at ("),
        ("last_k_block_missing", " of 4096 wrong, worst at ("),
        ("tile_hole", "256 of 4096 wrong, worst at ("),
        ("rows_swapped", "512 of 4096 wrong, worst at ("),
        ("left_half", "2048 of 4096 not finite, first at (0, 128)"),
        ("right_half", "2048 of 4096 not finite, first at (0, 0)"),
        ("adds_into_output", "4096 of 4096 not finite, first at (0, 0)"),
        ("changes_input", "it changed its input"),
        ("nan", "1 of 4096 not finite, first at (15, 255)"),
    ],
)
def test_a_wrong_kind_is_refused(kind: str, refusal: str) -> None:
    assert refusal in reason(kind)


@pytest.mark.parametrize("order", [("left_half", "right_half"), ("right_half", "left_half")])
def test_half_an_output_is_refused_in_both_orders(order: tuple[str, str]) -> None:  # BL-085
    both = bench()
    verdicts = [both.screen(ScreenJob(SHAPE, route(kind))).verdict for kind in order]
    assert [verdict.ok for verdict in verdicts] == [False, False]


@pytest.mark.parametrize(
    ("name", "status"), [("abort", -6), ("segfault", -11), ("exit_quietly", 0)]
)
def test_a_dying_kind_dies(name: str, status: int) -> None:  # BL-064
    with launched(name) as child:
        said, _ = child.communicate(timeout=20)
    assert (child.returncode, said) == (status, "")


@pytest.mark.parametrize(("name", "heeds"), [("hang", True), ("hang_ignoring_sigterm", False)])
def test_a_hanging_kind_hangs(name: str, *, heeds: bool) -> None:  # BL-065
    with launched(name) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.terminate()
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait(20)
    assert child.returncode == (-15 if heeds else -9)


def test_memory_runs_out_and_the_cap_is_lifted_again() -> None:  # BL-072
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(torch.OutOfMemoryError):
        reason("raises_oom")
    with pytest.raises(MemoryError):
        reason("allocates_everything")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_compiling() -> None:  # BL-070
    compile_, job = fault_compiler(), partial(CompileJob, shape=SHAPE, device=MI355X)
    assert compile_(job(route("correct"))) == (ObjectFacts("gemm", lds_bytes=0),)
    with pytest.raises(ValueError, match="the compiler cannot do this"):
        compile_(job(route("breaks_compiler")))
    assert fault_of(route("aborts_compiler")).compile is os.abort
    assert 10 * max(COMPILE_LIMIT_S, RUN_LIMIT_S) < FOREVER_S


def test_luck_lasts_for_a_screening_but_not_for_a_final() -> None:  # BL-078
    first = bench().screen(ScreenJob(SHAPE, route("lucky_once")))
    usual = bench().screen(ScreenJob(SHAPE, route("correct")))
    assert (first.samples_us, usual.samples_us) == ((6.0,) * 20, (21.0,) * 20)
    assert finals(100, "lucky_once", "correct") == [61.0, 21.0]


def test_a_drifting_clock_fools_readings_in_sequence_but_not_interleaved_ones() -> None:
    one_chip = bench()
    sequence = [
        median(one_chip.finals(FinalJob(SHAPE, (route(kind),), 100)).routes[0])
        for kind in ("drifts", "correct")
    ]
    assert sequence[0] < sequence[1]  # the slower one, on a chip that was still cool
    drifting, steady = finals(100, "drifts", "correct")
    assert drifting > 1.2 * steady


def test_a_clock_that_stands_reads_zero() -> None:  # BL-056
    assert bench().screen(ScreenJob(SHAPE, route("reads_zero"))).samples_us == (0.0,) * 20
    assert finals(100, "reads_zero_in_finals") == [0.0]


def test_the_stand_in_clock_reads_its_floor_around_nothing() -> None:
    final = bench().finals(FinalJob(SHAPE, (route("correct"),), 3))
    assert (final.routes, final.floor) == (((21.0,) * 3,), (1.0,) * 3)
