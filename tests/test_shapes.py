"""A shape is read from text as people write it, and is valid once it exists."""

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape, read_dimension


@pytest.mark.parametrize(
    "word", ["16x2112x7168", " 16x2112x7168\n", "16X2112x7168", "+16x2112x7168"]
)
def test_a_word_is_read_as_m_n_k(word: str) -> None:
    assert Shape.parse(word) == Shape(m=16, n=2112, k=7168)


def test_cells_may_have_spaces_around_them() -> None:
    assert Shape.of((" 32 ", "128", " 64")) == Shape(32, 128, 64)


def test_a_shape_prints_as_it_is_written() -> None:
    assert str(Shape(16, 2112, 7168)) == "16x2112x7168"


def test_shapes_sort_by_m_then_n_then_k() -> None:
    shapes = [Shape(16, 1, 64), Shape(2, 9, 32), Shape(2, 1, 96), Shape(2, 1, 32)]
    assert sorted(shapes) == [Shape(2, 1, 32), Shape(2, 1, 96), Shape(2, 9, 32), Shape(16, 1, 64)]


def test_the_largest_dimension_is_what_32_bits_hold() -> None:
    assert Shape.parse("2147483647x1x32").m == 2147483647
    with pytest.raises(ConfigError, match="N must be between 1 and 2147483647, not 2147483648"):
        Shape(1, 2147483648, 32)


# BL-027: a K off the blocks of 32, and dimensions that are no sizes
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("16x64x100", "16x64x100: K must be a multiple of 32, not 100"),
        ("16x64x33", "16x64x33: K must be a multiple of 32, not 33"),
        ("16x64x0", "16x64x0: K must be between 1 and 2147483647, not 0"),
        ("0x64x64", "0x64x64: M must be between 1 and 2147483647, not 0"),
        ("-1x64x64", "-1x64x64: M must be between 1 and 2147483647, not -1"),
        ("16x64x-32", "16x64x-32: K must be between 1 and 2147483647, not -32"),
        ("16.5x64x64", "16.5x64x64: M must be a whole number, not '16.5'"),
        ("16x1e3x64", "16x1e3x64: N must be a whole number, not '1e3'"),
        ("16x1_000x64", "16x1_000x64: N must be a whole number, not '1_000'"),
        ("016x64x64", "016x64x64: M must be a whole number, not '016'"),
        ("\u0661x64x64", "\u0661x64x64: M must be a whole number, not '\u0661'"),
        ("nanx64x64", "nanx64x64: M must be a whole number, not 'nan'"),
        ("16x64", "'16x64': not a shape; write MxNxK, as in 16x2112x7168"),
        ("16x64x64x2", "'16x64x64x2': not a shape; write MxNxK, as in 16x2112x7168"),
        ("16x64x", "'16x64x': not a shape; write MxNxK, as in 16x2112x7168"),
        ("16,64,64", "'16,64,64': not a shape; write MxNxK, as in 16x2112x7168"),
        ("", "'': not a shape; write MxNxK, as in 16x2112x7168"),
    ],
)
def test_a_wrong_word_is_refused_with_the_reason(word: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Shape.parse(word)
    assert str(caught.value) == message


def test_a_number_too_long_for_int_is_refused_in_one_short_line() -> None:
    with pytest.raises(ConfigError) as caught:
        read_dimension("M", "9" * 5000)
    assert str(caught.value) == f"M must be between 1 and 2147483647, not {'9' * 40}..."


def test_a_long_word_is_refused_in_one_short_line() -> None:
    with pytest.raises(ConfigError) as caught:
        Shape.parse("x" * 100_000)
    assert len(str(caught.value)) < 120


def test_a_shape_that_cannot_be_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="K must be a multiple of 32, not 100"):
        Shape(16, 64, 100)
