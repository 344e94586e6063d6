"""The correctness gate: nothing is ranked before its whole output was right, twice.

The reference is the product of the bytes that the route consumed: A as the project's own quantiser
writes it (a route's quantiser is judged apart, bit by bit), B as it lies. An element may differ by

    2^-8 |exact|  +  2^-18 (|A| @ |B|.T)

The first term is the rounding of C to bf16, to the nearest: truncating does not pass. The second is
what adding in fp32 may cost: it grows with the terms of the sum, not with their total, so that a
sum that cancels is not held to the precision of its result. bf16 partial sums err by 2^-9 of a
partial, which passes that only by luck.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.weight import Mxfp4Weight

if TYPE_CHECKING:
    from torch import Tensor

POISONS = (float("nan"), 1e30)  # one shows what is not written, the other what is added to
SEEDS = (1, 2)

_ROUNDING = 2.0**-8
_SUMMING = 2.0**-18
_SMALLEST = 2.0**-126  # results below this may be flushed


@dataclass(frozen=True, slots=True)
class Case:
    """One seeded problem with its answer: a bf16 [M, K], expected and allowed fp32 [M, N]."""

    a: "Tensor"
    weight: Mxfp4Weight
    expected: "Tensor"
    allowed: "Tensor"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. ``worst`` is the largest error as a share of what is allowed."""

    ok: bool
    reason: str = ""
    worst: float = 0.0
    largest_error: float = 0.0


class Bound(Protocol):
    """A bound route: computes C from A; ``workspaces`` are its own tensors, by name."""

    @property
    def workspaces(self) -> "dict[str, Tensor]": ...

    def __call__(self, a: "Tensor", c: "Tensor", /) -> object: ...


def make_case(shape: Shape, seed: int, device: str, rule: str = "even") -> Case:
    """Draw a problem: normal values, rows of unlike size, outliers, a block of zeros.

    B's scales are small where the seed is odd, as in a model, and some are above 2 where it is
    even: a route may have a kernel for each.
    """
    import torch

    random = torch.Generator(device).manual_seed(seed)

    def normal(rows: int) -> "Tensor":
        x = torch.randn(rows, shape.k, generator=random, device=device)
        x *= 2.0 ** torch.randint(-3, 4, (rows, 1), generator=random, device=device)
        outlier = torch.rand(x.shape, generator=random, device=device) < 1e-3
        x = torch.where(outlier, x * 50, x)
        if rows > 1 or shape.k > SCALE_BLOCK:  # else nothing but zeros would be left
            x[seed % rows, :SCALE_BLOCK] = 0
        return x.bfloat16()

    a = normal(shape.m)
    size = shape.k**-0.5 * (2.0**-6 if seed % 2 else 2.0**3)
    weight = Mxfp4Weight.quantise(normal(shape.n) * size, rule)
    return case_of(a, weight)


def case_of(a: "Tensor", weight: Mxfp4Weight) -> Case:
    """Work out the answer for given operands."""
    rounded = formats.dequantise(*formats.quantise(a, weight.rule))
    b = weight.dequantised()
    expected = formats.product(rounded, b)
    terms = formats.product(rounded.abs(), b.abs())
    return Case(a, weight, expected, _ROUNDING * expected.abs() + _SUMMING * terms + _SMALLEST)


def judge(case: Case, c: "Tensor") -> Verdict:
    """Compare a whole result with its answer."""
    import torch

    result = c.float()
    lost = torch.isfinite(case.expected) & ~torch.isfinite(result)
    if lost.any():
        at = _position(lost.int())
        return Verdict(
            ok=False, reason=f"{int(lost.sum())} of {lost.numel()} not finite, first at {at}"
        )
    error = (result - case.expected).abs()
    same = result == case.expected  # infinities that agree
    both_nan = result.isnan() & case.expected.isnan()
    share = (error / case.allowed).masked_fill(same | both_nan, 0)
    share = share.masked_fill(share.isnan(), float("inf"))
    worst, largest = float(share.max()), float(error.masked_fill(same | both_nan, 0).max())
    if worst <= 1:
        return Verdict(ok=True, worst=worst, largest_error=largest)
    return Verdict(ok=False, reason=_describe(case, result, share), worst=worst)


def _describe(case: Case, result: "Tensor", share: "Tensor") -> str:
    at = _position(share)
    return (
        f"{int((share > 1).sum())} of {share.numel()} wrong, worst at {at}: "
        f"{float(result[at]):.6g} for {float(case.expected[at]):.6g}"
    )


def _position(where: "Tensor") -> tuple[int, int]:
    row, column = divmod(int(where.argmax()), where.shape[1])
    return row, column


def check(cases: tuple[Case, ...], bind: Callable[[Mxfp4Weight], Bound]) -> Verdict:
    """Run a route on every case with all it writes poisoned; return the first fault or the worst.

    ``bind`` binds the route to a weight.
    """
    worst = Verdict(ok=True)
    for case, poison in zip(cases, POISONS, strict=True):
        verdict = check_one(case, poison, bind)
        if not verdict.ok:
            return verdict
        worst = max(worst, verdict, key=lambda v: v.worst)
    return worst


def check_one(case: Case, poison: float, bind: Callable[[Mxfp4Weight], Bound]) -> Verdict:
    """Run a route on one case with C full of ``poison`` and its workspaces full of NaN."""
    import torch

    launch = bind(case.weight)
    for tensor in launch.workspaces.values():
        tensor.view(torch.uint8).fill_(0xFF)  # NaN as floats, NaN as a scale
    a = case.a.clone()
    c = torch.full(case.expected.shape, poison, dtype=torch.bfloat16, device=a.device)
    launch(a, c)
    verdict = _quantiser(case, launch.workspaces) or judge(case, c)
    if verdict.ok and not torch.equal(a, case.a):
        return Verdict(ok=False, reason="it changed its input")
    return verdict


def _quantiser(case: Case, workspaces: "dict[str, Tensor]") -> Verdict | None:
    """Return a refusal if the route's own quantiser wrote other bytes than the rule says."""
    codes, scales = formats.quantise(case.a, case.weight.rule)
    written = {
        "a_codes": codes,
        "a_scales": scales,
        "a_scales_shuffled": layouts.shuffle_scales(scales),  # AITER reads its padding: zero
    }
    for name, expected in written.items():
        if name in workspaces:
            wrong = workspaces[name] != expected
            if wrong.any():
                at = _position(wrong.int())
                count = f"{int(wrong.sum())} of {wrong.numel()} bytes"
                rule = case.weight.rule
                reason = f"{name}: {count} differ from rule {rule}, first at {at}"
                return Verdict(ok=False, reason=reason)
    return None
