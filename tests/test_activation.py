"""An activation quantised once: its layouts, what is refused, and which routes can take it."""

import gc
import json
import subprocess
import sys
import weakref
from inspect import signature
from pathlib import Path

import pytest
import torch
from tests.aiter_package import (
    A4W4,
    A4W4_PLACE,
    A4W4_RETURNS,
    A4W4_TAKES_OUT,
    with_path,
    write_aiter,
)
from tests.aiter_releases import ASM, Told, recording
from torch import Tensor

import mxtune
from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.kernels import formats, layouts
from mxtune.kernels.activation import Mxfp4Activation, quantise
from mxtune.kernels.aiter_calls import adapted
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Call, Problem
from mxtune.kernels.plans import MOST, Plans
from mxtune.kernels.registry import checked_route, families
from mxtune.kernels.shared import bind_shared, shares
from mxtune.kernels.weight import Mxfp4Weight

ROOT = Path(__file__).parent.parent
GFX950 = load_device("gfx950")


def normal(rows: int, columns: int) -> Tensor:
    source = torch.Generator().manual_seed(rows)
    return torch.randn(rows, columns, generator=source).bfloat16()


def route_of(name: str, **settings: Value) -> Route:
    return checked_route(Route(name, Config.of(settings)))


# --- the value


@pytest.mark.parametrize(("m", "k"), [(19, 416), (1, 32), (300, 96), (256, 256)])
def test_each_layout_of_the_scales_is_made_from_the_other_and_kept(m: int, k: int) -> None:
    codes, plain = formats.quantise(normal(m, k))
    activation = Mxfp4Activation(codes, {"plain": plain})
    shuffled = activation.scales("shuffled")
    assert torch.equal(shuffled, layouts.shuffle_scales(plain))
    assert activation.scales("shuffled") is shuffled
    back = Mxfp4Activation(codes, {"shuffled": shuffled}).scales()
    assert torch.equal(back, plain)
    assert (activation.shape, activation.m, activation.k) == ((m, k), m, k)
    assert (activation.device, activation.rule) == ("cpu", "even")


def test_the_package_has_both_names_without_importing_torch() -> None:
    assert mxtune.Mxfp4Activation is Mxfp4Activation
    assert mxtune.quantise is quantise
    told = "import mxtune, sys; print('torch' in sys.modules, *mxtune.__all__)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "False", "Dispatcher", "Mxfp4Activation", "Mxfp4Linear", "Mxfp4Weight", "__version__",
        "load_mxfp4", "quantise", "replace_linears",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (torch.zeros(4, 64), r"A must be a bfloat16 matrix, not torch\.float32 \[4, 64\]"),
        (torch.zeros(64).bfloat16(), r"A must be a bfloat16 matrix, not torch\.bfloat16 \[64\]"),
        (torch.zeros(4, 48).bfloat16(), "K must be a multiple of 32, not 48"),
        (torch.zeros(4, 0).bfloat16(), "K must be between 1 and"),
    ],
)
def test_what_is_no_activation_is_refused(a: Tensor, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quantise(a)


def test_an_unknown_layout_is_refused() -> None:
    codes, scales = formats.quantise(normal(4, 64))
    with pytest.raises(ConfigError, match="unknown layout 'swizzled': plain or shuffled"):
        Mxfp4Activation(codes, {"plain": scales}).scales("swizzled")
    with pytest.raises(ConfigError, match="unknown layout 'swizzled'"):
        quantise(normal(4, 64), scale_layout="swizzled")


def test_on_a_cpu_that_does_not_interpret_it_says_what_to_do() -> None:
    with pytest.raises(MissingError, match="move them to a GPU, or set TRITON_INTERPRET=1"):
        quantise(normal(4, 64))


# --- the routes

SHARING = [
    ("direct", {}, True),
    ("direct", {"convert": "hardware", "weights": "shuffled"}, True),
    ("direct", {"multiply": "bf16"}, False),  # its quantiser writes values, not codes
    ("splitk", {}, True),
    ("splitk", {"multiply": "bf16"}, False),
    ("splitk_atomic", {}, True),
    ("fused", {}, False),
    ("fused_atomic", {}, False),
    ("fused_preshuffle", {}, False),
    ("fused_preshuffle_atomic", {}, False),
    ("asm", {}, True),
    ("aiter", {}, True),
    ("aiter_a16", {}, False),
    ("aiter_preshuffle", {}, False),
]


@pytest.mark.parametrize(("name", "settings", "expected"), SHARING, ids=str)
def test_routes_that_quantise_first_can_share(
    name: str, settings: dict[str, Value], *, expected: bool
) -> None:
    assert shares(route_of(name, **settings), Shape(32, 512, 512), GFX950) is expected


def test_every_family_is_in_that_list() -> None:
    assert {name for name, _, _ in SHARING} == set(families())


def test_a_route_that_cannot_share_is_refused_by_name() -> None:
    shape = Shape(16, 64, 256)
    weight = Mxfp4Weight.quantise(normal(64, 256))
    with pytest.raises(ConfigError, match=r"^fused 16x64x256 takes no A quantised before$"):
        bind_shared(route_of("fused"), Problem.contiguous(shape, GFX950), weight)


# --- AITER's functions


@pytest.mark.parametrize("release", ASM)
def test_an_asm_kernel_reads_the_tensors_of_each_call(release: str) -> None:
    problem = Problem.contiguous(Shape(32, 128, 256), GFX950)
    (call,) = (s for s in planned(route_of("asm"), problem).steps if isinstance(s, Call))
    told: Told = {}
    function = recording(ASM[release], told, None)
    weight = Mxfp4Weight.quantise(normal(128, 256))
    fixed = {"b_shuffled": weight.codes("shuffled")} | {
        "b_scales_shuffled": weight.scales("shuffled")
    }
    given = ("a_codes", "a_scales_shuffled", "c")
    launch = adapted(call, function, signature(function), fixed, given)
    for _ in range(2):
        activation = Mxfp4Activation(*as_shuffled(normal(32, 256)))
        c = torch.zeros(32, 128).bfloat16()
        launch(activation.codes, activation.scales("shuffled"), c)
        at = {name: t.data_ptr() for name, t in told.items() if isinstance(t, Tensor)}
        assert activation.codes.data_ptr() in at.values()
        assert activation.scales("shuffled").data_ptr() in at.values()
        assert c.data_ptr() in at.values()


def as_shuffled(a: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    codes, scales = formats.quantise(a)
    return codes, {"shuffled": layouts.shuffle_scales(scales)}


COMPARE = """
import json, sys
import torch
from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.activation import quantise
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route
from mxtune.kernels.shared import bind_shared
from mxtune.tuner.check import judge, make_case

found = {}
for name, word, settings in json.load(sys.stdin):
    shape = Shape.parse(word)
    problem = Problem.contiguous(shape, load_device("gfx950"))
    route = checked_route(Route(name, Config.of(settings)))
    for layout in ("plain", "shuffled"):
        case = make_case(shape, 1, "cpu")
        launch = bind_shared(route, problem, case.weight)
        c = torch.full((shape.m, shape.n), float("nan")).bfloat16()
        launch(quantise(case.a, scale_layout=layout), c)
        found[f"{name} {word} {layout}"] = judge(case, c).reason or "right"
print(json.dumps(found))
"""
ROUTES: list[tuple[str, str, dict[str, Value]]] = [
    ("asm", "33x64x448", {}),
    ("asm", "32x64x256", {"kernel": "64x256"}),
    ("aiter", "4x96x512", {}),
    ("aiter", "32x64x256", {}),
]


@pytest.mark.parametrize("a4w4", [A4W4_TAKES_OUT, A4W4_RETURNS], ids=["2025", "2026"])
def test_aiters_routes_are_right_with_a_shared_activation(tmp_path: Path, a4w4: str) -> None:
    write_aiter(tmp_path, {A4W4_PLACE: A4W4 + a4w4})
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        input=json.dumps(ROUTES),
        env=with_path(tmp_path, TRITON_INTERPRET="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    places = [f"{n} {word} {way}" for n, word, _ in ROUTES for way in ("plain", "shuffled")]
    assert json.loads(done.stdout) == dict.fromkeys(places, "right")


# --- what is kept


def test_the_plans_of_a_weight_are_so_many_and_go_with_it() -> None:
    made: list[int] = []

    plans, weight = Plans[int](), Mxfp4Weight.quantise(normal(64, 32))

    def of(m: int, w: Mxfp4Weight) -> int:
        def make() -> int:
            made.append(m)
            return 64 * m

        return plans.of(("M", m), w, make)

    assert [of(1, weight), of(2, weight)] == [64, 128]
    for m in (1, *range(3, MOST + 2)):  # the second has not been used for longest
        of(m, weight)
    assert made == list(range(1, MOST + 2))
    of(1, weight)
    assert len(made) == MOST + 1
    of(2, weight)
    assert made[-1] == 2
    seen = weakref.ref(weight)
    del weight
    gc.collect()
    assert seen() is None


def test_nothing_that_times_sweeps_or_exports_can_reuse_an_activation() -> None:
    sources = [p for layer in ("tuner", "results", "bench") for p in (ROOT / layer).rglob("*.py")]
    assert len(sources) > 50
    for path in (*sources, ROOT / "cli.py"):
        text = path.read_text("utf-8")
        for word in ("reuse_activations", "kernels.reuse", "kernels.shared", "kernels.activation"):
            assert word not in text, path
