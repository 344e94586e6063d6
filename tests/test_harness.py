"""A submission that cannot be used is told off in one line; a right one is told so, by shape."""

import json
from pathlib import Path

import pytest
import torch
from tests.submission_tables import STARTING
from typer.testing import CliRunner, Result

from mxtune.cli import app
from mxtune.configs.errors import ConfigError, MxtuneError, WrongResultError
from mxtune.configs.settings import Settings
from mxtune.configs.shapes import Shape
from mxtune.results.exports import ExportWish, export
from mxtune.tuner.harness import SubmissionRequest, verified
from mxtune.tuner.harness_child import fault_of, inputs
from mxtune.tuner.machine import Machine
from mxtune.tuner.stand_in import dtypes

MACHINE = Machine("2", "3", "3.11", None, (), (), "no GPU is visible", ())

REFERENCE = """
import aiter
from aiter import dtypes
from aiter.ops.triton.quant import dynamic_mxfp4_quant
from aiter.utility.fp4_utils import e8m0_shuffle
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    A, _, _, B_shuffle, B_scale_sh = data
    codes, scales = dynamic_mxfp4_quant(A)
    return aiter.gemm_a4w4(codes, B_shuffle, e8m0_shuffle(scales), B_scale_sh, dtype=dtypes.bf16)
"""

FAULTY: dict[str, tuple[str, type[MxtuneError], str]] = {
    "does not import": (
        "import nowhere",
        ConfigError,
        "cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "misses more of AITER": (
        "from aiter.fused_moe import fused_moe",
        ConfigError,
        "cannot be imported: ModuleNotFoundError: No module named 'aiter.fused_moe'; "
        "AITER is not installed, and little of it is stood in for",
    ),
    "ends the process": ("import os; os._exit(3)", ConfigError, "cannot be imported: exit status"),
    "lacks the function": ("custom_kernel = 1", ConfigError, "no custom_kernel in it"),
    "raises": (
        "def custom_kernel(data):\n    raise ValueError('no route')",
        WrongResultError,
        "4x64x64: raised: ValueError: no route",
    ),
    "does not quantise": (
        "def custom_kernel(data): return data[0] @ data[1].T",
        WrongResultError,
        "4x64x64: ",
    ),
}


def verify(*words: str) -> Result:
    return CliRunner(env={"CUDA_VISIBLE_DEVICES": "-1"}).invoke(app, ["verify", *words])


@pytest.mark.parametrize("name", FAULTY)
def test_a_file_that_cannot_be_used_is_one_line(name: str, tmp_path: Path) -> None:
    code, kind, said = FAULTY[name]
    file = tmp_path / "submission.py"
    file.write_text(code, "utf-8")
    with pytest.raises(kind) as caught:
        list(verified(SubmissionRequest(file), MACHINE, Settings(tmp_path / "cache", "", {})))
    assert str(caught.value).startswith(f"{file}: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "returns NoneType, not a tensor"),
        (torch.zeros(2, 4).bfloat16(), "returns torch.bfloat16 [2, 4] on cpu, not {expected}"),
        (torch.zeros(2, 3), "returns torch.float32 [2, 3] on cpu, not {expected}"),
        (torch.zeros(6).bfloat16(), "returns torch.bfloat16 [6] on cpu, not {expected}"),
        (torch.zeros(2, 3).bfloat16(), ""),
    ],
    ids=str,
)
def test_what_is_no_result_is_said_so(made: object, said: str) -> None:
    expected = torch.zeros(2, 3).bfloat16()
    assert fault_of(made, expected) == said.format(expected="torch.bfloat16 [2, 3] on cpu")


def test_the_contests_own_way_is_right_with_what_stands_in_for_aiter(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(REFERENCE, "utf-8")
    shown = verify(str(file))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "4x64x64        right",
        "17x96x320      right",
        "time           none: interpreted; name shapes as MxNxK to check the routes they have",
    ]


def test_an_exported_route_is_interpreted_where_its_shape_is_named(tmp_path: Path) -> None:
    file = tmp_path / "submission.py"
    export(ExportWish(STARTING, "submission", file))
    shown = verify(str(file), "4x2880x512", "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert json.loads(shown.stdout) == [{"shape": "4x2880x512", "times_us": []}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "none.py: no such file"),
        (
            ["{file}", "3x17x64"],
            "3x17x64: the contest's B is shuffled, and shuffled weights",
        ),
        (["{file}", "3x16"], "'3x16': not a shape; write MxNxK, as in 16x2112x7168"),
        (["{file}", "3x16x64", "--problem", "."], "--problem brings its own shapes; leave MxNxK"),
        (["{file}", "--emulate"], "{file} is called as it is; only --problem and --json go with"),
        (["3x16x64", "--problem", "."], "--problem verifies a submission; name its file"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "submission.py"
    file.write_text(REFERENCE, "utf-8")
    shown = verify(*(word.format(file=file) for word in words))
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert said.format(file=file) in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_inputs_are_what_the_contest_gives() -> None:
    (a, b, codes, shuffled, scales), expected = inputs(Shape(4, 48, 192), 7, "cpu")
    shapes = [tuple(t.shape) for t in (a, b, codes, shuffled, scales, expected)]
    assert shapes == [(4, 192), (48, 192), (48, 96), (48, 96), (256, 8), (4, 48)]
    fp4, e8m0, bf16 = dtypes.fp4x2, dtypes.fp8_e8m0, torch.bfloat16
    assert [t.dtype for t in (a, b, codes, shuffled, scales, expected)] == [
        bf16, bf16, fp4, fp4, e8m0, bf16
    ]  # fmt: skip
    again, _ = inputs(Shape(4, 48, 192), 7, "cpu")
    other, _ = inputs(Shape(4, 48, 192), 20, "cpu")
    assert torch.equal(again[0], a)
    assert not torch.equal(other[0], a)
    assert not torch.equal(other[1], b)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [(100.0, False), (101.0, False), (101.5, True), (99.0, False), (float("nan"), True)],
)
def test_every_element_is_held_to_the_contests_tolerance(value: float, *, wrong: bool) -> None:
    expected = torch.full((2, 3), 100.0).bfloat16()
    made = expected.clone()
    made[1, 2] = value
    said = (
        "1 of 6 elements are beyond the contest's tolerance of 0.01 + 0.01 |C|, "
        f"the first at (1, 2): {value:.6g} for 100"
    )
    assert fault_of(made, expected) == (said if wrong else "")
