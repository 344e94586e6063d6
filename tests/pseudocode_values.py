"""Numbers as the CDNA4 manual's pseudo-code types them: bits with a kind and a width."""

import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

_STRUCT = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}
# Exponent and mantissa bits of what struct does not know. AMD calls e4m3 fp8, e5m2 bf8, e2m1 fp4.
_LAYOUTS = {("BF", 16): (8, 7), ("FP", 8): (4, 3), ("BF", 8): (5, 2), ("FP", 4): (2, 1)}
_LAYOUTS |= {("FP", 6): (2, 3), ("BF", 6): (3, 2)}
_EXPONENT_BITS = {16: 5, 32: 8, 64: 11}


@dataclass(frozen=True, slots=True)
class Value:
    """``bits`` as U, I (two's complement), B (untyped), F (IEEE), BF or FP of ``width`` bits."""

    kind: str
    width: int
    bits: int

    @property
    def floating(self) -> bool:
        return self.kind in ("F", "BF", "FP")

    @property
    def integer(self) -> int:
        """The mathematical value of an integer, or the bits of anything else."""
        if self.kind == "I" and self.bits >> (self.width - 1) & 1:
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def number(self) -> float:
        """The value as a double, which holds every format here exactly."""
        if not self.floating:
            return float(self.integer)
        if self.kind != "F":
            return _decode(self.bits, *_LAYOUTS[self.kind, self.width])
        real, whole = _STRUCT[self.width]
        return float(struct.unpack(real, struct.pack(whole, self.bits))[0])

    @property
    def exponent(self) -> int:
        """The biased exponent field."""
        return self.bits >> self.mantissa_bits & ((1 << self.exponent_bits) - 1)

    @property
    def mantissa_field(self) -> int:
        return self.bits & ((1 << self.mantissa_bits) - 1)

    @property
    def sign(self) -> int:
        return self.bits >> (self.width - 1) & 1

    @property
    def nan(self) -> bool:
        return self.exponent == (1 << self.exponent_bits) - 1 and self.mantissa_field != 0

    @property
    def quiet(self) -> bool:
        """Whether the top bit of the mantissa is set, which tells the two kinds of NaN apart."""
        return bool(self.bits >> (self.mantissa_bits - 1) & 1)

    @property
    def exponent_bits(self) -> int:
        return _EXPONENT_BITS[self.width] if self.kind == "F" else 8

    @property
    def mantissa_bits(self) -> int:
        return self.width - 1 - self.exponent_bits

    def quieted(self) -> "Value":
        return Value(self.kind, self.width, self.bits | 1 << (self.mantissa_bits - 1))


@dataclass(frozen=True, slots=True)
class PowerOfTwo:
    """2 to a power that no format may hold: multiplying by it rounds once, as ldexp does."""

    exponent: int

    def times(self, value: Value) -> Value:
        x = value.number
        if math.isnan(x) or math.isinf(x) or x == 0:
            return value
        reach = max(-2200, min(2200, self.exponent))
        return real(Fraction(x) * Fraction(2) ** reach, value.kind, value.width)


def integer(number: int, kind: str = "I", width: int = 32) -> Value:
    """Wrap ``number`` to ``width`` bits."""
    return Value(kind, width, number & ((1 << width) - 1))


def truth(condition: object) -> Value:
    return Value("U", 1, int(bool(condition)))


def real(number: float | Fraction, kind: str = "F", width: int = 32) -> Value:
    """Round ``number`` once, to nearest and even, to a format with infinities (F or bf16)."""
    if kind == "F":
        return Value(kind, width, _ieee_bits(number, width))
    if isinstance(number, float) and not math.isfinite(number):
        return Value(kind, width, _ieee_bits(number, 32) >> 16)
    sign, magnitude = _split(number)
    bits = encode(magnitude, *_LAYOUTS[kind, width], most=0x7F80)
    return Value(kind, width, sign << (width - 1) | bits)


def saturated(number: float | Fraction, kind: str, width: int) -> Value:
    """Round ``number`` to nearest and even; what is too large becomes the largest finite value.

    For formats without infinities. The manual names such conversions (``bf16_to_fp4_scale``) and
    leaves them undefined: this is our model of them. A NaN becomes the largest value, too.
    """
    most = (1 << (width - 1)) - 1
    if isinstance(number, float) and math.isnan(number):
        return Value(kind, width, most)
    if isinstance(number, float) and math.isinf(number):
        return Value(kind, width, (number < 0) << (width - 1) | most)
    sign, magnitude = _split(number)
    return Value(
        kind, width, sign << (width - 1) | encode(magnitude, *_LAYOUTS[kind, width], most=most)
    )


def encode(magnitude: Fraction, exponent_bits: int, mantissa_bits: int, *, most: int) -> int:
    """Round a magnitude to nearest and even, at most to the bits of ``most``; no sign."""
    if not magnitude:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    units = round(magnitude / Fraction(2) ** (exponent - mantissa_bits))  # halves go to even
    return min(most, ((exponent + bias - 1) << mantissa_bits) + units)


def _split(number: float | Fraction) -> tuple[int, Fraction]:
    negative = math.copysign(1.0, number) < 0 if isinstance(number, float) else number < 0
    return int(negative), abs(Fraction(number))


def _ieee_bits(number: float | Fraction, width: int) -> int:
    real_code, whole = _STRUCT[width]
    if isinstance(number, Fraction):
        sign, magnitude = _split(number)
        exponent_bits = _EXPONENT_BITS[width]
        mantissa_bits = width - 1 - exponent_bits
        infinity = ((1 << exponent_bits) - 1) << mantissa_bits
        return sign << (width - 1) | encode(magnitude, exponent_bits, mantissa_bits, most=infinity)
    try:
        packed = struct.pack(real_code, number)
    except OverflowError:
        packed = struct.pack(real_code, math.copysign(math.inf, number))
    return int(struct.unpack(whole, packed)[0])


@cache
def _decode(bits: int, exponent_bits: int, mantissa_bits: int) -> float:
    bias = (1 << (exponent_bits - 1)) - 1
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) & 1 else 1.0
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if exponent_bits == 8 and exponent == 255:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


@cache
def literal(text: str) -> Value:
    """Return what a literal such as ``16'0U``, ``0xffLL``, ``1.0F`` or ``31`` stands for."""
    match = re.fullmatch(r"(?:(\d+)')?(0x[0-9a-f]+|\d+\.\d+|\d+)(ULL|LL|U|F)?", text)
    if not match:
        raise ValueError(f"no literal: {text}")
    sized, digits, suffix = match.groups()
    width = int(sized or (64 if suffix in ("LL", "ULL") else 32))
    if "." in digits:
        return real(float(digits), width=int(sized or (32 if suffix == "F" else 64)))
    number = int(digits, 0)
    if not sized and number >> width:
        width = 64
    return integer(number, "U" if suffix in ("U", "ULL") else "I", width)


@cache
def parse_type(name: str) -> tuple[str, int] | None:
    """Return (kind, width) of ``u32``, ``bf16`` or ``32'U``, or None if it names no type."""
    if match := re.fullmatch(r"(\d+)'([A-Z]+)", name):
        return match[2], int(match[1])
    if match := re.fullmatch(r"(bf|fp|[uifb])(\d+)", name):
        return match[1].upper(), int(match[2])
    return None


def view(value: Value, kind: str, width: int) -> Value:
    """Return ``value.u32`` and the like: the low bits, or the number if floats change width."""
    if value.kind == "F" and kind == "F" and value.width != width:
        return convert(value, kind, width)
    if value.kind == "I" and kind == "I":
        return integer(value.integer, kind, width)
    return integer(value.bits, kind, width)


def convert(value: Value, kind: str, width: int) -> Value:
    """Return ``32'F(value)`` and the like; an integer cast to a float gives its bits.

    A signalling NaN stays one, for the manual asks ``isSignalNAN(64'F(S0.f32))``.
    """
    if not (value.floating and kind in ("F", "BF")):
        return integer(value.integer, kind, width)
    if value.kind == kind and value.width == width:
        return value
    if not value.nan:
        return real(value.number, kind, width)
    wide = Value(kind, width, 0)
    infinity = ((1 << wide.exponent_bits) - 1) << wide.mantissa_bits
    moved = value.mantissa_field << 64 >> value.mantissa_bits
    mantissa = moved >> (64 - wide.mantissa_bits) or 1
    return Value(kind, width, value.sign << (width - 1) | infinity | mantissa)
