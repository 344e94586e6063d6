"""The recording of an exhaustive sweep on an H200: what searches lose against it."""

from pathlib import Path
from statistics import median

import pytest

from mxtune.configs.regimes import Regime
from mxtune.configs.settings import read_settings
from mxtune.configs.shapes import Shape
from mxtune.tuner.machine import Machine
from mxtune.tuner.replay import Recording
from mxtune.tuner.request import Request
from mxtune.tuner.search import effort_of
from mxtune.tuner.sweep import Ended, sweep

RECORDING = Path(__file__).parent.parent / "results/recordings/h200-amd-mxfp4-mm.sqlite.xz"
NO_GPU = Machine(None, None, "", None, (), (), "a replay needs no GPU", ())


def replayed(effort: str, seed: int, out: Path) -> Ended:
    shapes = tuple(sorted({shape for shape, _ in Recording.load(RECORDING).finals}))
    request = Request(
        shapes=shapes,
        families=(),
        most=None,
        target="auto",
        out=out,
        effort=effort_of(effort),
        regime=Regime(),
        gpus="0",
        recording=RECORDING,
        seed=seed,
    )
    ended = list(sweep(request, NO_GPU, read_settings()))[-1]
    assert isinstance(ended, Ended)
    return ended


def test_the_recording_holds_the_six_contest_shapes() -> None:
    finals = Recording.load(RECORDING).finals
    assert {str(shape) for shape, _ in finals} == {
        "4x2880x512",
        "16x2112x7168",
        "32x4096x512",
        "32x2880x512",
        "64x7168x2048",
        "256x3072x1536",
    }
    assert len(finals) > 3000


@pytest.mark.parametrize(("effort", "worst"), [("quick", 1.05), ("default", 1.02)])
def test_a_search_loses_little_against_trying_everything(
    effort: str, worst: float, tmp_path: Path
) -> None:
    regrets = [replayed(effort, seed, tmp_path / str(seed)).regrets for seed in (0, 1)]
    assert max(max(each.values()) for each in regrets) <= worst
    assert median(regret for each in regrets for regret in each.values()) <= 1.005


def test_another_seed_chooses_the_same_or_what_is_as_fast(tmp_path: Path) -> None:
    chosen: dict[Shape, list[float]] = {}
    for seed in (3, 4):
        ended = replayed("quick", seed, tmp_path / str(seed))
        for shape, regret in ended.regrets.items():
            chosen.setdefault(shape, []).append(regret)
    assert all(abs(first - second) < 0.04 for first, second in chosen.values())


def test_packed_rubbish_is_refused_in_one_line(tmp_path: Path) -> None:
    packed = tmp_path / "rubbish.xz"
    packed.write_bytes(b"no archive")
    with pytest.raises(Exception, match=r"rubbish\.xz: cannot be unpacked"):
        Recording.load(packed)
