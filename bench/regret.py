"""How much a search loses against trying everything, from a recording and without a GPU.

    python bench/regret.py RECORDING [--seeds 5] [--effort quick --effort default]

RECORDING is the store of an exhaustive sweep (or its folder). Every effort is replayed with several
seeds; a choice's regret is its recorded time over the best recorded one of its shape. Prints JSON.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from mxtune.configs.regimes import Regime
from mxtune.configs.settings import read_settings
from mxtune.kernels.registry import brief
from mxtune.tuner.machine import Machine
from mxtune.tuner.replay import Recording
from mxtune.tuner.request import Request
from mxtune.tuner.search import effort_of
from mxtune.tuner.sweep import Ended, sweep

NOTHING = Machine(None, None, "", None, (), (), "a replay needs no GPU", ())


def replay(recording: Path, effort: str, seed: int) -> Ended:
    """Run one replayed sweep of all recorded shapes."""
    shapes = tuple(sorted({shape for shape, _ in Recording.load(recording).finals}))
    with tempfile.TemporaryDirectory() as out:
        request = Request(
            shapes, (), None, "auto", Path(out), effort_of(effort), Regime(), "0",
            recording=recording, seed=seed,
        )  # fmt: skip
        events = list(sweep(request, NOTHING, read_settings()))
    ended = events[-1]
    assert isinstance(ended, Ended)
    return ended


def summary(recording: Path, effort: str, seeds: int) -> dict[str, Any]:
    """Return the regrets of one effort over all seeds, and the routes it chose."""
    runs = [replay(recording, effort, seed) for seed in range(seeds)]
    shapes = sorted(runs[0].regrets)
    tried = [sum(task.looked_at for task in run.tasks) for run in runs]
    return {
        "worst": round(max(max(run.regrets.values()) for run in runs), 4),
        "median": round(median(r for run in runs for r in run.regrets.values()), 4),
        "tried": round(median(tried)),
        "by_shape": {
            str(shape): {
                "regret": [round(run.regrets[shape], 4) for run in runs],
                "routes": sorted(
                    {brief(e.route) for run in runs for e in run.table.routes if e.key == shape}
                ),
            }
            for shape in shapes
        },
    }


def main() -> None:
    """Parse, replay, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--effort", action="append")
    options = parser.parse_args()
    efforts = options.effort or ["quick", "default"]
    report = {name: summary(options.recording, name, options.seeds) for name in efforts}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
