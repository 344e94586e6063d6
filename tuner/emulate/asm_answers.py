"""What C may be after a launch of an ASM kernel, and where it is something else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxtune.kernels import formats
from mxtune.tuner.check import Case

Floats = NDArray[np.floating[Any]]

_BF16_ROUNDING = 2.0**-9  # of a value, to the nearest


@dataclass(frozen=True, slots=True)
class Wrong:
    """Which elements of C differ from the answer by more than is allowed."""

    elements: int
    rows: int
    columns: int
    first_column: int
    last_column: int

    def __str__(self) -> str:
        return (
            f"{self.elements} elements wrong, in {self.rows} rows and {self.columns} columns "
            f"({self.first_column} to {self.last_column})"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A C that would be right: values and allowed error, [M, N]."""

    effect: str  # what that says of alpha or beta: honoured, ignored or neither; else empty
    expected: Floats
    allowed: Floats

    def worst(self, result: Floats) -> float:
        """Return the largest error as a share of what is allowed, infinity if not finite."""
        return float(np.nan_to_num(self._share(result), nan=np.inf).max())

    def wrong(self, result: Floats) -> Wrong | None:
        """Return where ``result`` is not this answer, None if it is."""
        bad = ~(self._share(result) <= 1)  # NaN is bad
        if not bad.any():
            return None
        columns = np.flatnonzero(bad.any(0))
        rows = int(bad.any(1).sum())
        return Wrong(int(bad.sum()), rows, columns.size, int(columns[0]), int(columns[-1]))

    def _share(self, result: Floats) -> Floats:
        share: Floats = np.abs(result - self.expected) / self.allowed
        return share


def product(problem: Case) -> Answer:
    """Return the product, held to what the gate allows."""
    return Answer("", problem.expected.numpy(), problem.allowed.numpy())


def scaled(problem: Case, alpha: float) -> tuple[Answer, Answer]:
    """Return C with ``alpha`` ignored, and honoured."""
    plain = product(problem)
    honoured = Answer("honoured", alpha * plain.expected, abs(alpha) * plain.allowed)
    return replace(plain, effect="ignored"), honoured


def added(problem: Case, beta: float) -> tuple[Answer, Answer]:
    """Return C with ``beta`` times a bias of ones ignored, and honoured."""
    plain = product(problem)
    allowed = plain.allowed + 2 * _BF16_ROUNDING * abs(beta)
    return replace(plain, effect="ignored"), Answer("honoured", plain.expected + beta, allowed)


def partials(problem: Case, share: int) -> Answer:
    """Return the product as splits of K of ``share`` leave it, added up in bf16.

    Each partial is rounded, and so is each sum of them, in whatever order they come.
    """
    import torch

    a = formats.dequantise(*formats.quantise(problem.a, problem.weight.rule))
    b = problem.weight.dequantised()
    starts = range(0, a.shape[1], share)
    parts = [formats.product(a[:, k : k + share], b[:, k : k + share]) for k in starts]
    magnitude = torch.stack(parts).abs().sum(0).numpy()
    plain = product(problem)
    allowed = plain.allowed + (len(parts) + 1) * _BF16_ROUNDING * magnitude
    return Answer("", plain.expected, allowed)


def closest(answers: Sequence[Answer], result: Floats) -> Answer:
    """Return the answer that ``result`` is, or the first one, said to have neither effect."""
    for answer in answers:
        if answer.wrong(result) is None:
            return answer
    return replace(answers[0], effect="neither" if answers[1:] else "")
