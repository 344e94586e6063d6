"""A request says what to sweep on; what is not there is refused, never replaced in silence."""

from pathlib import Path

import pytest

from mxtune.configs.devices import Device, load_device
from mxtune.configs.errors import ConfigError, MissingError
from mxtune.configs.regimes import Regime
from mxtune.configs.shapes import Shape
from mxtune.tuner.lanes import Lane
from mxtune.tuner.machine import Machine
from mxtune.tuner.request import Request, lanes_of, seconds_of
from mxtune.tuner.search import effort_of

MI355X, H200 = load_device("gfx950"), load_device("sm_90")


def machine(*gpus: Device, torch: str | None = "2.13.0", note: str = "") -> Machine:
    return Machine(
        torch=torch,
        triton="3.9.0",
        python="3.11.9",
        driver="CUDA 13.0",
        gpus=gpus,
        bus_ids=tuple(f"0000:{at:02d}:00.0" for at in range(len(gpus))),
        note=note,
        warnings=(),
    )


def request(target: str = "auto", gpus: str = "all") -> Request:
    return Request(
        shapes=(Shape(1, 32, 128),),
        families=(),
        most=None,
        target=target,
        out=Path("out"),
        effort=effort_of("quick"),
        regime=Regime(),
        gpus=gpus,
    )


def names(gpus: str, *devices: Device, target: str = "auto") -> list[str]:
    return [lane.gpu for lane in lanes_of(request(target, gpus), machine(*devices))]


@pytest.mark.parametrize("target", ["auto", "gfx950", "sm_90"])
def test_without_a_gpu_there_is_no_lane(target: str) -> None:
    assert lanes_of(request(target), machine(note="no GPU is visible")) == ()


def test_a_lane_is_a_gpu_and_its_name() -> None:
    assert lanes_of(request(gpus="0"), machine(H200)) == (Lane(H200, "cuda:0"),)


@pytest.mark.parametrize(
    ("gpus", "lanes"),
    [
        ("all", ["cuda:0", "cuda:1", "cuda:2"]),
        (" All ", ["cuda:0", "cuda:1", "cuda:2"]),
        ("1", ["cuda:1"]),
        ("0,2", ["cuda:0", "cuda:2"]),
        ("2, 0", ["cuda:2", "cuda:0"]),
        ("1,1", ["cuda:1"]),
    ],
)
def test_gpus_are_picked_by_number(gpus: str, lanes: list[str]) -> None:
    assert names(gpus, H200, H200, H200) == lanes


@pytest.mark.parametrize("gpus", ["3", "0,3", "3,7"])
def test_a_gpu_that_is_not_there_is_refused(gpus: str) -> None:
    with pytest.raises(ConfigError) as caught:
        names(gpus, H200, H200, H200)
    assert str(caught.value) == (f"--gpus {gpus}: GPU 3 cannot be swept on; these can: [0, 1, 2]")


@pytest.mark.parametrize("gpus", ["", "one", "0,", "-1", "0 1", "0;1", "1.0", "cuda:0", "²"])
def test_what_names_no_gpus_is_refused(gpus: str) -> None:
    with pytest.raises(ConfigError) as caught:
        names(gpus, H200)
    assert str(caught.value) == (f"--gpus {gpus}: expected all, or numbers with commas such as 0,2")


def test_of_unlike_gpus_those_like_the_first_are_meant() -> None:
    assert names("all", MI355X, H200, MI355X) == ["cuda:0", "cuda:2"]
    with pytest.raises(ConfigError) as caught:
        names("1", MI355X, H200, MI355X)
    assert str(caught.value) == "--gpus 1: GPU 1 cannot be swept on; these can: [0, 2]"


@pytest.mark.parametrize("target", ["sm_90", "SM_90", "sm_90:feature+"])
def test_a_target_that_is_here_is_measured(target: str) -> None:
    assert names("all", MI355X, H200, target=target) == ["cuda:1"]


def test_a_target_that_is_not_here_is_swept_offline() -> None:
    assert names("all", H200, target="gfx950") == []


def test_a_target_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        names("all", H200, target="gfx1")
    assert str(caught.value) == "no device is called 'gfx1': one of gfx950, sm_90"


def test_gpus_that_cannot_be_used_are_no_lanes() -> None:
    broken = machine(H200, note="triton 3.1 is too old")
    assert lanes_of(request(), broken) == ()
    assert lanes_of(request("sm_90"), broken) == ()


def test_a_machine_without_torch_is_told_what_to_install() -> None:
    with pytest.raises(MissingError) as caught:
        lanes_of(request(), machine(torch=None, note="torch is not installed"))
    assert str(caught.value) == (
        "torch is not installed; a sweep needs it: pip install 'mxtune[cpu]'"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), (" 2 H ", 7200.0), ("0.5s", 0.5)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "s", "0s", "0.0h", "-1s", "1d", "1m30s", "1.h", "inf s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        seconds_of(text)
    assert str(caught.value) == f"{text!r}: not a duration; write it as 90s, 10m or 2h"
