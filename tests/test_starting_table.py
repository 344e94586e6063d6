"""The table that gfx950 starts with: every row of it is a route of ours, legal and right."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.starting_table import ARCH, FILE, FIRST, SECOND, SOURCE, Quantiser, Row, quantiser
from bench.starting_table import starting_table as made

from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.devices import load_device
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.configs.table import RouteTable
from mxtune.kernels.bind import planned
from mxtune.kernels.candidates import candidates
from mxtune.kernels.dispatch import Dispatcher, bundled_table
from mxtune.kernels.family import LEGAL, Call, Plan, Problem
from mxtune.kernels.quantise_steps import codes_step
from mxtune.kernels.registry import checked_route, family

GFX950 = load_device(ARCH)
ROWS = (*FIRST, *SECOND)
LAUNCHES = ("quant_m", "quant_k", "quant_warps")


def name_of(row: Row) -> str:
    return f"{row.shape}-{row.family}"


def entry(*shape: int) -> Route:
    """The route that the shipped table has for a shape."""
    (found,) = (entry for entry in RouteTable.load(FILE).routes if entry.shape == shape)
    return found.route


def test_the_shipped_file_is_what_the_script_writes(tmp_path: Path) -> None:
    script = FILE.parent.parent.parent / "bench" / "starting_table.py"
    out = tmp_path / "table.json"
    subprocess.run([sys.executable, script, "--out", out], check=True)
    written, shipped = (RouteTable.load(path) for path in (out, FILE))
    assert (shipped.routes, shipped.default) == (written.routes, written.default)
    assert shipped.device == written.device
    assert out.read_text("utf-8") == made().text()


def test_a_row_says_what_was_reported() -> None:
    first = entry(16, 2112, 7168)
    assert first.family == "fused_preshuffle"
    assert {name: first.config[name] for name in FIRST[1].settings} == {
        "BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "group_m": 1, "split_k": 14, "num_warps": 4,
        "num_stages": 1, "waves_per_eu": 1, "matrix_instr_nonkdim": 16, "cache_modifier": ".cg",
        "reduce_m": 16, "reduce_n": 64, "reduce_warps": 4,
    }  # fmt: skip
    assert [(str(e.key), e.family) for e in RouteTable.load(FILE).routes] == [
        ("4x2880x512", "asm"),
        ("16x2112x7168", "fused_preshuffle"),
        ("32x2880x512", "fused"),
        ("32x4096x512", "fused"),
        ("64x7168x2048", "fused_preshuffle"),
        ("256x2880x512", "asm"),
        ("256x3072x1536", "asm"),
    ]


@pytest.mark.parametrize(
    ("shape", "kernel", "launch"),
    [
        ((4, 2880, 512), "32x128", (4, 512, 4)),
        ((256, 3072, 1536), "32x128", (64, 256, 8)),
        ((256, 2880, 512), "64x128", (8, 256, 4)),  # by the rule for K up to 1024
    ],
)
def test_the_kernels_of_aiter_are_named_and_a_is_quantised_as_reported(
    shape: tuple[int, int, int], kernel: str, launch: tuple[int, int, int]
) -> None:
    config = entry(*shape).config
    assert config["kernel"] == kernel
    assert tuple(config[name] for name in LAUNCHES) == launch
    assert kernel in {facts.label for facts in load_asm_rules(ARCH).kernels}
    assert config["log2_k_split"] == 0


@pytest.mark.parametrize(
    ("m", "k", "launch"),
    [
        (32, 512, Quantiser(16, 256, 1, 1, 4)),
        (16, 7168, Quantiser(16, 32, 1, 1, 1)),
        (3, 7168, Quantiser(4, 32, 1, 1, 1)),
        (64, 2048, Quantiser(32, 128, 4, 2, 4)),
        (64, 32768, Quantiser(64, 64, 4, 2, 4)),
        (2, 96, Quantiser(2, 128, 1, 1, 4)),
    ],
)
def test_a_launch_of_the_quantiser_follows_the_reported_rule(
    m: int, k: int, launch: Quantiser
) -> None:
    assert quantiser(m, k) == launch


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_every_row_is_legal_and_no_more_than_reported(row: Row) -> None:
    owner = family(row.family)
    assert checked_route(row.route) == row.route
    assert owner.normalise(row.route.config, row.shape) == row.route.config
    assert owner.legality(row.route.config, row.shape, GFX950) == LEGAL
    assert all(isinstance(e.evidence, Reported) for e in made().routes)
    assert {e.evidence.source for e in made().routes if isinstance(e.evidence, Reported)} == {
        SOURCE
    }


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_sweep_tries_every_row_even_without_the_table(row: Row) -> None:
    assert row.route in candidates([family(row.family)], row.shape, GFX950).routes


@pytest.mark.parametrize("row", [r for r in ROWS if r.family == "asm"], ids=name_of)
def test_a_row_of_aiters_calls_its_kernel_by_name(row: Row) -> None:
    steps = planned(row.route, Problem.contiguous(row.shape, GFX950)).steps
    (call,) = (step for step in steps if isinstance(step, Call))
    tile = str(row.settings["kernel"])
    length = 35 + len(tile)
    assert call.values["kernelName"] == (
        f"_ZN5aiter{length}f4gemm_bf16_per1x32Fp4_BpreShuffle_{tile}E"
    )


def test_any_other_shape_is_aiters_choice_where_there_is_an_aiter() -> None:
    default = RouteTable.load(FILE).default
    assert default
    assert (default.family, {name: default.config[name] for name in LAUNCHES}) == (
        "aiter",
        {"quant_m": 32, "quant_k": 128, "quant_warps": 4},
    )


def test_a_gpu_gets_its_own_table() -> None:
    ours, other = bundled_table("gfx950"), bundled_table("sm_90")
    assert ours
    assert ours.routes == made().routes
    assert other
    assert (other.device.name, other.strength) == ("NVIDIA H200", 3)
    assert bundled_table("gfx942") is None


def test_a_measured_table_comes_before_a_reported_one_and_a_newer_before_an_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = made()
    h200 = bundled_table("sm_90")
    assert h200
    measured = reported.model_copy(update={"routes": h200.routes})
    newer = reported.made.model_copy(update={"at": "2027-01-01T00:00:00+00:00"})
    folder = tmp_path / "results" / "tables"
    reported.save(folder / "b.json")
    monkeypatch.setattr("mxtune.kernels.dispatch.files", lambda _: tmp_path)
    assert bundled_table("gfx950") == reported
    reported.model_copy(update={"made": newer}).save(folder / "z.json")
    found = bundled_table("gfx950")
    assert found
    assert found.made == newer
    measured.save(folder / "y.json")
    found = bundled_table("gfx950")
    assert found
    assert found.strength == 3


def test_without_aiter_a_neighbouring_shape_has_a_route_of_ours() -> None:
    dispatcher = Dispatcher(RouteTable.load(FILE))
    with pytest.warns(UserWarning, match="4 of 7 routes usable here: .*aiter is not installed"):
        dispatcher.standing(GFX950)
    assert dispatcher.choose(Shape(17, 2112, 7168), GFX950).route == entry(16, 2112, 7168)
    assert dispatcher.choose(Shape(4, 2880, 512), GFX950).route == entry(32, 2880, 512)
    assert dispatcher.choose(Shape(5, 96, 96), GFX950).route.family == "direct"


@pytest.mark.parametrize("row", [r for r in ROWS if r.family != "asm"], ids=name_of)
def test_the_machine_code_of_a_row_is_right(row: Row) -> None:
    pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")
    from mxtune.tuner.check import SEEDS
    from mxtune.tuner.emulate.gate import emulate
    from mxtune.tuner.emulate.job import EmulateJob
    from mxtune.tuner.reduced import ragged

    small = ragged(row.shape, row.route.config)
    found = emulate(EmulateJob(row.route, small, GFX950, SEEDS[0]))
    assert found.ok, found.reason
    assert found.kernels[-1].profile.instructions
    assert any(run.profile.instructions.get("mfma_scaled", 0) for run in found.kernels)


@pytest.mark.parametrize("row", [r for r in ROWS if r.family == "asm"], ids=name_of)
def test_what_quantises_a_for_aiters_kernels_is_right(row: Row) -> None:
    """Our part of such a row: the kernel before AITER's, at fewer rows and a K with a tail."""
    pytest.importorskip("tinygrad", reason="the emulator decodes with tinygrad")
    import torch

    from mxtune.kernels import formats
    from mxtune.kernels.layouts import shuffle_scales
    from mxtune.kernels.weight import Mxfp4Weight
    from mxtune.tuner.emulate.launch import Report
    from mxtune.tuner.emulate.route import EmulatedRoute, objects_of

    shape = Shape(min(row.shape.m, 67), 32, 832)
    plan = Plan((codes_step(row.route.config, Problem.contiguous(shape, GFX950), shuffled=True),))
    weight, told = Mxfp4Weight.quantise(torch.zeros(32, 32).bfloat16()), list[Report]()
    route = EmulatedRoute(objects_of(plan, GFX950), plan, weight, lambda _, r: told.append(r))
    for tensor in route.workspaces.values():
        tensor.fill_(0x7F)
    a = torch.randn(shape.m, shape.k, generator=torch.Generator().manual_seed(1)).bfloat16()
    route(a, torch.zeros(1).bfloat16())
    codes, scales = formats.quantise(a)
    assert torch.equal(route.workspaces["a_codes"], codes)
    written = route.workspaces["a_scales_shuffled"]
    assert torch.equal(written, shuffle_scales(scales).reshape(written.shape))
    assert [finding for report in told for finding in report.findings] == []
