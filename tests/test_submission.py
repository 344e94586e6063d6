"""A submission: one file, the same bytes every time, with the routes of a table and no more."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.submission_tables import H200, SMALL, STARTING, starting, table_of, text_of

from mxtune import __version__
from mxtune.configs.errors import ConfigError, MxtuneError, NoRouteError
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.results.exports import ExportWish, export
from mxtune.results.submission import shapes_of
from mxtune.results.submission_lint import lint_text

HEADER = f"""\
#!POPCORN leaderboard amd-mxfp4-mm
#!POPCORN gpu MI355X
#
# C = mxfp4(A) @ B.T in bf16, with B in MXFP4, each shape by a route of its own. Written by mxtune
# {__version__} from a route table; change the table, not this file.
#
# table for     AMD Instinct MI355X (gfx950)
# made          2026-11-30T00:00:00+00:00 by mxtune 0.1.0
# rule          even
#
# 4x2880x512    asm 32x128 quant_k=512 convert=hardware
#               reported: a contest participant's published submission on an MI355X
# 256x3072x1536 asm 32x128 quant_m=64 quant_warps=8 convert=hardware
#               reported: a contest participant's published submission on an MI355X
# any other     direct, which is legal for every shape
"""
ROUTE = """\
    # asm 32x128 quant_k=512 convert=hardware
    (4, 2880, 512): Route(
        fresh={
            "a_codes": (torch.uint8, (4, 256)),
            "a_scales_shuffled": (torch.uint8, (256, 16)),
            "C": (torch.bfloat16, (32, 2880)),
        },
        steps=(
            Launch(
                "quantise",
                grid=(64, 1),
                tensors={
                    "a_ptr": "A",
                    "codes_ptr": "a_codes",
                    "scales_ptr": "a_scales_shuffled",
                },
                values={
                    "M": 4,
                    "K": 512,
                    "stride_am": 512,
                    "stride_ak": 1,
                    "stride_qm": 256,
                    "scale_width": 16,
                    "BLOCK_M": 4,
                    "BLOCK_K": 512,
                    "SHUFFLED": True,
                    "WIDE": False,
                    "HARDWARE": True,
                },
                options={
                    "num_warps": 4,
                    "num_stages": 1,
                    "enable_fp_fusion": False,
                },
            ),
            Call(
                "gemm_a4w4_asm",
                tensors={
                    "A": ("a_codes", torch.float4_e2m1fn_x2),
                    "B": ("B_shuffle", torch.float4_e2m1fn_x2),
                    "A_scale": ("a_scales_shuffled", torch.float8_e8m0fnu),
                    "B_scale": ("B_scale_sh", torch.float8_e8m0fnu),
                    "out": ("C", torch.bfloat16),
                },
                values={
                    "kernelName": "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E",
                    "alpha": 1.0,
                    "beta": 0.0,
                    "bpreshuffle": True,
                    "log2_k_split": 0,
                },
            ),
        ),
    ),
"""


def tops(text: str) -> list[str]:
    """What a file defines, in order."""
    body = ast.parse(text).body
    named = (getattr(n, "name", getattr(n, "targets", [ast.Name("")])[0]) for n in body)
    return [name if isinstance(name, str) else getattr(name, "id", "") for name in named]


def test_a_submission_says_where_it_comes_from_and_what_it_launches() -> None:
    text = text_of(starting(), Shape(4, 2880, 512), Shape(256, 3072, 1536))
    assert text.startswith(HEADER + "\nfrom collections.abc import Callable")
    assert ROUTE in text
    assert "\nfrom aiter.ops.gemm_op_a4w4 import gemm_a4w4_asm\n" in text


def test_the_table_comes_first_then_the_kernels_then_what_launches_them() -> None:
    names = [name for name in tops(text_of(starting())) if name]
    table, kernels = names.index("ROUTES"), names.index("KERNELS")
    assert names[:table] == ["Launch", "Route", "Call"]
    assert set(names[table + 1 : kernels]) >= {"fused", "reduce", "quantise", "gemm", "tile_of"}
    assert names[kernels + 1] == "AITER"
    assert names[-1] == "custom_kernel"
    assert len(names) == len(set(names))


@pytest.mark.parametrize("table", [STARTING, H200], ids=lambda path: path.stem)
def test_a_shipped_table_becomes_a_small_file_that_passes_its_own_lint(
    table: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for out in (first, second):
        export(ExportWish(table, "submission", out))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 60_000
    text = first.read_text("utf-8")
    assert lint_text(text) == ()
    assert "stream" not in text.lower()
    compile(text, str(first), "exec")


@pytest.mark.parametrize("table", [STARTING, H200], ids=lambda path: path.stem)
def test_a_submission_looks_as_ruff_would_leave_it(table: Path) -> None:
    text = text_of(RouteTable.load(table))
    ruff = (sys.executable, "-m", "ruff")
    length = ("--isolated", "--line-length", "100")
    for words in (
        ("format", "--check", *length, "-"),
        ("check", *length, "--select", "E,W,F,I,B,UP,SIM,RET,PIE", "-"),
    ):
        done = subprocess.run((*ruff, *words), input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_only_what_the_routes_use_is_in_the_file() -> None:
    shape = Shape(17, 96, 320)
    text = text_of(table_of({shape: SMALL[shape]}))
    (kernels,) = re.findall(r"^KERNELS = \{(.*?)\}", text, re.M | re.S)
    assert re.findall(r"(\w+),", kernels) == ["fused", "gemm", "quantise"]
    assert not {"reduce", "zero", "AITER", "Call", "called"}.intersection(tops(text))
    assert "import aiter" not in text
    assert "from aiter" not in text
    assert "reduce" in tops(text_of(table_of(SMALL)))


def test_only_the_shapes_that_are_named_are_in_the_file() -> None:
    text = text_of(starting(), Shape(32, 4096, 512))
    assert re.findall(r"^    \((\d+, \d+, \d+)\): Route", text, re.M) == ["32, 4096, 512"]
    with pytest.raises(NoRouteError) as caught:
        text_of(table_of(SMALL), Shape(8, 96, 320))
    known = "it has 3x48x192, 5x64x512, 17x96x320"
    assert str(caught.value) == f"the table has no route for 8x96x320; {known}"


@pytest.mark.parametrize(
    ("shape", "name", "changes", "said"),
    [
        ("40x96x512", "fused", {"multiply": "bf16"}, "reads plain scales of B, which the contest"),
        ("40x96x512", "aiter_a16", {}, "reads plain scales of B, which the contest does not give"),
        ("40x96x512", "aiter", {}, "aiter is not proven there: AITER may pick a tile whose last"),
        ("40x96x512", "fused_preshuffle", {"BLOCK_N": 16}, "is not legal for 40x96x512: "),
    ],
)
def test_a_route_that_cannot_be_submitted_is_refused(
    shape: str, name: str, changes: dict[str, int | str], said: str
) -> None:
    table = table_of({Shape.parse(shape): (name, changes)})
    with pytest.raises(NoRouteError, match=re.escape(said)):
        text_of(table)


# BL-042
def test_an_architecture_is_called_by_its_bare_name(tmp_path: Path) -> None:
    file, out = tmp_path / "table.json", tmp_path / "submission.py"
    table_of(SMALL, arch="gfx950:sramecc+:xnack-").save(file)
    assert export(ExportWish(file, "submission", out)) == f"{out}: 3 routes for gfx950"
    assert "sramecc" not in out.read_text("utf-8")


# BL-094, BL-095
def test_neither_torch_nor_triton_is_needed_to_export(tmp_path: Path) -> None:
    source, out = str(STARTING), str(tmp_path / "submission.py")
    code = (
        "import sys; from pathlib import Path\n"
        "from mxtune.results.exports import ExportWish, export\n"
        f"export(ExportWish(Path({source!r}), 'submission', Path({out!r})))\n"
        "print(sorted({'torch', 'triton', 'aiter', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_route_of_operands_that_32_bits_do_not_span_is_refused() -> None:
    table = table_of({Shape(524288, 64, 2048): ("fused", {})})
    with pytest.raises(NoRouteError, match="has A of more than 2 GiB; name the shapes"):
        text_of(table)


def test_a_table_of_another_rule_or_without_routes_is_refused() -> None:
    made = starting().made.model_copy(update={"rule": "floor"})
    with pytest.raises(
        NoRouteError, match="the table is for the rule floor; the contest's is even"
    ):
        text_of(starting().model_copy(update={"made": made}))
    with pytest.raises(NoRouteError, match="the table has no routes to submit"):
        text_of(table_of({}))


def test_what_a_table_tells_cannot_leave_its_comment() -> None:
    source = 'a "quote"\nimport os\r\x1b[31m""" \u2028 x ' + "word " * 40
    text = text_of(table_of(SMALL, source=source))
    assert [line for line in text.splitlines() if "word word" in line and line[0] != "#"] == []
    assert "import os" not in text.splitlines()
    assert lint_text(text) == ()


def test_a_file_that_its_lint_refuses_is_not_written(tmp_path: Path) -> None:
    file, out = tmp_path / "table.json", tmp_path / "submission.py"
    table_of(SMALL, source="an upstream table").save(file)
    with pytest.raises(ConfigError) as caught:
        export(ExportWish(file, "submission", out))
    assert str(caught.value) == (
        f"{out}: not written, since its lint refuses it: "
        "line 12: the server refuses every file with 'stream' in it"
    )
    assert not out.exists()


def test_the_first_lines_name_what_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "mine.py"
    said = export(
        ExportWish(STARTING, "submission", out, None, "32x4096x512", "another-board", "MI300X")
    )
    assert said == f"{out}: 1 routes for gfx950"
    first = out.read_text("utf-8").splitlines()[:2]
    assert first == ["#!POPCORN leaderboard another-board", "#!POPCORN gpu MI300X"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (ExportWish(STARTING, "submission", session="abc"), "a table has no sessions"),
        (ExportWish(STARTING, "routes", shapes="1x2x32"), "--shapes chooses what a submission has"),
        (ExportWish(STARTING, "submission", gpu="two words"), "--gpu 'two words': one word"),
        (ExportWish(STARTING, "submission", leaderboard=""), "--leaderboard '': one word"),
        (ExportWish(STARTING, "submission", shapes="none.csv"), "no such file or bundled list"),
        (ExportWish(Path("none.json"), "submission"), "none.json: cannot be read"),
        (ExportWish(Path("none"), "submission"), "none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wish_that_cannot_be_met_is_one_line(wish: ExportWish, said: str) -> None:
    with pytest.raises(MxtuneError) as caught:
        export(wish)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shapes_are_words_with_commas_or_a_list() -> None:
    assert shapes_of("16x2112x7168, 4X2880X512") == (Shape(16, 2112, 7168), Shape(4, 2880, 512))
    assert Shape(256, 3072, 1536) in shapes_of("amd-mxfp4-mm")
    assert shapes_of(None) == ()
