"""What bench/space_coverage.py says of a few configs in AITER's form, and of our own spaces."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.space_coverage import Judged, Tuned, judged, lines, read, summary

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Value
from mxtune.configs.shapes import Shape

SCRIPT = Path(__file__).parent.parent / "bench" / "space_coverage.py"
USUAL: Mapping[str, Value | None] = {
    "BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 512, "GROUP_SIZE_M": 1, "num_warps": 4,
    "num_stages": 2, "waves_per_eu": 4, "matrix_instr_nonkdim": 16, "cache_modifier": ".cg",
    "NUM_KSPLIT": 1,
}  # fmt: skip


def write(folder: Path, name: str, **buckets: Mapping[str, Any]) -> None:
    path = folder / "triton-json" / f"gfx950-GEMM-{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({bucket: {**USUAL, **own} for bucket, own in buckets.items()}))


def of(kind: str, shape: Shape | None = None, **own: Value) -> dict[str, Judged]:
    """What our families make of a config of a kind, by family."""
    plain = {name: value for name, value in USUAL.items() if value is not None}
    found = judged(kind, Tuned("made-up.json", "any", {**plain, **own}, shape))
    return {one.family: one for one in found}


def test_a_kind_says_which_families_do_the_same_work() -> None:
    assert set(of("A16WFP4")) == {"aiter_a16", "fused"}
    assert set(of("A16WFP4", NUM_KSPLIT=4)) == {"aiter_a16", "fused_atomic"}
    assert set(of("A16WFP4_PRESHUFFLED")) == {"aiter_preshuffle", "fused_preshuffle"}
    both = {"aiter_preshuffle", "fused_preshuffle", "fused_preshuffle_atomic"}
    assert set(of("A16WFP4_PRESHUFFLED", NUM_KSPLIT=4)) == both
    for kind in ("AFP4WFP4", "AFP4WFP4_PRESHUFFLED"):
        assert set(of(kind)) == {"direct"}
        assert set(of(kind, NUM_KSPLIT=4)) == {"splitk"}


def test_a_kind_that_nothing_of_ours_does_is_listed_with_the_reason() -> None:
    assert of("A8W8")["none"].lack == "no family does what AITER's A8W8 does"


def test_a_value_that_no_setting_takes_is_not_expressible() -> None:
    found = of("AFP4WFP4", num_warps=3)["direct"]
    assert (found.lack, found.inside) == ("num_warps must be one of 1, 2, 4, 8, 16, not 3", False)


def test_a_config_is_inside_if_one_space_has_all_of_its_values() -> None:
    assert of("AFP4WFP4")["direct"].inside
    apart = of("AFP4WFP4", BLOCK_SIZE_M=256, waves_per_eu=8)["direct"]  # each occurs, not together
    assert (apart.lack, apart.inside) == ("", False)


def test_narrow_tiles_of_shuffled_weights_are_widened_as_aiter_does() -> None:
    narrow = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 16, "waves_per_eu": 2}
    assert of("AFP4WFP4_PRESHUFFLED", Shape(16, 4096, 8192), **narrow)["direct"].left_out == ""


def test_a_step_beyond_k_and_a_split_that_is_uneven_are_what_aiter_makes_of_them() -> None:
    assert set(of("AFP4WFP4", Shape(16, 512, 512), BLOCK_SIZE_K=1024, NUM_KSPLIT=4)) == {"direct"}
    assert set(of("AFP4WFP4", Shape(16, 512, 7168), NUM_KSPLIT=6)) == {"direct"}
    assert set(of("AFP4WFP4", Shape(16, 512, 7168), NUM_KSPLIT=14)) == {"splitk"}


def test_what_a_sweep_of_the_shape_would_leave_out_says_why() -> None:
    assert of("AFP4WFP4", Shape(32, 512, 7168))["direct"].left_out == ""
    rows = of("AFP4WFP4", Shape(4, 512, 7168), BLOCK_SIZE_M=64)["direct"].left_out
    assert rows == "a waste: BLOCK_M far beyond M"
    warps = of("AFP4WFP4", Shape(32, 512, 7168), num_warps=1)["direct"].left_out
    assert warps == "illegal: one warp does not get the scaled MFMA on gfx950"
    assert of("AFP4WFP4")["direct"].left_out is None  # its file names no shape


def test_a_file_tells_the_kind_and_the_shape_of_each_bucket(tmp_path: Path) -> None:
    write(tmp_path, "A16WFP4_PRESHUFFLED", any={"cache_modifier": None})
    write(tmp_path, "AFP4WFP4-N=512-K=7168", M_LEQ_8={}, M_LEQ_64={}, any={}, M_GEQ_4096={})
    (tmp_path / "triton-json" / "gfx942-GEMM-AFP4WFP4.json").write_text("not looked at")
    found = list(read(tmp_path))
    assert [(kind, one.bucket, one.shape) for kind, one in found] == [
        ("A16WFP4_PRESHUFFLED", "any", None),
        ("AFP4WFP4", "M_LEQ_8", Shape(8, 512, 7168)),
        ("AFP4WFP4", "M_LEQ_64", Shape(64, 512, 7168)),
        ("AFP4WFP4", "any", Shape(8192, 512, 7168)),
        ("AFP4WFP4", "M_GEQ_4096", Shape(4096, 512, 7168)),
    ]
    assert found[0][1].settings["cache_modifier"] == ""


def test_a_folder_without_configs_and_a_file_of_another_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no triton-json"):
        list(read(tmp_path))
    (tmp_path / "triton-json").mkdir()
    (tmp_path / "triton-json" / "winners.json").write_text("{}")
    with pytest.raises(ConfigError, match="not <arch>-GEMM-<kind>"):
        list(read(tmp_path))


def test_a_report_counts_and_lists(tmp_path: Path) -> None:
    write(
        tmp_path,
        "AFP4WFP4-N=512-K=7168",
        M_LEQ_4={"BLOCK_SIZE_M": 64},
        M_LEQ_32={},
        M_LEQ_64={"num_warps": 3},
        any={"BLOCK_SIZE_M": 256, "waves_per_eu": 8},
    )
    write(tmp_path, "AFP4WFP4", any={})
    report = summary(tmp_path)
    file = "gfx950-GEMM-AFP4WFP4-N=512-K=7168.json"
    apart = {**USUAL, "BLOCK_SIZE_M": 256, "waves_per_eu": 8}
    assert report == {
        "direct": {
            "configs": 5,
            "distinct": 4,
            "expressible": 4,
            "inside": 3,
            "with_shape": 3,
            "offered": 1,
            "not_expressible": [f"{file} M_LEQ_64: num_warps must be one of 1, 2, 4, 8, 16, not 3"],
            "not_inside": [f"{file} any: " + " ".join(f"{k}={v}" for k, v in apart.items())],
            "not_offered": {"a waste: BLOCK_M far beyond M": 2},
        }
    }
    assert next(lines(report)).split(";")[0] == (
        "direct               5 configs (4 distinct), 4 expressible, 3 inside"
    )
    printed = subprocess.run(
        [sys.executable, SCRIPT, "--data", tmp_path, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(printed.stdout) == report
