"""The evaluator of the manual's pseudo-code against values computed by hand."""

import pytest
from tests.pseudocode import BY_NAME, EvaluationFault, Variables, evaluate
from tests.pseudocode_syntax import SyntaxFault, parse
from tests.pseudocode_values import Value, literal

NAN, SIGNALLING = 0x7FC00000, 0x7F800001
ONE, TWO, HALF, INFINITY = 0x3F800000, 0x40000000, 0x3F000000, 0x7F800000
MINUS_ZERO = 0x80000000


def result(text: str, *sources: int, width: int = 32, **more: object) -> int:
    """Return D0 after ``text`` with S0, S1, ... of ``width`` bits."""
    variables: Variables = {"D0": Value("B", 64, 0), **more}
    variables |= {f"S{at}": Value("B", width, bits) for at, bits in enumerate(sources)}
    evaluate(text, variables)
    bits: int = variables["D0"].bits
    return bits


@pytest.mark.parametrize(
    ("expression", "bits"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("1 << 4 + 1", 32),
        ("7 - 2 - 1", 4),
        ("S0.u32 == 5U ? 10 : 20", 10),
        ("S0.u32 <> 5U ? 10 : 20", 20),
        ("-1", 0xFFFFFFFF),
        ("~S0.u32", 0xFFFFFFFA),
        ("{ 4'0xa, 8'0xbc }", 0xABC),
        ("S1.u32[15 : 8]", 0xCD),
        ("S1.u32[8 +: 4]", 0xD),
        ("S1.u32[0 : 31]", 0xF7B30000),
        ("S1[31 : 16].u32", 0),
        ("32'I(signext(S1.i16))", 0xFFFFCDEF),
        ("32'I(S1.i16) >> 4U", 0xFFFFFCDE),
        ("S1.u16 * S1.u16", 0xCDEF * 0xCDEF & 0xFFFFFFFF),
        ("32'U((64'U(S2.u32) * 64'U(S2.u32)) >> 32U)", 0xFFFFFFFE),
        ("bitCount(S1.u32)", 12),
        ("S0.u32 / 2U % 2U", 0),
        ("v_max_u32(S0.u32, S1.u32)", 0xCDEF),
    ],
)
def test_integer_expressions(expression: str, bits: int) -> None:
    assert result(f"D0.b32 = {expression}", 5, 0xCDEF, 0xFFFFFFFF) == bits


@pytest.mark.parametrize(
    ("expression", "bits"),
    [
        ("1.0F / S0.f32", 0x3EAAAAAB),
        ("S0.f32 * 0.5F", 0x3FC00000),
        ("-S0.f32", 0xC0400000),
        ("S1.f32 + 1.0F", ONE),  # 2 ** -149 is lost
        ("S1.f32 + S1.f32", 2),  # and denormals are not flushed
        ("fma(S0.f32, S0.f32, -S0.f32)", 0x40C00000),
        ("S1.f32 * 2.0F ** 149", ONE),
        ("S0.f32 * 2.0F ** -200", 0),
        ("floor(-S0.f32 * 0.5F)", 0xC0000000),
        ("trunc(-S0.f32 * 0.5F)", 0xBF800000),
        ("fract(S0.f32 * 0.5F)", HALF),
        ("pow(2.0F, S0.f32)", 0x41000000),
        ("log2(S1.f32)", 0xC3150000),
        ("u32_to_f32(S2.u32)", 0x4F800000),
        ("exponent(S0.f32)", 128),
        ("f32_to_i32(-S0.f32 * 0.9F)", 0xFFFFFFFE),
        ("f32_to_u32(-S0.f32)", 0),
        ("f32_to_bf16(S3.f32)", 0x3F80),  # 1 + 2 ** -8 is halfway: to even
        ("f32_to_f16(S0.f32)", 0x4200),
        ("32'F({ 16'0x4040, 16'0U })", 0x40400000),
    ],
)
def test_float_expressions(expression: str, bits: int) -> None:
    assert result(f"D0.b32 = ({expression}).b32", 0x40400000, 1, 0xFFFFFFFF, 0x3F808000) == bits


@pytest.mark.parametrize(
    ("value", "scale", "code"),
    [
        (0x3F80, 127, 0b0010),  # 1
        (0xBF80, 127, 0b1010),
        (0x3F80, 128, 0b0001),  # 1 / 2
        (0x3E80, 127, 0b0000),  # 0.25 is halfway between 0 and 0.5
        (0x3F40, 127, 0b0010),  # 0.75: 1 is even
        (0x40A0, 127, 0b0110),  # 5: 4 is even
        (0x40E0, 127, 0b0111),  # 7 is more than 6
        (0x7F80, 127, 0b0111),
        (0x8000, 127, 0b1000),
        (0x0001, 1, 0b0000),
        (0x0040, 0, 0b0010),  # a denormal, and the smallest scale
    ],
)
def test_fp4_is_rounded_to_even_and_saturates(value: int, scale: int, code: int) -> None:
    scale_bits = Value("U", 8, scale)
    assert result("D0.b32 = bf16_to_fp4_scale(S0.bf16, scale).b32", value, scale=scale_bits) == code


def test_fp4_is_multiplied_by_its_scale() -> None:
    text = "D0.b32 = fp4_to_bf16_scale(S0[3 : 0].fp4, 8'126U).b32"
    assert [result(text, code) for code in (1, 7, 9)] == [0x3E80, 0x4040, 0xBE80]


def test_writing_bits_leaves_the_others() -> None:
    assert result("D0[15 : 8] = 8'0xab; D0[4] = 1'1U", D0=Value("B", 64, 0xFFFFFF0F)) == 0xFFFFAB1F
    assert result("D0.u16 = 16'0x1234", D0=Value("B", 64, 0xAAAABBBB)) == 0xAAAA1234
    assert result("tmp[31 : 16].u16 = 16'7U; tmp[15 : 0].u16 = 16'9U; D0.b32 = tmp.b32") == 0x70009


def test_loops_branches_and_functions() -> None:
    text = """tmp = 0;
for i in 0 : 31 do
if i == 3 then
tmp += 100
elsif i > 5 then
break
else
tmp += i
endif
endfor;
DOUBLE = lambda(x) (
return x * 2);
D0.i32 = DOUBLE(tmp)"""
    assert result(text) == 2 * (0 + 1 + 2 + 100 + 4 + 5)


@pytest.mark.parametrize(
    ("left", "right", "largest"),
    [
        (ONE, TWO, TWO),
        (ONE, NAN, ONE),
        (NAN, ONE, ONE),
        (SIGNALLING, ONE, SIGNALLING | 0x400000),
        (0, MINUS_ZERO, 0),
        (MINUS_ZERO, 0, 0),
        (MINUS_ZERO, MINUS_ZERO, MINUS_ZERO),
        (INFINITY, TWO, INFINITY),
    ],
)
def test_the_larger_float(left: int, right: int, largest: int) -> None:
    assert result(BY_NAME["V_MAX_F32"], left, right) == largest


@pytest.mark.parametrize(
    ("selector", "bits"),
    [(0x00010203, 0x88776655), (0x07060504, 0x44332211), (0x080A0C0D, 0x000000FF)],
)
def test_byte_permutation(selector: int, bits: int) -> None:
    assert result(BY_NAME["V_PERM_B32"], 0x44332211, 0x55667788, selector) == bits


def test_sign_bytes_of_a_permutation() -> None:
    text = BY_NAME["V_PERM_B32"]
    assert result(text, 0x80008000, 0x00008000, 0x080B0A09) == 0xFFFFFF00


def test_the_first_lane_is_read() -> None:
    registers = {lane: {7: Value("U", 32, 100 + lane)} for lane in range(64)}
    for exec_mask, bits in ((0b1000, 103), (0, 100)):
        found = result(
            BY_NAME["V_READFIRSTLANE_B32"],
            EXEC=Value("U", 64, exec_mask),
            VGPR=registers,
            SRC0=Value("U", 32, 7),
        )
        assert found == bits


def test_scalar_arithmetic_sets_scc() -> None:
    variables: Variables = {
        "S0": Value("B", 32, 0xFFFFFFFF),
        "S1": Value("B", 32, 1),
        "D0": Value("B", 64, 0),
        "SCC": Value("U", 1, 0),
    }
    evaluate(BY_NAME["S_ADD_U32"], variables)
    assert (variables["D0"].bits, variables["SCC"].bits) == (0, 1)
    evaluate(BY_NAME["S_ADD_I32"], variables)
    assert (variables["D0"].bits, variables["SCC"].bits) == (0, 0)


def test_exec_is_saved() -> None:
    variables: Variables = {"S0": Value("B", 64, 0b1100), "EXEC": Value("U", 64, 0b0110)}
    variables |= {"D0": Value("B", 64, 0), "SCC": Value("U", 1, 0)}
    evaluate(BY_NAME["S_AND_SAVEEXEC_B64"], variables)
    assert [variables[name].bits for name in ("D0", "EXEC", "SCC")] == [0b0110, 0b0100, 1]


def test_what_is_not_known_is_refused() -> None:
    for text in ("D0 = nothing", "D0 = nothing(1)", "D0.u32.x = 1", "D0 = S0.x"):
        with pytest.raises(EvaluationFault):
            result(text, 0)
    for text in ("if x then", "D = A (16x128)", "s_sleep 0", "1 = ", "x = @"):
        with pytest.raises(SyntaxFault):
            parse(text)
    with pytest.raises(ValueError, match="no literal"):
        literal("x")
