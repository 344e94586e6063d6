"""Every family compiled for an MI355X that is not here: matrix instructions, room, wide offsets."""

import re
from collections.abc import Mapping

import pytest
from tests.family_shapes import NAMES, takes

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.build import build
from mxtune.kernels.candidates import candidates
from mxtune.kernels.family import WEIGHT, Problem, Step, View
from mxtune.kernels.registry import family
from mxtune.tuner.objects import CompileJob, compile_facts

GFX950 = load_device("gfx950")
DECODE = Shape(16, 2112, 7168)
RAGGED = Shape(3, 70, 96)
RAGGED_SHUFFLED = Shape(17, 160, 320)
WIDER: dict[str, Value] = {"BLOCK_N": 128, "BLOCK_K": 128, "num_stages": 2}
FROM_THE_SPACE: list[dict[str, Value]] = [
    {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 256, "num_stages": 2},
    {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 512, "num_stages": 2},
]
NARROW_OPERATION = re.compile(
    r"\bbuffer_(?:load|store|atomic)_"
)  # 32-bit offset from a 64-bit base
WIDE_OPERATION = re.compile(r"\bglobal_(?:load|store|atomic)_")  # 64-bit address


def steps_of(name: str, config: Config, shape: Shape) -> tuple[Step, ...]:
    return family(name).plan(config, Problem.contiguous(shape, GFX950)).own


def assembly_of(step: Step) -> str:
    return str(build(step, GFX950).asm["amdgcn"])


def multiplies(step: Step) -> bool:
    return any(buffer.name in WEIGHT for buffer in step.buffers.values())


def check_objects(name: str, config: Config, shape: Shape) -> None:
    steps = steps_of(name, config, shape)
    assert any(map(multiplies, steps))
    for step, facts in zip(
        steps, compile_facts(CompileJob(Route(name, config), shape, GFX950)), strict=True
    ):
        assert facts.obstacle is None
        assert facts.spills == 0
        assert bool(facts.conversions) == bool(step.constants.get("HARDWARE"))
        assert facts.lds_bytes <= 163840
        assert facts.other_mfma == 0  # a bf16 MFMA would mean that the operands were unpacked
        assembly = assembly_of(step)
        assert bool(re.search(r"v_mfma_scale_f32_\w+_f8f6f4", assembly)) == multiplies(step)
        assert "bf16" not in "".join(re.findall(r"v_mfma_\w+", assembly))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (name, shape)
        for name in NAMES
        for shape in (DECODE, RAGGED, RAGGED_SHUFFLED, Shape(64, 64, 320))
        if takes(name, shape)
    ],
    ids=str,
)
def test_a_fallback_uses_the_scaled_matrix_instruction(name: str, shape: Shape) -> None:
    check_objects(name, family(name).fallback(shape), shape)


def test_every_family_has_a_ragged_shape_and_refuses_few() -> None:
    assert [name for name in NAMES if not takes(name, RAGGED)] == [
        "fused_preshuffle",
        "fused_preshuffle_atomic",
    ]
    assert [name for name in NAMES if not takes(name, RAGGED_SHUFFLED)] == []


@pytest.mark.parametrize("settings", FROM_THE_SPACE, ids=["16x64x256", "16x128x512"])
@pytest.mark.parametrize("name", NAMES)
def test_routes_of_the_bundled_space_use_the_scaled_matrix_instruction(
    name: str, settings: dict[str, Value]
) -> None:
    found = [
        route.config
        for route in candidates([family(name)], DECODE, GFX950).routes
        if all(route.config.get(key, value) == value for key, value in settings.items())
    ]
    assert found, f"{name} has no such route in its space"
    kinds: dict[object, Config] = {}  # one of each way of reading A and B, with most warps
    for config in sorted(found, key=lambda config: -config.number("num_warps")):
        kinds.setdefault((config.get("weights"), config["convert"]), config)
    assert len(kinds) >= 2
    for config in kinds.values():
        check_objects(name, config, DECODE)


@pytest.mark.parametrize("settings", [{"weights": "shuffled"}, {"convert": "hardware"}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_either_way_of_reading_an_operand_can_be_asked_for(
    name: str, settings: dict[str, Value]
) -> None:
    config = family(name).fallback(RAGGED_SHUFFLED).changed(**WIDER)
    asked = {key: value for key, value in settings.items() if key in config}
    if asked:
        check_objects(name, config.changed(**asked), RAGGED_SHUFFLED)


@pytest.mark.parametrize("name", NAMES)
def test_xcds_get_runs_of_tiles_only_if_asked(name: str) -> None:
    config = family(name).fallback(DECODE)
    for remap, xcds in ((0, 1), (1, 8)):
        steps = steps_of(name, config.changed(xcd_remap=remap), DECODE)
        assert [step.constants["XCDS"] for step in steps if multiplies(step)] == [xcds]


# Pairs of bf16 are converted as words: rows that do not begin on 4 bytes are left to portable code.
@pytest.mark.parametrize(
    ("view", "words"),
    [
        (View(320, 1), True),
        (View(322, 1), True),
        (View(321, 1), False),
        (View(640, 2), False),
        (View(1, 17), False),
        (View(320, 1, aligned=False), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_the_hardware_converts_where_a_lies_in_pairs(name: str, view: View, *, words: bool) -> None:
    config = family(name).fallback(RAGGED_SHUFFLED).changed(convert="hardware")
    problem = Problem(RAGGED_SHUFFLED, GFX950, view, View(160, 1))
    said = [step.constants.get("HARDWARE") for step in family(name).plan(config, problem).own]
    assert [fact for fact in said if fact is not None] == [words]


@pytest.mark.parametrize("instruction", [16, 32])
@pytest.mark.parametrize("name", NAMES)
def test_either_matrix_instruction_can_be_asked_for(name: str, instruction: int) -> None:
    shape = Shape(64, 64, 512)
    config = family(name).fallback(shape).changed(matrix_instr_nonkdim=instruction)
    steps = [step for step in steps_of(name, config, shape) if multiplies(step)]
    found = set(re.findall(r"v_mfma_scale_f32_(\w+)_f8f6f4", assembly_of(steps[0])))
    assert found == {"16x16x128" if instruction == 16 else "32x32x64"}


# What each step of a family says about its operands, and of what it addresses with 64 bits.
WIDE: list[tuple[Shape, Mapping[str, set[str]], set[str]]] = [
    (Shape(16, 64, 1024), {}, set()),
    # A of 2 GiB in 2^30 elements: 32-bit offsets in elements do, 32-bit ones in bytes do not
    (Shape(524288, 64, 2048), {}, {"quantise", "fused"}),
    (
        Shape(1048576, 64, 2048),  # A of 2^31 elements
        {"quantise": {"WIDE"}, "fused": {"WIDE_A"}},
        {"quantise", "fused"},
    ),
    (
        Shape(64, 2097152, 2048),  # B of 2^31 bytes
        {"gemm": {"WIDE_B"}, "fused": {"WIDE_B"}},
        {"gemm", "fused"},
    ),
    (
        Shape(65536, 32800, 64),  # C of 2,149,580,800 elements, BL-030
        {"gemm": {"WIDE_C"}, "fused": {"WIDE_C"}, "reduce": {"WIDE"}, "zero": {"WIDE"}},
        {"gemm", "fused", "reduce", "zero"},
    ),
    # C of 2 GiB in 2^30 elements
    (Shape(65536, 16384, 64), {}, {"gemm", "fused", "reduce", "zero"}),
]


@pytest.mark.parametrize(("shape", "wide", "addressed"), WIDE, ids=[str(row[0]) for row in WIDE])
@pytest.mark.parametrize("name", NAMES)
def test_operands_beyond_2_gib_are_addressed_with_64_bits(
    name: str, shape: Shape, wide: Mapping[str, set[str]], addressed: set[str]
) -> None:
    for step in steps_of(name, family(name).fallback(shape), shape):
        said = {key for key, value in step.constants.items() if key.startswith("WIDE") and value}
        assert said == wide.get(step.name, set())
        assembly = assembly_of(step)
        assert bool(WIDE_OPERATION.search(assembly)) == (step.name in addressed)
        if said:
            assert "v_lshl_add_u64" in assembly or "v_mad_i64_i32" in assembly
        if not addressed:
            assert NARROW_OPERATION.search(assembly)
