"""The binary operators of the CDNA4 manual's pseudo-code, which are those of C and a few more."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tests.pseudocode_values import PowerOfTwo, Value, integer, real, truth

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": lambda x, y: x < y or x > y,  # false for NaN, which != is not
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_WHOLE: Mapping[str, Callable[[int, int], int]] = {
    **_ARITHMETIC,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "/": operator.floordiv,
    "%": operator.mod,
}
_PROMOTED_BITS = 32


def combined(sign: str, left: Any, right: Any) -> Any:
    """Return ``left sign right``; ``2.0F ** n`` stays a power until something is multiplied."""
    if isinstance(left, PowerOfTwo):
        return left.times(right)
    if isinstance(right, PowerOfTwo):
        return right.times(left)
    if sign == "**":
        if left.number != 2:
            raise ValueError(f"a power of {left.number}")
        return PowerOfTwo(right.integer)
    if left.floating or right.floating:
        return _floats(sign, left, right)
    return _integers(sign, left, right)


def equal_with_sign(left: Value, right: Value) -> Value:
    """Compare with a constant that was written with its sign: then +0.0 and -0.0 differ."""
    return truth(left.number == right.number and (right.number or left.sign == right.sign))


def _floats(sign: str, left: Value, right: Value) -> Value:
    x, y = left.number, right.number
    if sign in _COMPARISONS:
        return truth(_COMPARISONS[sign](x, y))
    # Doubles have more than twice the bits of the others: rounding the result again is harmless.
    width = max(v.width for v in (left, right) if v.floating)
    return real(_quotient(x, y) if sign == "/" else _ARITHMETIC[sign](x, y), width=width)


def _integers(sign: str, left: Value, right: Value) -> Value:
    x, y = left.integer, right.integer
    if sign in _COMPARISONS:
        return truth(_COMPARISONS[sign](x, y))
    if sign in ("<<", ">>"):
        shifted = x << y if sign == "<<" else x >> y
        return integer(shifted, left.kind, max(_PROMOTED_BITS, left.width))
    kind = "I" if left.kind == right.kind == "I" else "U"
    return integer(_WHOLE[sign](x, y), kind, max(_PROMOTED_BITS, left.width, right.width))


def _quotient(x: float, y: float) -> float:
    if y:
        return x / y
    if x == 0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, math.copysign(1.0, x) * math.copysign(1.0, y))
