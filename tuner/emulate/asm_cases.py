"""What an AITER f4gemm kernel computes where its tile does not fit: shape by shape, emulated.

Every kernel is asked the same questions. A result counts as right when the gate (tuner/check.py)
would pass it. Where column tiles may overlap, the workgroups run in both orders: hardware runs them
in any, so a result that depends on the order is wrong even where one order gives the product.
"""

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mxtune.configs.shapes import Shape
from mxtune.kernels.asm_catalogue import AsmCatalogue, AsmKernel
from mxtune.tuner.check import Case, make_case
from mxtune.tuner.emulate.asm_answers import (
    Answer,
    Floats,
    Wrong,
    added,
    closest,
    partials,
    product,
    scaled,
)
from mxtune.tuner.emulate.asm_launch import PLAIN_CALL, AsmOptions, asm_launch, k_share
from mxtune.tuner.emulate.code_object import CodeObject
from mxtune.tuner.emulate.findings import Finding
from mxtune.tuner.emulate.launch import run

Question = Literal[
    "exact", "ragged_m", "ragged_n", "odd_n", "ragged_k", "short_k", "padding", "split",
    "alpha", "beta",
]  # fmt: skip

_TENSOR = re.compile(r"of (\w+), which|before (\w+)")
_BOTH_ORDERS: tuple[Question, ...] = ("ragged_n", "odd_n")
_SEED = 1
_K = 512  # two steps of every kernel's loop
_FEW_ROWS = 17
_SHUFFLED_K = (320, 448, 896)  # a rest of 64, 192 and 128
_PLAIN_K = (*_SHUFFLED_K, 544)  # a rest of 32, for which weights have no shuffled layout
_SHORT_K = (64, 128, 256)
_NOT_ZERO = 0x7F  # a scale of 1, where AITER leaves the padding of scales as it finds it


@dataclass(frozen=True, slots=True)
class AsmCase:
    """One launch to try, and what it is to tell."""

    question: Question
    shape: Shape
    options: AsmOptions = PLAIN_CALL


@dataclass(frozen=True, slots=True)
class Beyond:
    """An access outside the operands: which tensor is nearest, and where it went."""

    tensor: str
    writes: bool
    detail: str

    @property
    def what(self) -> str:
        """What is done: ``reads beyond b``."""
        return f"{'writes' if self.writes else 'reads'} beyond {self.tensor}"

    def __str__(self) -> str:
        return f"{self.what} ({self.detail})"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one launch gave."""

    case: AsmCase
    wrong: Wrong | None  # in the usual order of workgroups
    reversed_wrong: Wrong | None  # in the reverse order, where that was tried
    worst: float  # the largest error as a share of what the gate allows
    effect: str  # of alpha or beta: honoured, ignored or neither
    beyond: tuple[Beyond, ...]
    faults: tuple[Finding, ...]  # the first of each other kind

    @property
    def right(self) -> bool:
        """Whether C is the product, in any order of workgroups."""
        return self.wrong is None and self.reversed_wrong is None

    @property
    def races(self) -> bool:
        """Whether the order of workgroups decides what C is."""
        stored_twice = any(fault.kind == "store_race" for fault in self.faults)
        return stored_twice or self.wrong != self.reversed_wrong

    @property
    def clean(self) -> bool:
        """Whether nothing at all speaks against the launch."""
        return self.right and not self.beyond and not self.faults

    def __str__(self) -> str:
        told = [str(self.wrong or self.reversed_wrong)] if not self.right else []
        if self.races:
            told.append("right or wrong by the order of workgroups")
        told += [str(access) for access in self.beyond]
        told += [str(fault) for fault in self.faults if fault.kind != "store_race"]
        return f"{self.case.shape}: {'; '.join(told) or 'right'}"


@dataclass(frozen=True, slots=True)
class TileRow:
    """All that was asked of one kernel."""

    kernel: AsmKernel
    digest: str  # of the object, sha256
    results: tuple[CaseResult, ...]
    seconds: float

    def of(self, *questions: Question) -> tuple[CaseResult, ...]:
        """Return the results of these questions."""
        return tuple(result for result in self.results if result.case.question in questions)


def asm_rows(catalogue: AsmCatalogue, word: str = "all") -> Iterator[TileRow]:
    """Yield a row for each kernel that ``word`` names, as it is finished."""
    for kernel in catalogue.called(word):
        yield check_tile(kernel, catalogue.code(kernel))


def check_tile(kernel: AsmKernel, blob: bytes) -> TileRow:
    """Ask one kernel everything."""
    start = time.monotonic()
    code = CodeObject.read(blob, kernel.name)
    results = tuple(emulate_case(kernel, code, case) for case in cases_of(kernel))
    digest = hashlib.sha256(blob).hexdigest()
    return TileRow(kernel, digest, results, time.monotonic() - start)


def cases_of(kernel: AsmKernel) -> Iterator[AsmCase]:
    """Yield every launch that is tried with ``kernel``."""
    m, n = kernel.tile_m, kernel.tile_n
    # the kernel for plain weights writes whole tiles: rows that are not there would hide the rest
    few = _FEW_ROWS if kernel.shuffled_weights else m
    yield AsmCase("exact", Shape(m, n, _K))
    for rows in sorted({1, 31, 33, m + 1}):
        yield AsmCase("ragged_m", Shape(rows, n, _K))
    for columns in sorted({32, n + 32, n + 96, 2 * n - 32}):
        yield AsmCase("ragged_n", Shape(few, columns, _K))
    for columns in (48, n + 16):
        yield AsmCase("odd_n", Shape(few, columns, _K))
    for k in _SHUFFLED_K if kernel.shuffled_weights else _PLAIN_K:
        yield AsmCase("ragged_k", Shape(few, n, k))
    for k in _SHORT_K:
        yield AsmCase("short_k", Shape(few, n, k))
    yield AsmCase("padding", Shape(few, n, 896), AsmOptions(scale_padding=_NOT_ZERO))
    yield AsmCase("alpha", Shape(m, n, _K), AsmOptions(alpha=2.0))
    yield AsmCase("beta", Shape(m, n, _K), AsmOptions(beta=1.0))
    if kernel.split_k:
        for k, log2 in ((1024, 1), (768, 1), (1024, 2)):
            yield AsmCase("split", Shape(few, n, k), AsmOptions(log2_k_split=log2))


def emulate_case(kernel: AsmKernel, code: CodeObject, case: AsmCase) -> CaseResult:
    """Run one launch, in both orders of workgroups where column tiles may overlap."""
    problem = make_case(case.shape, _SEED, "cpu")
    result, findings = _run(kernel, code, case, problem)
    answer = closest(_answers(kernel, case, problem), result)
    reverse = result
    if case.question in _BOTH_ORDERS:
        reverse, more = _run(kernel, code, case, problem, backwards=True)
        findings = tuple(dict.fromkeys(findings + more))
    return CaseResult(
        case=case,
        wrong=answer.wrong(result),
        reversed_wrong=answer.wrong(reverse),
        worst=(product(problem) if case.question == "split" else answer).worst(result),
        effect=answer.effect,
        beyond=_beyond(findings),
        faults=_faults(findings),
    )


def _answers(kernel: AsmKernel, case: AsmCase, problem: Case) -> tuple[Answer, ...]:
    """Return what C may be, the likeliest first."""
    if case.question == "split":
        return (partials(problem, k_share(kernel, case.shape, case.options.log2_k_split)),)
    if case.question == "alpha":
        return scaled(problem, case.options.alpha)
    if case.question == "beta":
        return added(problem, case.options.beta)
    return (product(problem),)


def _run(
    kernel: AsmKernel, code: CodeObject, case: AsmCase, problem: Case, *, backwards: bool = False
) -> tuple[Floats, tuple[Finding, ...]]:
    """Return C in fp32 [M, N] and what the emulator finds."""
    prepared = asm_launch(kernel, code, problem, case.options)
    x, y, z = (range(size) for size in prepared.launch.grid)
    order = [(i, j, k) for k in z for j in y for i in x]
    report = run(prepared.launch, prepared.memory, workgroups=order[::-1] if backwards else order)
    bits = prepared.output()[:, : case.shape.n].astype(np.uint32) << 16
    return bits.view(np.float32), report.findings


def _beyond(findings: tuple[Finding, ...]) -> tuple[Beyond, ...]:
    """Return the first access outside each tensor, reads and writes apart."""
    first: dict[tuple[bool, str], Beyond] = {}
    for finding in findings:
        if finding.kind == "out_of_bounds":
            near = _TENSOR.search(finding.detail)
            tensor = near[1] or near[2] if near else "memory"
            writes = "load" not in finding.instruction
            first.setdefault((writes, tensor), Beyond(tensor, writes, finding.detail))
    return tuple(first.values())


def _faults(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the first finding of every other kind."""
    first: dict[str, Finding] = {}
    for finding in findings:
        if finding.kind != "out_of_bounds":
            first.setdefault(finding.kind, finding)
    return tuple(first.values())
