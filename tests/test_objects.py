"""Reading a compiled kernel's assembly and its metadata."""

import pytest

from mxtune.configs.devices import Device, load_device
from mxtune.configs.routes import Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.build import build
from mxtune.kernels.family import SMALL_SCALES, Step
from mxtune.kernels.registry import family
from mxtune.tuner import objects
from mxtune.tuner.objects import (
    CompileJob,
    ObjectFacts,
    OutOfLdsError,
    compile_facts,
    read_assembly,
)

# Cut from what Triton 3.9.0 prints for the gemm kernel on gfx950.
GEMM = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
gemm:
	buffer_load_dwordx4 v[10:13], v1, s[4:7], 0 offen
	ds_read_b128 v[14:17], v2
	v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[10:13], v[14:17], v[0:3], v5, v6 op_sel_hi:[0,0,0] cbsz:4 blgp:4
	v_mfma_scale_f32_16x16x128_f8f6f4 v[20:23], v[10:13], v[24:27], v[20:23], v5, v7 op_sel_hi:[0,0,0] cbsz:4 blgp:4
	v_mfma_scale_f32_32x32x64_f8f6f4 v[30:45], v[10:13], v[24:27], v[30:45], v5, v7 op_sel_hi:[0,0,0] cbsz:4 blgp:4
	s_endpgm
	.amdgpu_metadata
amdhsa.kernels:
  - .agpr_count:     0
    .group_segment_fixed_size: 0
    .sgpr_count:     40
    .sgpr_spill_count: 2
    .symbol:         gemm.kd
    .vgpr_count:     46
    .vgpr_spill_count: 5
    .wavefront_size: 64
"""  # noqa: E501
SCALED = "v_mfma_scale_f32_16x16x128_f8f6f4"


def test_registers_spills_and_matrix_instructions_are_read() -> None:
    assert read_assembly("gemm", 8192, GEMM) == ObjectFacts(
        step="gemm", lds_bytes=8192, vgpr=46, sgpr=40, spills=7, scaled_mfma=3, other_mfma=0
    )


def test_a_multiplication_without_the_scaled_instruction_is_an_obstacle() -> None:
    decomposed = GEMM.replace(SCALED, "v_mfma_f32_16x16x32_bf16").replace(
        "v_mfma_scale_f32_32x32x64_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4"
    )
    facts = read_assembly("gemm", 0, decomposed)
    assert (facts.scaled_mfma, facts.other_mfma) == (0, 3)
    assert facts.obstacle == "gemm: no scaled MFMA in its assembly"
    assert read_assembly("fused", 0, decomposed).obstacle == "fused: no scaled MFMA in its assembly"
    assert read_assembly("reduce", 0, decomposed).obstacle is None
    assert read_assembly("gemm", 0, GEMM).obstacle is None


# Cut from the fused kernel: of a block of inline assembly only the first line is indented.
CONVERTED = GEMM.replace(
    "\ts_endpgm",
    """\t;;#ASMSTART
	v_cvt_scalef32_pk_fp4_bf16 v40, v1, v9
v_cvt_scalef32_pk_fp4_bf16 v41, v2, v10
v_cvt_scalef32_pk_fp4_bf16 v40, v3, v9 op_sel:[0,0,1,0]
v_cvt_scalef32_pk_fp4_bf16 v41, v4, v10 op_sel:[0,0,1,0]
	;;#ASMEND
	s_endpgm""",
)


def test_a_kernel_that_lost_its_conversions_has_an_obstacle() -> None:
    kept = read_assembly("fused", 0, CONVERTED, converts=True)
    assert (kept.conversions, kept.converts, kept.obstacle) == (4, True, None)
    dropped = "\n".join(line for line in CONVERTED.splitlines() if "v_cvt_" not in line)
    for step in ("fused", "quantise"):
        lost = read_assembly(step, 0, dropped, converts=True)
        assert (lost.conversions, lost.scaled_mfma) == (0, 3)
        assert lost.obstacle == f"{step}: no FP4 conversion in its assembly"
    assert read_assembly("fused", 0, dropped).obstacle is None
    widened = CONVERTED.replace("v_cvt_scalef32_pk_fp4_bf16", "v_cvt_scalef32_pk_f32_fp4")
    assert read_assembly("fused", 0, widened, converts=True).conversions == 0


@pytest.mark.parametrize(
    ("name", "step"), [("fused", 0), ("direct", 0), ("fused_preshuffle_atomic", 1)]
)
def test_the_step_that_quantises_a_is_the_one_that_must_convert(name: str, step: int) -> None:
    shape = Shape(16, 64, 256)
    config = family(name).fallback(shape)
    job = CompileJob(Route(name, config), shape, load_device("gfx950"))
    assert [facts.converts for facts in compile_facts(job)].count(True) == 0
    converting = Route(name, config.changed(convert="hardware"))
    facts = compile_facts(CompileJob(converting, shape, load_device("gfx950")))
    assert [at for at, part in enumerate(facts) if part.converts] == [step]
    assert [at for at, part in enumerate(facts) if part.conversions] == [step]
    assert [part.obstacle for part in facts] == [None] * len(facts)


def test_a_target_without_assembly_has_no_obstacle() -> None:
    assert ObjectFacts("gemm", lds_bytes=4096).obstacle is None


@pytest.mark.parametrize(
    "key", ["vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count"]
)
def test_missing_metadata_is_an_error_and_never_zero(key: str) -> None:
    text = "\n".join(line for line in GEMM.splitlines() if f".{key}:" not in line)
    with pytest.raises(ValueError, match=rf"no \.{key} in the assembly's metadata"):
        read_assembly("gemm", 0, text)


def test_a_kernel_that_needs_more_lds_than_there_is_says_how_much() -> None:  # BL-068
    shape = Shape(256, 512, 2048)
    config = (
        family("direct")
        .fallback(shape)
        .changed(BLOCK_M=128, BLOCK_N=256, BLOCK_K=512, num_warps=8, num_stages=2)
    )
    job = CompileJob(Route("direct", config), shape, load_device("gfx950"))
    with pytest.raises(OutOfLdsError, match=r"^gemm takes \d+ of 163840 B of LDS$"):
        compile_facts(job)


def test_a_job_compiles_a_route_for_small_scales_and_for_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape, built = Shape(16, 64, 256), list[Step]()
    config = family("direct").fallback(shape).changed(multiply="bf16")

    def note(step: Step, device: Device) -> object:
        built.append(step)
        return build(step, device)

    monkeypatch.setattr(objects, "build", note)
    facts = compile_facts(CompileJob(Route("direct", config), shape, load_device("gfx950")))
    assert [part.step for part in facts] == ["quantise", "gemm"]
    assert [s.constants[SMALL_SCALES] for s in built if s.name == "gemm"] == [True, False]
