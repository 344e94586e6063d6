"""The functions that the CDNA4 manual's pseudo-code calls, most of which it does not define.

What the manual leaves open is our model of it: conversions to integers round toward zero, saturate
and turn NaN into 0; conversions to floats round to nearest and even and keep denormals; the scaled
ones divide by (or multiply with) two to the scale byte less 127 and round once.
"""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from tests.pseudocode_values import (
    Value,
    convert,
    integer,
    parse_type,
    real,
    saturated,
    truth,
)

Function = Callable[..., Value]
_SCALE_BIAS = 127


def fma(a: Value, b: Value, c: Value) -> Value:
    """Return a * b + c, rounded once."""
    x, y, z = a.number, b.number, c.number
    if not all(map(math.isfinite, (x, y, z))):
        return real(x * y + z, a.kind, a.width)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    # A zero has the sign that the sum of zeros has; a product as small as that is exact in doubles.
    return real(exact if exact else x * y + z, a.kind, a.width)


def _exponent(value: Value) -> Value:
    return integer(value.exponent)


def _mantissa(value: Value) -> Value:
    return real(math.frexp(value.number)[0], value.kind, value.width)


def _rounded(how: Callable[[float], float]) -> Function:
    def rounded(value: Value) -> Value:
        x = value.number
        if not math.isfinite(x):
            return value
        return real(math.copysign(how(x), x), value.kind, value.width)

    return rounded


def _fraction_part(value: Value) -> Value:
    return real(value.number - math.floor(value.number), value.kind, value.width)


def _real_function(how: Callable[[float], float]) -> Function:
    def applied(value: Value) -> Value:
        try:
            return real(how(value.number), value.kind, value.width)
        except ValueError:  # outside the domain: log and sqrt of what is negative
            return real(math.nan, value.kind, value.width)

    return applied


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


def _power(base: Value, exponent: Value) -> Value:
    try:
        return real(math.pow(base.number, exponent.number), base.kind, base.width)
    except OverflowError:
        return real(math.inf, base.kind, base.width)


def _sign_extended(value: Value) -> Value:
    return integer(Value("I", value.width, value.bits).integer, "I", 64)


def _sign_extended_from(value: Value, width: Value) -> Value:
    bits = width.integer
    if not 0 < bits < value.width:
        return value if bits else integer(0, "I", value.width)
    low = value.bits & ((1 << bits) - 1)
    return integer(low - (low >> (bits - 1) << bits), "I", value.width)


def _magnitude(value: Value) -> Value:
    return Value(value.kind, value.width, value.bits & ~(1 << (value.width - 1)))


def to_integer(value: Value, kind: str, width: int) -> Value:
    """Round toward zero and saturate; NaN becomes 0."""
    x = value.number
    lowest, highest = (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if kind == "U":
        lowest, highest = 0, (1 << width) - 1
    if math.isnan(x):
        return integer(0, kind, width)
    if math.isinf(x):
        return integer(highest if x > 0 else lowest, kind, width)
    return integer(max(lowest, min(highest, math.trunc(x))), kind, width)


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "fma": fma,
        "exponent": _exponent,
        "mantissa": _mantissa,
        "sign": lambda v: truth(v.sign),
        "isNAN": lambda v: truth(v.nan),
        "isQuietNAN": lambda v: truth(v.nan and v.quiet),
        "isSignalNAN": lambda v: truth(v.nan and not v.quiet),
        "cvtToQuietNAN": lambda v: v.quieted(),
        "abs": _magnitude,
        "floor": _rounded(math.floor),
        "trunc": _rounded(math.trunc),
        "fract": _fraction_part,
        "isEven": lambda v: truth(math.fmod(v.number, 2.0) == 0),
        "sqrt": _real_function(math.sqrt),
        "log2": _real_function(_log2),
        "sin": _real_function(math.sin),
        "cos": _real_function(math.cos),
        "pow": _power,
        "signext": _sign_extended,
        "signext_from_bit": _sign_extended_from,
        "bitCount": lambda v: integer(v.bits.bit_count()),
    }
)


@cache
def conversion(name: str) -> Function | None:
    """Return ``f32_to_bf16``, ``bf16_to_fp4_scale`` and the like, or None if it is none of them."""
    match = re.fullmatch(r"([a-z]+\d+)_to_([a-z]+\d+)(_scale)?", name)
    source, target = (parse_type(match[1]), parse_type(match[2])) if match else (None, None)
    if not (match and source and target):
        return None
    if match[3]:
        return _scaled(*target)
    if target[0] in ("U", "I"):
        return _integral(source[0], *target)
    return lambda value: (
        convert(value, *target) if source[0] not in ("U", "I") else real(value.number, *target)
    )


def _integral(source: str, kind: str, width: int) -> Function:
    def converted(value: Value) -> Value:
        if source in ("U", "I"):
            return integer(value.integer, kind, width)
        return to_integer(value, kind, width)

    return converted


def _scaled(kind: str, width: int) -> Function:
    """Return the conversion with a scale byte: narrow formats are divided, wide ones multiplied."""
    narrows = kind == "FP" or width < 16

    def converted(value: Value, scale: Value) -> Value:
        x = value.number
        power = scale.bits - _SCALE_BIAS
        finite = math.isfinite(x) and x != 0
        scaled = Fraction(x) * Fraction(2) ** (-power if narrows else power) if finite else x
        return (saturated if narrows else real)(scaled, kind, width)

    return converted
