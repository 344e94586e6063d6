"""The lint of submissions: whatever keeps something for the next call is refused, with its line."""

from pathlib import Path

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.results.submission_lint import lint_submission, lint_text

HEADER = "#!POPCORN leaderboard amd-mxfp4-mm\n#!POPCORN gpu MI355X\n"

# A submission as people write them: configs by shape, compiled kernels by shape, one launch.
HONEST = """\
from functools import cache

import torch
import triton
import triton.language as tl

BLOCKS = {(4, 64): 16, (16, 64): 32}
SEEN = {}


@triton.jit
def double(a_ptr, c_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + at, 2 * tl.load(a_ptr + at, mask=at < count), mask=at < count)


@cache
def block(M, K):
    return BLOCKS.get((M, K), 64)


def named(function):
    def run(data):
        return function(data)

    return run


@named
@torch.no_grad()
def custom_kernel(data):
    A, B = data
    M, K = A.shape
    if (M, K) not in SEEN:
        SEEN[M, K] = block(M, K)
    parts = []
    C = torch.empty_like(A)
    for size in (SEEN[M, K],):
        double[(triton.cdiv(A.numel(), size),)](A, C, A.numel(), BLOCK=size, num_warps=4)
        parts.append(C)
    C += B.sum()
    return parts[-1]
"""

PLANTED = Path(__file__).parent / "data" / "planted_submissions.txt"


def planted() -> dict[str, tuple[str, str]]:
    """What must be refused, by name: what is said of it, and the code, the faulty line marked."""
    sections = PLANTED.read_text("utf-8").split("=== ")[1:]
    parted = [section.split("\n", 2) for section in sections]
    return {name: (said.removeprefix("--- "), code) for name, said, code in parted}


def findings(text: str) -> list[str]:
    return [str(finding) for finding in lint_text(text)]


def test_an_honest_submission_has_no_findings() -> None:
    assert findings(HEADER + HONEST) == []


@pytest.mark.parametrize("name", planted())
def test_what_is_planted_is_found_at_its_line(name: str) -> None:
    said, code = planted()[name]
    text = f"{HEADER}import functools\nimport torch\n{code}"
    (line,) = [at for at, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]
    assert f"line {line}: {said}" in findings(text)


def test_a_submission_names_its_leaderboard_and_its_gpu_first() -> None:
    said = "the first lines must be #!POPCORN leaderboard NAME and #!POPCORN gpu NAME"
    assert findings(HONEST)[:2] == [f"line 1: {said}", f"line 2: {said}"]
    assert findings(HEADER.replace(" gpu ", " gpus ") + HONEST) == []
    assert findings(HEADER.replace(" MI355X", "") + HONEST) == [f"line 2: {said}"]


def test_what_is_no_submission_is_said_so() -> None:
    assert findings(HEADER + "x = 1\n") == ["line 1: no custom_kernel in it"]
    (only,) = findings(HEADER + "def custom_kernel(:\n")
    assert only.startswith("line 3: not Python: ")


def test_a_file_that_the_server_does_not_take_is_refused() -> None:
    text = HEADER + HONEST
    assert findings(text.ljust(1_000_000, "#")) == []
    assert findings(text.ljust(1_000_001, "#")) == [
        "line 1: 1000001 bytes; the server takes 1000000"
    ]


def test_a_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "submission.py"
    file.write_text(HEADER + HONEST, "utf-8")
    assert lint_submission(file) == ()
    file.write_bytes(b"\xff")
    for path, reason in ((file, "not UTF-8"), (tmp_path / "none.py", "No such file or directory")):
        with pytest.raises(ConfigError) as caught:
            lint_submission(path)
        assert str(caught.value) == f"{path}: cannot be read ({reason})"
