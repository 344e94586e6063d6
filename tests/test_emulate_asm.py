"""AITER's hand-written kernels run in the emulator, launched as AITER's host code launches them.

Their objects come in AITER's wheel, which is downloaded once; without a network the tests skip.
"""

import numpy as np
import pytest
from tests.aiter_wheel import aiter_wheel

pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")

from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.shapes import Shape
from mxtune.kernels.asm_catalogue import AsmCatalogue, read_catalogue
from mxtune.tuner.check import make_case
from mxtune.tuner.emulate.asm_answers import product
from mxtune.tuner.emulate.asm_cases import AsmCase, CaseResult, asm_rows, emulate_case
from mxtune.tuner.emulate.asm_launch import (
    ARGUMENT_BYTES,
    UNWRITTEN,
    AsmLaunch,
    AsmOptions,
    asm_grid,
    asm_launch,
)
from mxtune.tuner.emulate.asm_table import facts_of, unexpected
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.launch import run


@pytest.fixture(scope="session")
def catalogue() -> AsmCatalogue:
    """Return the kernels of AITER's wheel, downloaded if it is not there yet."""
    return read_catalogue(aiter_wheel())


def prepare(
    catalogue: AsmCatalogue,
    label: str,
    shape: tuple[int, int, int],
    options: AsmOptions = AsmOptions(),  # noqa: B008
) -> AsmLaunch:
    (kernel,) = catalogue.called(label)
    code = CodeObject.read(catalogue.code(kernel), kernel.name)
    return asm_launch(kernel, code, make_case(Shape(*shape), 1, "cpu"), options)


def ask(catalogue: AsmCatalogue, label: str, case: AsmCase) -> CaseResult:
    (kernel,) = catalogue.called(label)
    return emulate_case(kernel, CodeObject.read(catalogue.code(kernel), kernel.name), case)


def test_the_argument_struct_has_a_slot_of_16_bytes_for_each_field(
    catalogue: AsmCatalogue,
) -> None:
    launch = prepare(catalogue, "32x128", (17, 160, 896)).launch
    assert len(launch.arguments) == ARGUMENT_BYTES == 372
    words = np.frombuffer(launch.arguments, np.uint32)
    assert words[16:24:4].view(np.float32).tolist() == [1.0, 0.0]  # alpha, beta
    # strides of C, A and B in elements, then M, N, K; scale strides in padded bytes
    assert words[[32, 40, 48, 56, 60, 64]].tolist() == [160, 896, 896, 17, 160, 896]
    assert words[[76, 84, 92]].tolist() == [32, 32, 0]
    unset = [24, 28, 36, 44, 52, 80, 88]  # what the host leaves as its stack was
    assert {hex(word) for word in words[unset]} == {"0xa5a5a5a5"}


@pytest.mark.parametrize(
    ("label", "shape", "log2_k_split", "grid"),
    [
        ("32x128", (33, 160, 512), 0, (2, 2, 1)),
        ("32x128", (33, 160, 512), 2, (2, 2, 1)),  # AITER never splits with it
        ("256x256", (257, 256, 1024), 1, (1, 2, 2)),
        ("256x256", (1, 256, 768), 1, (1, 1, 2)),  # 512 and 256
        ("256x256", (1, 256, 1280), 2, (1, 1, 3)),  # 512, 512 and 256
    ],
)
def test_the_grid_is_the_one_that_aiters_host_code_launches(
    catalogue: AsmCatalogue,
    label: str,
    shape: tuple[int, int, int],
    log2_k_split: int,
    grid: tuple[int, int, int],
) -> None:
    (kernel,) = catalogue.called(label)
    assert asm_grid(kernel, Shape(*shape), log2_k_split) == grid


@pytest.mark.parametrize(
    ("label", "shape"),
    [
        ("32x128", (1, 160, 512)),
        ("32x128", (33, 128, 896)),
        ("64x128", (96, 128, 512)),
        ("96x128", (31, 128, 768)),
        ("128x128", (33, 160, 512)),
        ("32x1024", (4, 1024, 512)),
        ("256x256", (256, 256, 512)),
    ],
)
def test_a_tile_computes_the_product_and_nothing_speaks_against_it(
    catalogue: AsmCatalogue, label: str, shape: tuple[int, int, int]
) -> None:
    assert str(ask(catalogue, label, AsmCase("exact", Shape(*shape)))).endswith(": right")


def test_rows_behind_the_last_are_not_written(catalogue: AsmCatalogue) -> None:
    prepared = prepare(catalogue, "32x128", (5, 128, 512), AsmOptions(row_stride=192))
    assert run(prepared.launch, prepared.memory).findings == ()
    assert (prepared.output()[:, 128:] == UNWRITTEN).all()
    assert (prepared.output()[:, :128] != UNWRITTEN).all()


def test_columns_that_are_not_a_multiple_of_32_come_out_wrong(catalogue: AsmCatalogue) -> None:
    result = ask(catalogue, "32x128", AsmCase("odd_n", Shape(17, 48, 512)))
    assert str(result).startswith(
        "17x48x512: 528 elements wrong, in 17 rows and 32 columns (0 to 47)"
    )


# 128x512, 192x256, 224x256 and 256x256 do not mask the columns of C behind the last.
def test_wide_tiles_race_with_themselves_where_n_is_ragged(catalogue: AsmCatalogue) -> None:
    result = ask(catalogue, "192x256", AsmCase("ragged_n", Shape(17, 288, 512)))
    assert result.wrong is not None
    assert (result.wrong.first_column, result.wrong.last_column) == (0, 223)
    assert result.reversed_wrong is None
    assert result.races


def test_wide_tiles_are_right_where_rows_have_room_for_all_columns(
    catalogue: AsmCatalogue,
) -> None:
    prepared = prepare(catalogue, "192x256", (17, 288, 512), AsmOptions(row_stride=512))
    assert run(prepared.launch, prepared.memory).findings == ()
    bits = prepared.output()[:, :288].astype(np.uint32) << 16
    answer = product(make_case(Shape(17, 288, 512), 1, "cpu"))
    assert answer.wrong(bits.view(np.float32)) is None


@pytest.mark.parametrize(("label", "effect"), [("32x128", "ignored"), ("256x256", "honoured")])
def test_few_kernels_honour_alpha(catalogue: AsmCatalogue, label: str, effect: str) -> None:
    case = AsmCase("alpha", Shape(17, 256, 512), AsmOptions(alpha=2.0))
    result = ask(catalogue, label, case)
    assert (result.effect, result.right) == (effect, True)


def test_padding_of_scales_that_is_not_zero_spoils_a_k_tail(catalogue: AsmCatalogue) -> None:
    shape = Shape(17, 128, 896)
    assert ask(catalogue, "32x128", AsmCase("ragged_k", shape)).right
    filled = AsmCase("padding", shape, AsmOptions(scale_padding=0x7F))
    assert not ask(catalogue, "32x128", filled).right


def test_a_split_is_right_to_the_precision_of_bf16_partials(catalogue: AsmCatalogue) -> None:
    case = AsmCase("split", Shape(17, 256, 1024), AsmOptions(log2_k_split=1))
    result = ask(catalogue, "256x256", case)
    assert result.clean
    assert result.worst > 1  # the gate does not pass it


def test_a_split_of_one_step_reads_beyond_the_scales(catalogue: AsmCatalogue) -> None:
    case = AsmCase("split", Shape(17, 256, 1024), AsmOptions(log2_k_split=2))
    assert [access.what for access in ask(catalogue, "256x256", case).beyond] == [
        "reads beyond scale_a"
    ]


# It overwrites the data of a store with an SGPR offset in the next instruction: on gfx950 that
# corrupts it (LLVM pull request 197267).
def test_the_kernel_for_plain_weights_is_right_but_for_a_hazard(catalogue: AsmCatalogue) -> None:
    result = ask(catalogue, "256x256 plain", AsmCase("exact", Shape(256, 256, 512)))
    assert result.right
    assert [(fault.kind, fault.instruction) for fault in result.faults] == [
        ("hazard", "v_cvt_pk_bf16_f32")
    ]


def test_the_kernel_for_plain_weights_writes_whole_tiles(catalogue: AsmCatalogue) -> None:
    result = ask(catalogue, "256x256 plain", AsmCase("ragged_m", Shape(33, 256, 512)))
    assert "writes beyond out" in {access.what for access in result.beyond}


def test_a_row_of_the_table_gives_the_rules_that_come_with_mxtune(
    catalogue: AsmCatalogue,
) -> None:
    (row,) = asm_rows(catalogue, "32x128")
    assert facts_of(row) == load_asm_rules().facts(row.kernel.name)
    assert unexpected(row) == ()
