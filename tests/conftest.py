"""A session on an H200 and trials of it, for the tests of results/; an older Triton, for gfx950."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from tests.older_triton import Compiler, older_compiler

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config, Route
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import checked_route
from mxtune.results.trial import Session, Stage, State, Trial

FACTS: Mapping[str, Any] = {
    "objects": {"lds_bytes": 4096, "vgpr": None, "spills": 0, "scaled_mfma": None},
    "checked_shape": [64, 128, 512],
    "seeds": 2,
    "worst": 0.25,
    "largest_error": 0.125,
}


@pytest.fixture(scope="session")
def older_triton() -> Iterator[Compiler]:
    """Compile in a child that has an older Triton, and a cache for what that compiles."""
    with older_compiler() as compiler:
        yield compiler


@pytest.fixture
def session_with() -> Callable[[Mapping[str, Any]], Session]:
    """Build a session whose provenance differs in what is given."""
    device = {"arch": "sm_90", "name": "NVIDIA H200", "compute_units": 132, "partition": None}
    usual: dict[str, Any] = {
        "arch": "sm_90",
        "device": "NVIDIA H200",
        "device_info": device,
        "device_description": asdict(load_device("sm_90")),
        "kind": "measured",
        "at": "2026-01-02T03:04:05+00:00",
        "mxtune": "0.1.0",
        "torch": "2.11.0",
        "triton": "3.6.0",
        "driver": "580.1",
        "rule": "even",
        "regime": "cold eager",
        "code": "0123456789abcdef",
    }
    return lambda changed: Session.of(usual | dict(changed))


@pytest.fixture
def trial_of() -> Callable[..., Trial]:
    """Build a trial of the direct family with the given BLOCK_M and samples."""

    def build(
        block_m: int,
        *samples_us: float,
        stage: Stage = "screen",
        state: State = "ok",
        shape: tuple[int, int, int] = (64, 128, 512),
        facts: Mapping[str, Any] = FACTS,
    ) -> Trial:
        route = checked_route(Route("direct", Config.of({"BLOCK_M": block_m})))
        return Trial(Shape(*shape), route, stage, state, samples_us=samples_us, facts=facts)

    return build
