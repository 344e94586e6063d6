"""Kill a sweep again and again at random moments; nothing that it had said may be lost.

    python tests/kill_storm.py [--kills 200] [--seed 0]

The sweep replays a small recording that is made up here, slowed down so that a kill hits any moment
of it: making the store, writing a trial, writing the table. After each kill the store must open and
hold every trial that the sweep had told of; a sweep that comes to its end must leave the very rows
and the very table of one that nobody disturbed.
"""

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mxtune.configs.devices import load_device
from mxtune.configs.errors import StoreError
from mxtune.configs.regimes import Regime
from mxtune.configs.settings import read_settings
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import own_families
from mxtune.results.store import STORE_FILE, Store
from mxtune.results.trial import BASELINE, FLOOR, Session, Trial
from mxtune.tuner.machine import Machine
from mxtune.tuner.request import Request
from mxtune.tuner.search import effort_of
from mxtune.tuner.sweep import TABLE_FILE, Tried, sweep
from mxtune.tuner.task import make_task

SHAPES = (Shape(16, 2112, 512), Shape(64, 128, 512), Shape(3, 70, 96))
RECORDED = 60  # candidates of each shape, where it has so many
NAP_S = 0.002  # after each trial
MOMENT_S = 0.25  # about what making a store takes, and making a table
LEFT_IN_PEACE = 0.5  # of the sweeps that were killed while they made the table
NOTHING = Machine(None, None, "", None, (), (), "a replay needs no GPU", ())

Told = list[list[Any]]


@dataclass(slots=True)
class Storm:
    """What the kills came to."""

    kills: int = 0
    trials_told: int = 0
    whole_sweeps: int = 0  # that came to their end, after any number of kills
    told_none: int = 0  # kills before it told of a trial
    faults: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        """The summary."""
        return (
            f"{self.kills} kills ({self.told_none} before it told of a trial), {self.whole_sweeps} "
            f"sweeps to the end, {self.trials_told} trials told of, {len(self.faults)} faults"
        )


def record(path: Path) -> None:
    """Make up the store of a measured sweep: every screening and a final of all that are right."""
    device = load_device("sm_90")
    described = {"arch": "sm_90", "name": device.name, "compute_units": 132, "partition": None}
    provenance = {
        "arch": "sm_90",
        "device_info": described,
        "device_description": asdict(device),
        "kind": "measured",
        "at": "2026-01-02T03:04:05+00:00",
        "mxtune": "0.1.0",
        "rule": "even",
        "regime": "cold-eager",
    }
    store = Store.open(path, create=True)
    number = store.session(Session.of(provenance))
    for shape in SHAPES:
        task = make_task(shape, own_families(), device, RECORDED, ())
        store.connection.execute("BEGIN")
        for trial in recorded(shape, task.ranked):
            store.add(number, trial)
        store.connection.execute("COMMIT")
    store.close()


def recorded(shape: Shape, routes: tuple[Any, ...]) -> Iterator[Trial]:
    """Yield made-up trials, some of them failures."""
    luck = random.Random(str(shape))
    facts = {
        "objects": {"lds_bytes": 4096, "vgpr": None, "spills": 0, "scaled_mfma": None},
        "checked_shape": [shape.m, shape.n, shape.k],
        "seeds": 2,
        "worst": 0.25,
        "largest_error": 0.125,
        "compile_s": 1.5,
    }
    for place, route in enumerate(routes):
        if place % 9 == 8:
            yield Trial(shape, route, "screen", "crashed", "SIGSEGV")
            continue
        middle = luck.uniform(5, 9)
        samples = tuple(round(luck.gauss(middle, 0.1), 3) for _ in range(30))
        yield Trial(shape, route, "screen", "ok", samples_us=samples[:10], facts=facts)
        yield Trial(shape, route, "final", "ok", samples_us=samples, facts={"heat": 0})
    for beside in (FLOOR, BASELINE):
        yield Trial(shape, beside, "final", "ok", samples_us=(3.0,) * 30, facts={"heat": 0})


def replay(recording: Path, out: Path) -> None:
    """Run in the child: replay slowly, telling of each trial once the store has it."""
    effort = effort_of("quick")
    request = Request(
        SHAPES, (), None, "auto", out, effort, Regime(), "0", recording=recording, seed=7
    )
    print("begin", flush=True)
    for event in sweep(request, NOTHING, read_settings()):
        if isinstance(event, Tried):
            print(json.dumps(place_of(event.trial)), flush=True)
            time.sleep(NAP_S)


def place_of(trial: Trial) -> list[Any]:
    """Return what may be in a store only once, as plain values."""
    shape = trial.shape
    return [shape.m, shape.n, shape.k, trial.route.family, dict(trial.route.config), trial.stage]


def start(recording: Path, out: Path) -> "subprocess.Popen[str]":
    """Start a child that replays."""
    command = [sys.executable, "-P", __file__, "--replay", str(recording), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed(child: "subprocess.Popen[str]", luck: random.Random, last: int) -> tuple[Told, bool]:
    """Kill a child early, at some trial, or while it ends; say what it told and if it had ended."""
    with child:
        assert child.stdout
        assert child.stdout.readline() == "begin\n"
        wanted = luck.choice((0, luck.randrange(last + 1), last))
        lines = list(itertools.islice(child.stdout, wanted))
        time.sleep(luck.uniform(0, MOMENT_S))
        child.kill()
        lines += child.stdout.read().splitlines()
    assert child.returncode in (0, -signal.SIGKILL)
    return [json.loads(line) for line in lines], child.returncode == 0


def undisturbed(recording: Path, out: Path) -> None:
    """Replay to the end."""
    child = start(recording, out)
    child.communicate()
    assert child.returncode == 0


def rows(out: Path) -> list[Trial]:
    """Return the trials of a store, which must be sound; none if it is not made yet."""
    try:
        store = Store.open(out / STORE_FILE)
    except StoreError as error:
        if "no such store" in str(error) or "an empty file" in str(error):
            return []
        raise
    try:
        return [trial for number in store.sessions() for trial in store.trials(number)]
    finally:
        store.close()


def table(out: Path) -> Any:
    """Return what a table says, less when it was made."""
    body = json.loads((out / TABLE_FILE).read_text("utf-8"))
    del body["made"]["at"]
    return body


def storm(kills: int, folder: Path, seed: int, say: Callable[[str], None]) -> Storm:
    """Kill ``kills`` sweeps; a sweep that has come to its end is followed by one from nothing."""
    luck, found = random.Random(seed), Storm()
    recording, calm, out = folder / "recording.sqlite", folder / "calm", folder / "storm-0"
    record(recording)
    undisturbed(recording, calm)
    expected = rows(calm)
    while found.kills < kills:
        child = start(recording, out)
        told, ended = killed(child, luck, len(expected) - len(rows(out)))
        found.kills += not ended
        found.told_none += not (told or ended)
        found.trials_told += len(told)
        found.faults += faults_of(out, told, expected)
        nearly = len(rows(out)) == len(expected) and luck.random() < LEFT_IN_PEACE
        if ended or nearly or found.kills == kills:
            undisturbed(recording, out)
            found.whole_sweeps += 1
            if rows(out) != expected or table(out) != table(calm):
                found.faults.append(f"{out}: not what an undisturbed sweep leaves")
            out = folder / f"storm-{found.whole_sweeps}"
        if found.kills % 20 == 0:
            say(str(found))
    return found


def faults_of(out: Path, told: Told, expected: list[Trial]) -> Iterator[str]:
    """Yield what is wrong with a store after a kill."""
    kept = rows(out)
    if kept != expected[: len(kept)]:
        yield f"{out}: {len(kept)} trials that are not the first of an undisturbed sweep"
    places = [place_of(trial) for trial in kept]
    lost = [place for place in told if place not in places]
    if lost:
        yield f"{out}: lost {lost}"
    if any(places.count(place) > 1 for place in places):
        yield f"{out}: a trial stands twice"
    if (out / TABLE_FILE).exists():
        table(out)


def main() -> None:
    """Parse, be the child or the storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.replay:
        replay(words.replay, words.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = storm(words.kills, Path(folder), words.seed, lambda line: print(line, flush=True))
    print("\n".join([*found.faults, str(found)]))
    sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
