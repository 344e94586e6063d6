"""The rules of AITER's families, and that all that reads a plan can cope with theirs."""

import re
from collections.abc import Mapping

import pytest

from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.devices import load_device
from mxtune.configs.errors import NoRouteError
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import obstacle
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Call, Problem, View
from mxtune.kernels.registry import brief, checked_route, family, own_families
from mxtune.tuner.emulate.findings import EmulationError
from mxtune.tuner.emulate.route import kernel_objects
from mxtune.tuner.model import estimate
from mxtune.tuner.objects import CompileJob, compile_facts, summary

GFX950 = load_device("gfx950")
AITERS = {"aiter", "aiter_a16", "aiter_preshuffle", "asm"}


def route_of(name: str, **settings: Value) -> Route:
    return checked_route(Route(name, Config.of(settings)))


def call_of(name: str, shape: tuple[int, int, int], **settings: Value) -> Call:
    """The only call of a route at a shape, A and C as usual."""
    plan = planned(route_of(name, **settings), Problem.contiguous(Shape(*shape), GFX950))
    (call,) = (step for step in plan.steps if isinstance(step, Call))
    return call


def test_every_kernel_has_a_name_of_the_catalogues_form() -> None:
    form = re.compile(r"_ZN5aiter(\d+)(f4gemm_bf16_per1x32Fp4_(no)?BpreShuffle_(\d+x\d+))E")
    kernels = {t.name: t for t in family("asm").tunables}["kernel"].choices
    assert len(kernels) == 35
    names = {facts.label: facts.name for facts in load_asm_rules().kernels}
    for label in kernels:
        called = call_of("asm", (512, 5120, 2048), kernel=label).values["kernelName"]
        assert called == names[str(label)]
        match = form.fullmatch(str(called))
        assert match
        length, mangled, plain, tile = match.groups()
        assert int(length) == len(mangled)
        assert label == tile + (" plain" if plain else "")
        assert plain or int(length) == 35 + len(tile)


def grade(name: str, shape: tuple[int, int, int], **settings: Value) -> tuple[str, str]:
    route = route_of(name, **settings)
    verdict = family(name).legality(route.config, Shape(*shape), GFX950)
    return verdict.grade, verdict.reason


@pytest.mark.parametrize(
    ("name", "shape", "settings", "expected"),
    [
        ("asm", (16, 2112, 7168), {}, "legal"),
        ("asm", (16, 2128, 7168), {}, "illegal: 32x128: N must be a multiple of 32"),
        ("asm", (16, 2112, 896), {}, "suspect: 32x128: with K no multiple of 256 the padding"),
        ("asm", (16, 2112, 7200), {}, "illegal: 32x128: K must be a multiple of 64"),
        ("asm", (16, 2112, 7168), {"log2_k_split": 1}, "illegal: 32x128: it cannot split K"),
        ("asm", (256, 2880, 512), {"kernel": "64x128"}, "legal"),
        ("asm", (256, 2880, 512), {"kernel": "256x256"}, "illegal: 256x256: N must be a multiple"),
        ("asm", (32, 2**21, 4096), {}, "suspect: an operand of more than 2 GiB"),
        ("aiter", (16, 4096, 512), {}, "legal"),
        ("aiter", (16, 2112, 7168), {}, "suspect: AITER may pick a tile whose last columns race"),
        ("aiter", (16, 4096, 320), {}, "suspect: K is no multiple of 256"),
        ("aiter", (16, 4096, 96), {}, "illegal: shuffled weights need K to be a multiple of 64"),
        ("aiter", (16, 2128, 512), {}, "illegal: AITER may pick a kernel that needs N to be"),
        ("aiter_a16", (16, 2112, 7168), {}, "legal"),
        ("aiter_a16", (3, 70, 352), {}, "suspect: K is no multiple of BLOCK_SIZE_K 256: it reads"),
        ("aiter_a16", (3, 70, 32), {}, "illegal: K 32: the scaled MFMA takes 128 values"),
        (
            "aiter_a16",
            (16, 64, 7168),
            {"NUM_KSPLIT": 3},
            "illegal: AITER changes NUM_KSPLIT x BLOCK_SIZE_K",
        ),
        ("aiter_a16", (16, 64, 7168), {"num_warps": 1}, "illegal: one warp does not get"),
        ("aiter_a16", (2**20, 64, 4096), {}, "illegal: AITER's kernel has 32-bit offsets"),
        ("aiter_preshuffle", (16, 2112, 7168), {}, "legal"),
        (
            "aiter_preshuffle",
            (16, 2112, 7168),
            {"BLOCK_SIZE_N": 128},
            "illegal: N is no multiple of BLOCK_SIZE_N 128: it reads weights past the end",
        ),
        (
            "aiter_preshuffle",
            (16, 2112, 7168),
            {"BLOCK_SIZE_K": 128},
            "illegal: it reads shuffled scales 32 rows and 256 values along K at a time",
        ),
        (
            "aiter_preshuffle",
            (16, 2112, 1280),
            {"BLOCK_SIZE_K": 512},
            "illegal: K is no multiple of BLOCK_SIZE_K 512: the kernel does not compile",
        ),
    ],
)
def test_where_a_route_may_be_used(
    name: str, shape: tuple[int, int, int], settings: Mapping[str, Value], expected: str
) -> None:
    found, reason = grade(name, shape, **settings)
    assert (f"{found}: {reason}" if reason else found).startswith(expected)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"NUM_KSPLIT": 7, "BLOCK_SIZE_K": 512}, (7, 512)),
        ({"NUM_KSPLIT": 8, "BLOCK_SIZE_K": 512}, (7, 512)),  # 14 blocks: the eighth has none
        ({"NUM_KSPLIT": 4, "BLOCK_SIZE_K": 512}, (2, 512)),  # 4, 4, 4, 2: halved until even
        ({"NUM_KSPLIT": 4, "BLOCK_SIZE_K": 256}, (4, 256)),
        ({"NUM_KSPLIT": 6, "BLOCK_SIZE_K": 512}, (1, 512)),
    ],
)
def test_a_split_is_what_aiter_makes_of_it(
    asked: Mapping[str, Value], left: tuple[int, int]
) -> None:
    owner, shape = family("aiter_preshuffle"), Shape(16, 2112, 7168)
    config = owner.normalise(route_of("aiter_preshuffle", **asked).config, shape)
    assert (config["NUM_KSPLIT"], config["BLOCK_SIZE_K"]) == left


def test_a_step_longer_than_k_is_cut_to_it() -> None:
    config = route_of("aiter_a16", BLOCK_SIZE_K=1024, NUM_KSPLIT=2).config
    whole = family("aiter_a16").normalise(config, Shape(16, 64, 512))
    assert (whole["BLOCK_SIZE_K"], whole["NUM_KSPLIT"]) == (512, 1)


def test_rows_in_32s_are_written_straight_to_c() -> None:
    def names(m: int, row: int, aligned: bool) -> list[str]:  # noqa: FBT001
        problem = Problem(Shape(m, 4096, 512), GFX950, View(512, 1), View(row, 1, aligned))
        return [step.name for step in planned(route_of("asm"), problem).steps]

    assert names(32, 4096, aligned=True) == ["quantise", "gemm"]
    assert names(31, 4096, aligned=True) == ["quantise", "gemm", "crop"]
    assert names(32, 4104, aligned=True) == ["quantise", "gemm", "crop"]
    assert names(32, 4096, aligned=False) == ["quantise", "gemm", "crop"]


def test_the_quantiser_covers_the_padding_of_scales() -> None:
    (quantise, *_) = planned(
        route_of("asm", quant_m=16, quant_k=256), Problem.contiguous(Shape(4, 2880, 896), GFX950)
    ).own
    assert quantise.grid == (16, 4)  # 256 rows, and 32 columns of scales for 28
    assert quantise.buffers["scales_ptr"].shape == (256, 32)
    assert (quantise.constants["SHUFFLED"], quantise.integers["scale_width"]) == (True, 32)


# --- everything else that reads a plan


def test_a_route_of_aiters_is_scored_by_what_it_moves_and_launches() -> None:
    shape = Shape(32, 4096, 512)
    direct, split = (
        planned(route_of("aiter_a16", NUM_KSPLIT=s), Problem.contiguous(shape, GFX950)).steps
        for s in (1, 2)
    )
    assert [part.launch_us for part in estimate(direct, GFX950)] == [GFX950.launch_us]
    assert [part.launch_us for part in estimate(split, GFX950)] == [
        GFX950.launch_us + GFX950.dependent_us
    ]
    # 2500 cycles, and 28 times 160 x 256 values of 17/32 bytes at 22 bytes a cycle, at 2.4 GHz
    asm = planned(route_of("asm"), Problem.contiguous(Shape(16, 2112, 7168), GFX950)).steps
    assert [round(part.work_us, 2) for part in estimate(asm, GFX950)][1] == 12.58
    assert [part.step for part in estimate(asm, GFX950)] == ["quantise", "gemm", "crop"]


def test_what_is_aiters_is_not_compiled_and_leaves_valid_evidence() -> None:
    shape = Shape(4, 2880, 512)
    facts = compile_facts(CompileJob(route_of("asm"), shape, GFX950))
    assert [fact.step for fact in facts] == ["quantise", "crop"]
    assert compile_facts(CompileJob(route_of("aiter_a16"), shape, GFX950)) == ()
    assert summary(()).model_dump() == {
        "lds_bytes": 0,
        "vgpr": None,
        "spills": None,
        "scaled_mfma": None,
    }


@pytest.mark.parametrize("name", sorted(AITERS))
def test_a_route_of_aiters_is_not_emulated_as_ours(name: str) -> None:
    problem = Problem.contiguous(Shape(32, 4096, 512), GFX950)
    with pytest.raises(EmulationError) as caught:
        kernel_objects(route_of(name), problem)
    assert str(caught.value) == (
        f"{name} calls AITER, whose kernels `mxtune verify --emulate --asm` executes"
    )


def test_a_route_of_aiters_shows_its_tile() -> None:
    assert brief(route_of("asm", kernel="64x128", quant_m=16)) == "asm 64x128 quant_m=16"
    assert brief(route_of("aiter")) == "aiter"
    assert brief(route_of("aiter_a16", NUM_KSPLIT=2)) == "aiter_a16 16x64x256 NUM_KSPLIT=2"


def test_another_gpu_is_told_before_anything_is_imported() -> None:
    call = call_of("asm", (32, 4096, 512))
    assert obstacle(call, load_device("sm_90")) == "AITER's FP4 kernels are for gfx950, not sm_90"
    assert not AITERS & {owner.name for owner in own_families()}


def test_a_route_that_is_not_legal_is_refused_as_any_other() -> None:
    with pytest.raises(NoRouteError, match="asm 32x128 is not legal for 16x2128x7168: 32x128: N"):
        call_of("asm", (16, 2128, 7168))
