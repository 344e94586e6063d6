"""Routes of AITER's from A to C, with an AITER that computes in torch, our kernels interpreted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.aiter_package import (
    A4W4,
    A4W4_PLACE,
    A4W4_RETURNS,
    A4W4_TAKES_OUT,
    A16,
    NEW_PLACE,
    OLD_PLACE,
    with_path,
    write_aiter,
)

CHECK = """
import json, sys
from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import bind
from mxtune.kernels.family import Problem
from mxtune.kernels.registry import checked_route
from mxtune.tuner.check import SEEDS, check, make_case

found = {}
for name, word, settings in json.load(sys.stdin):
    shape = Shape.parse(word)
    route = checked_route(Route(name, Config.of(settings)))
    problem = Problem.contiguous(shape, load_device("gfx950"))
    cases = tuple(make_case(shape, seed, "cpu") for seed in SEEDS)
    verdict = check(cases, lambda weight: bind(route, problem, weight))
    found[f"{name} {word}"] = verdict.reason or "right"
print(json.dumps(found))
"""
QUANTISED = {"quant_m": 64, "quant_k": 512}
ROUTES = [
    ("asm", "4x96x512", QUANTISED),
    ("asm", "33x64x448", QUANTISED),
    ("asm", "32x64x256", QUANTISED | {"kernel": "64x256"}),
    ("asm", "256x256x512", QUANTISED | {"kernel": "256x256 plain"}),
    ("aiter", "4x96x512", QUANTISED),
    ("aiter", "32x64x256", QUANTISED),
    ("aiter_a16", "3x70x352", {}),
    ("aiter_a16", "16x64x512", {"NUM_KSPLIT": 2}),
    ("aiter_preshuffle", "17x64x512", {}),
]


@pytest.mark.parametrize(
    ("a4w4", "a16_place"),
    [(A4W4_TAKES_OUT, OLD_PLACE), (A4W4_RETURNS, NEW_PLACE)],
    ids=["2025", "2026"],
)
def test_every_route_passes_the_gate(tmp_path: Path, a4w4: str, a16_place: str) -> None:
    write_aiter(tmp_path, {A4W4_PLACE: A4W4 + a4w4, a16_place: A16})
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        input=json.dumps(ROUTES),
        env=with_path(tmp_path, TRITON_INTERPRET="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found == {f"{name} {word}": "right" for name, word, _ in ROUTES}
