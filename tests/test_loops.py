"""What a wave executes in a trip of its main loop: found in machine code, and held to a budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import pytest

pytest.importorskip("tinygrad", reason="instructions are decoded with tinygrad")
pytest.importorskip("elftools", reason="ELF files are read with pyelftools")

from tests.older_triton import Compiler
from tests.triton_release import RELEASE

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.build import require_triton, version_pair
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route, family
from mxtune.tuner.emulate.instruction import Instruction
from mxtune.tuner.emulate.route import kernel_objects
from mxtune.tuner.loops import Trip, main_loop, trip_of

GFX950 = load_device("gfx950")
MFMA, WAIT, LOOP, END = "V_MFMA_F32_16X16X16_F16", "S_NOP", "S_CBRANCH_SCC1", "S_ENDPGM"


def listed(*words: tuple[str, int] | str) -> list[Instruction]:
    """Instructions of 4 bytes; a branch comes with the place in the list that it goes to."""
    names = [word if isinstance(word, str) else word[0] for word in words]
    places = [0 if isinstance(word, str) else word[1] for word in words]
    starts = list(accumulate([4] * len(words), initial=0))
    return [
        Instruction(pc, 4, name, "SOPP", {"simm16": (place - at - 1) & 0xFFFF}, 0, 0, 0)
        for at, (pc, name, place) in enumerate(zip(starts, names, places, strict=False))
    ]


def test_the_loop_with_most_matrix_instructions_is_the_main_one() -> None:
    code = listed(WAIT, MFMA, (LOOP, 1), WAIT, MFMA, MFMA, WAIT, (LOOP, 4), MFMA, (LOOP, 8), END)
    assert main_loop(code) == code[4:8]


def test_of_two_loops_with_as_many_the_inner_one_counts() -> None:
    code = listed(WAIT, WAIT, MFMA, MFMA, (LOOP, 2), WAIT, (LOOP, 1), END)
    assert main_loop(code) == code[2:5]


def test_a_jump_forwards_is_no_loop_and_code_without_one_counts_whole() -> None:
    code = listed(WAIT, ("S_BRANCH", 3), MFMA, MFMA, END)
    assert main_loop(code) == code
    assert main_loop([]) == []


def test_a_loop_of_one_instruction_and_one_closed_by_a_plain_branch_are_loops() -> None:
    alone = listed(WAIT, (LOOP, 1), END)
    assert main_loop(alone) == alone[1:2]
    plain = listed(WAIT, ("S_CBRANCH_VCCZ", 4), MFMA, ("S_BRANCH", 1), END)
    assert main_loop(plain) == plain[1:4]


def test_what_is_not_in_a_trip_counts_zero_and_the_total_is_of_all() -> None:
    trip = Trip({"valu": 7, "lds_read": 2})
    assert (trip["valu"], trip["barrier"], trip.total) == (7, 0, 9)


def test_a_trip_of_a_gemm_stores_nothing_and_a_kernel_without_a_loop_counts_whole() -> None:
    shape = Shape(16, 64, 1024)
    config = family("direct").fallback(shape)
    quantise, gemm = kernel_objects(Route("direct", config), Problem.contiguous(shape, GFX950))
    trip = trip_of(gemm.elf)
    assert trip["mfma_scaled"] in (2, 4)  # a step of 16x64x256 on 4 warps is 2; a trip may be two
    assert (trip["store"], trip["load"] + trip["load_to_lds"] > 0, trip["branch"]) == (0, True, 1)
    whole = trip_of(quantise.elf)
    assert (whole["mfma_scaled"], whole["branch"]) == (0, 0)
    assert (whole["load"] > 0, whole["store"] > 0) == (True, True)


@dataclass(frozen=True, slots=True)
class Most:
    """What one step of the loop may execute; 5 % more is let pass."""

    total: int
    vector: int
    lds_writes: int
    lds_reads: int
    barriers: int


OURS: Mapping[str, Value] = {"convert": "hardware", "split_k": 1}
READY: Mapping[str, Value] = {"weights": "shuffled"}
NEWER, OLDER = (3, 9), version_pair(RELEASE)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the study of gfx950 code: a tile, and what a step of its loop takes."""

    family: str
    settings: Mapping[str, Value]
    tile: tuple[int, int, int, int, int]  # M, N, K, warps, stages
    matrix: int  # scaled MFMAs a step: M*N*K over 32768 and warps, M at least 16
    conversions: int  # a step: M*K over 128 and warps, at least two chains of four
    most: Mapping[tuple[int, int], Most]  # by version of Triton

    def __str__(self) -> str:
        m, n, k, warps, stages = self.tile
        return f"{self.family} {m}x{n}x{k} w{warps} s{stages}"


# The study's own prototype took 162, 173, 135, 162, 126, 267, 69 and 156 instructions in the rows
# of fused_preshuffle under 3.9, 189, 180, 156, 184, 150, 319, 74 and 166 under 3.6; AITER's
# a16wfp4 kernel 724, 719, -, 717, -, 1366, 211 and 428 under 3.9.
ROWS = [
    Row(
        "fused_preshuffle",
        OURS,
        (16, 128, 512, 4, 1),
        matrix=8,
        conversions=16,
        most={NEWER: Most(160, 77, 8, 8, 4), OLDER: Most(195, 96, 8, 8, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (16, 64, 256, 2, 2),
        matrix=4,
        conversions=16,
        most={NEWER: Most(174, 106, 8, 5, 4), OLDER: Most(192, 128, 9, 5, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (16, 64, 256, 2, 1),
        matrix=4,
        conversions=16,
        most={NEWER: Most(140, 73, 8, 4, 4), OLDER: Most(164, 93, 8, 4, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (32, 128, 256, 4, 2),
        matrix=8,
        conversions=16,
        most={NEWER: Most(160, 93, 2, 7, 4), OLDER: Most(185, 101, 3, 7, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (32, 128, 256, 4, 1),
        matrix=8,
        conversions=16,
        most={NEWER: Most(130, 60, 2, 6, 4), OLDER: Most(156, 66, 2, 6, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (64, 128, 256, 4, 2),
        matrix=16,
        conversions=32,
        most={NEWER: Most(281, 170, 3, 11, 4), OLDER: Most(320, 179, 4, 10, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (16, 256, 256, 8, 1),
        matrix=4,
        conversions=8,
        most={NEWER: Most(68, 22, 2, 4, 4), OLDER: Most(76, 28, 2, 4, 4)},
    ),
    Row(
        "fused_preshuffle",
        OURS,
        (8, 128, 512, 4, 1),
        matrix=8,
        conversions=8,
        most={NEWER: Most(157, 44, 13, 18, 14), OLDER: Most(172, 54, 13, 17, 14)},
    ),
    Row(
        "direct",
        READY,
        (16, 128, 512, 4, 1),
        matrix=8,
        conversions=0,
        most={NEWER: Most(70, 11, 2, 8, 4), OLDER: Most(85, 14, 2, 8, 4)},
    ),
    Row(
        "direct",
        READY,
        (16, 64, 256, 2, 2),
        matrix=4,
        conversions=0,
        most={NEWER: Most(73, 29, 1, 6, 2), OLDER: Most(64, 28, 3, 5, 2)},
    ),
    Row(
        "direct",
        READY,
        (32, 128, 256, 4, 2),
        matrix=8,
        conversions=0,
        most={NEWER: Most(88, 30, 1, 9, 2), OLDER: Most(100, 31, 3, 9, 2)},
    ),
]


def trip_of_row(compiler: Compiler, row: Row) -> Trip:
    """Compile a row and count the loop of its GEMM."""
    m, n, k, warps, stages = row.tile
    shape = Shape(max(m, 16), 2048, 7168)
    config = family(row.family).fallback(shape).changed(**row.settings)
    config = config.changed(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=warps, num_stages=stages)
    config = config.changed(waves_per_eu=1, matrix_instr_nonkdim=16, cache_modifier=".cg")
    route = checked_route(Route(row.family, config))
    objects = compiler(route, Problem.contiguous(shape, GFX950))
    return trip_of(objects[-1].elf)


def hold(trip: Trip, row: Row, most: Most) -> None:
    """Compare a trip, of one step or of several, with the budget of a step."""
    steps, rest = divmod(trip["mfma_scaled"], row.matrix)
    assert (steps >= 1, rest, trip["mfma_other"]) == (True, 0, 0)
    assert trip["convert"] == steps * row.conversions
    took = {
        "total": trip.total,
        "vector": trip["valu"],
        "lds_writes": trip["lds_write"],
        "lds_reads": trip["lds_read"] + trip["lds_permute"],
        "barriers": trip["barrier"],
    }
    over = {
        what: f"{count / steps:g} for {getattr(most, what)}"
        for what, count in took.items()
        if count > 1.05 * steps * getattr(most, what)
    }
    assert over == {}
    assert trip["scratch_load"] + trip["scratch_store"] == 0


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_step_executes_no_more_than_it_did(row: Row) -> None:
    version = version_pair(require_triton())
    if version not in row.most:
        pytest.skip(f"nobody has counted with triton {version[0]}.{version[1]}")
    hold(trip_of_row(kernel_objects, row), row, row.most[version])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_step_executes_no_more_than_it_did_with_an_older_triton(
    older_triton: Compiler, row: Row
) -> None:
    hold(trip_of_row(older_triton, row), row, row.most[OLDER])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"valu": 81}, "'vector': '81 for 77'"),
        ({"barrier": 5}, "'barriers': '5 for 4'"),
        ({"lds_permute": 1}, "'lds_reads': '9 for 8'"),
        ({"convert": 15}, "assert 15 == (1 * 16)"),
        ({"mfma_scaled": 7}, "assert (False, 7, 0) == (True, 0, 0)"),
        ({"mfma_other": 8}, "assert (True, 0, 8) == (True, 0, 0)"),
        ({"scratch_load": 1}, "assert (1 + 0) == 0"),
    ],
    ids=str,
)
def test_the_budget_notices_what_is_more_or_missing(changes: Mapping[str, int], said: str) -> None:
    usual = {"valu": 80, "barrier": 4, "lds_read": 8, "convert": 16, "mfma_scaled": 8}
    hold(Trip(usual), ROWS[0], ROWS[0].most[NEWER])
    with pytest.raises(AssertionError) as caught:
        hold(Trip({**usual, **changes}), ROWS[0], ROWS[0].most[NEWER])
    assert said in str(caught.value)
    twice = {kind: 2 * count for kind, count in usual.items()}
    hold(Trip(twice), ROWS[0], ROWS[0].most[NEWER])
