"""What a user who errs sees: one line that says what was expected, and an exit status."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mxtune.cli import app


def invoke(*words: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(app, words, prog_name="mxtune")


MISTAKES = [
    (
        ("run", "3x70"),
        2,
        "'3x70': not a shape; write MxNxK, as in 16x2112x7168",
    ),
    (
        ("run", "3x70x100"),
        2,
        "3x70x100: K must be a multiple of 32, not 100",
    ),
    (
        ("sweep",),
        2,
        "no shapes; give some as MxNxK, a file, or one of amd-mxfp4-mm, amd-mxfp4-mm-tests, "
        "deepseek-r1, gpt-oss-120b, llama-3.1-405b",
    ),
    (
        ("sweep", "--shapes", "deepseek-r2"),
        2,
        "'deepseek-r2': no such file or bundled list; did you mean deepseek-r1? (bundled: "
        "amd-mxfp4-mm, amd-mxfp4-mm-tests, deepseek-r1, gpt-oss-120b, llama-3.1-405b)",
    ),
    (
        ("sweep", "3x70x96", "--target", "gfx000"),
        2,
        "no device is called 'gfx000': one of gfx950, sm_90",
    ),
    (
        ("sweep", "3x70x96", "--backend", "replay"),
        2,
        "a replay takes both --backend replay and --from STORE",
    ),
    (
        ("sweep", "3x70x96", "--families", "fused,nope"),
        2,
        "no family is called 'nope': one of aiter, aiter_a16, aiter_preshuffle, asm, direct, "
        "fused, fused_atomic, fused_preshuffle, fused_preshuffle_atomic, splitk, splitk_atomic",
    ),
    (
        ("sweep", "3x70x96", "--out", "file"),
        6,
        "file/trials.sqlite: cannot be used as a store ([Errno 17] File exists: 'file')",
    ),
    (
        ("export", "nowhere"),
        6,
        "nowhere: no such store; a sweep makes one",
    ),
    (
        ("run", "3x70x96", "--family", "nope"),
        2,
        "no family is called 'nope': one of aiter, aiter_a16, aiter_preshuffle, asm, direct, "
        "fused, fused_atomic, fused_preshuffle, fused_preshuffle_atomic, splitk, splitk_atomic",
    ),
    (
        ("run", "3x70x96", "--set", "block_n=32"),
        2,
        "--set changes the settings of a family; name one with --family",
    ),
    (
        ("run", "3x70x96", "--family", "fused", "--set", "block_n=33"),
        2,
        "--set block_n=33: BLOCK_N must be one of 16, 32, 64, 128, 256, not 33",
    ),
    (
        ("run", "3x70x96", "--family", "fused", "--set", "block_q=32"),
        2,
        "--set block_q=32: expected KEY=VALUE, KEY one of BLOCK_M, BLOCK_N, BLOCK_K, group_m, "
        "num_warps, num_stages, waves_per_eu, matrix_instr_nonkdim, cache_modifier, xcd_remap, "
        "convert, multiply",
    ),
    (
        ("run", "3x70x96", "--family", "fused", "--set", "num_warps=1"),
        3,
        "fused 16x64x256 num_warps=1 num_stages=1 is not legal for 3x70x96: "
        "one warp does not get the scaled MFMA on gfx950",
    ),
    (
        ("run", "3x70x96", "--family", "fused_preshuffle"),
        3,
        "fused_preshuffle 16x64x256 num_stages=1 split_k=1 is not legal for 3x70x96: "
        "shuffled weights need N to be a multiple of 16, not 70",
    ),
    (
        ("run", "3x70x96", "--routes", "nowhere.json"),
        2,
        "nowhere.json: cannot be read (No such file or directory)",
    ),
]
IDS = [" ".join(words) for words, _, _ in MISTAKES]


@pytest.mark.parametrize(("words", "status", "message"), MISTAKES, ids=IDS)
def test_a_mistake_is_one_line_and_a_status(
    words: tuple[str, ...],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept\n", "utf-8")
    shown = invoke(*words, TRITON_CACHE_DIR=str(tmp_path / "cache"), CUDA_VISIBLE_DEVICES="-1")
    assert (shown.exit_code, shown.output) == (status, f"mxtune: {message}\n")
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "cache"}  # no empty store
    assert Path("file").read_text("utf-8") == "kept\n"


def test_cuda_without_a_gpu_says_why(tmp_path: Path) -> None:
    words = ("run", "3x70x96", "--device", "cuda")
    shown = invoke(*words, TRITON_CACHE_DIR=str(tmp_path), CUDA_VISIBLE_DEVICES="-1")
    assert (shown.exit_code, shown.stdout) == (4, "")
    assert shown.stderr.startswith("mxtune: no GPU to run on: no GPU is visible")
    assert shown.stderr.count("\n") == 1


def test_a_file_with_bad_rows_is_refused_with_every_line(  # BL-027
    tmp_path: Path,
) -> None:
    file = tmp_path / "shapes.csv"
    rows = ("M,N,K", "16,64,64", "16,64,33", "", "-1,64,64", "1e3,64,64", "4,2880,512", "16,64")
    file.write_text("\n".join(rows), "utf-8")
    shown = invoke("sweep", "--shapes", str(file), "--out", str(tmp_path / "out"))
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr == (
        f"mxtune: {file}:3: K must be a multiple of 32, not 33\n"
        f"{file}:5: M must be between 1 and 2147483647, not -1\n"
        f"{file}:6: M must be a whole number, not '1e3'\n"
        f"{file}:8: the header has 3 cells, this row 2\n"
    )
    assert not (tmp_path / "out").exists()
