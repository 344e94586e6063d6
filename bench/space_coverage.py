"""How many of AITER's tuned Triton configs our families can express, and our spaces contain.

    python bench/space_coverage.py --data DIR [--json]

DIR/triton-json holds AITER's files, `<arch>-GEMM-<kind>[-N=<n>-K=<k>].json`: a config for each
bucket of M. The kind says which of AITER's kernels it is for, and so which of our families do the
same work. A config is expressible if its family takes every setting, and inside if the bundled
space has a point with all of them. Where a file names N and K, it is offered if a sweep of the
bucket's largest shape would try it.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxtune.configs.devices import load_device
from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.shapes import Shape
from mxtune.configs.spaces import Space, load_also, load_space
from mxtune.kernels.registry import checked_route, family

ARCH = "gfx950"
BEYOND = 2  # the bucket without a bound is looked at with M this many times the largest bound
TILES = {
    "BLOCK_SIZE_M": "BLOCK_M",
    "BLOCK_SIZE_N": "BLOCK_N",
    "BLOCK_SIZE_K": "BLOCK_K",
    "GROUP_SIZE_M": "group_m",
    "NUM_KSPLIT": "split_k",
}
LEAST_N_SHUFFLED = 32  # AITER's launchers raise BLOCK_SIZE_N to this for shuffled weights

_FILE = re.compile(r"(gfx\w+)-GEMM-([^-]+)(?:-N=(\d+)-K=(\d+))?\.json")


@dataclass(frozen=True, slots=True)
class Kind:
    """Which of our families do what one of AITER's kernels does."""

    aiter: str  # the family that calls it, empty if none does
    whole: tuple[str, ...]  # of ours, with one split
    split: tuple[str, ...]  # with several
    shuffled: bool
    extra: Mapping[str, Value]  # settings of ours that make it so


KINDS: Mapping[str, Kind] = {
    "A16WFP4": Kind("aiter_a16", ("fused",), ("fused_atomic",), shuffled=False, extra={}),
    "A16WFP4_PRESHUFFLED": Kind(
        "aiter_preshuffle",
        ("fused_preshuffle",),
        ("fused_preshuffle", "fused_preshuffle_atomic"),
        shuffled=True,
        extra={},
    ),
    "AFP4WFP4": Kind("", ("direct",), ("splitk",), shuffled=False, extra={"weights": "plain"}),
    "AFP4WFP4_PRESHUFFLED": Kind(
        "", ("direct",), ("splitk",), shuffled=True, extra={"weights": "shuffled"}
    ),
}


@dataclass(frozen=True, slots=True)
class Tuned:
    """One of AITER's configs, and the shape it is for if its file tells."""

    file: str
    bucket: str
    settings: Mapping[str, Value]
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What one of our families makes of one config."""

    family: str
    tuned: Tuned
    lack: str = ""  # why it is not expressible
    inside: bool = False
    left_out: str | None = None  # why a sweep of its shape would not try it; None: no shape

    @property
    def config(self) -> str:
        """The config for people."""
        return " ".join(f"{name}={value}" for name, value in self.tuned.settings.items())


def read(folder: Path) -> Iterator[tuple[str, Tuned]]:
    """Yield every config under its kind; raises ConfigError for a folder without any."""
    paths = sorted((folder / "triton-json").glob("*.json"))
    if not paths:
        raise ConfigError(f"{folder}: no triton-json/*.json in it")
    for path in paths:
        match = _FILE.fullmatch(path.name)
        if not match:
            raise ConfigError(f"{path}: not <arch>-GEMM-<kind>[-N=<n>-K=<k>].json")
        arch, kind, n, k = match.groups()
        if arch == ARCH:
            body: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
            for bucket, settings in body.items():
                shape = Shape(_rows(bucket, body), int(n), int(k)) if n else None
                plain = {name: "" if v is None else v for name, v in settings.items()}
                yield kind, Tuned(path.name, bucket, plain, shape)


def _rows(bucket: str, buckets: Iterable[str]) -> int:
    """Return the largest M of a bucket: M_LEQ_64, M_GEQ_4096, any."""
    if bucket != "any":
        return int(bucket.rpartition("_")[2])
    return BEYOND * max((_rows(other, ()) for other in buckets if other != "any"), default=1)


def judged(kind: str, tuned: Tuned) -> Iterator[Judged]:
    """Yield what each family that does the same work makes of a config."""
    if kind not in KINDS:
        yield Judged("none", tuned, f"no family does what AITER's {kind} does")
        return
    what = KINDS[kind]
    settings = _launched(tuned, shuffled=what.shuffled)
    if what.aiter:
        yield _judge(what.aiter, settings, tuned)
    ours = {TILES.get(name, name): value for name, value in settings.items()}
    names = what.split if int(settings.get("NUM_KSPLIT", 1)) > 1 else what.whole
    for name in names:
        known = {tunable.name for tunable in family(name).tunables}
        extra = {n: v for n, v in what.extra.items() if n in known}
        single = {} if "split_k" in known else {"split_k"}
        yield _judge(name, {n: v for n, v in ours.items() if n not in single} | extra, tuned)


def _launched(tuned: Tuned, *, shuffled: bool) -> dict[str, Value]:
    """Return the settings as AITER's launchers change them: a step longer than K, uneven splits."""
    settings = dict(tuned.settings)
    if shuffled:
        settings["BLOCK_SIZE_N"] = max(LEAST_N_SHUFFLED, int(settings["BLOCK_SIZE_N"]))
    if tuned.shape:
        made = family("aiter_a16").normalise(Config.of(settings), tuned.shape)
        settings |= {name: made[name] for name in ("BLOCK_SIZE_K", "NUM_KSPLIT")}
    return settings


def _judge(name: str, settings: Mapping[str, Value], tuned: Tuned) -> Judged:
    try:
        full = checked_route(Route(name, Config.of(settings))).config
    except ConfigError as error:
        return Judged(name, tuned, str(error).removeprefix(f"{name}: "))
    won = any(_has(space, name, settings) for space in load_also(name, ARCH))
    inside = won or _has(load_space(name, ARCH), name, settings)
    return Judged(name, tuned, "", inside, _obstacle(name, full, tuned.shape, won=won))


def _has(space: Space, name: str, settings: Mapping[str, Value]) -> bool:
    """Whether a space has a point with these settings."""
    usual = {tunable.name: (tunable.default,) for tunable in family(name).tunables}
    return all(value in {**usual, **space}[setting] for setting, value in settings.items())


def _obstacle(name: str, config: Config, shape: Shape | None, *, won: bool) -> str | None:
    """Say why a sweep of a shape would leave a config out that is in the space, or ""."""
    if shape is None:
        return None
    owner, device = family(name), load_device(ARCH)
    config = owner.normalise(config, shape)
    verdict = owner.legality(config, shape, device)
    if verdict.grade == "illegal":
        return f"illegal: {verdict.reason}"
    waste = owner.waste(config, shape, device, won=won)
    return f"a waste: {waste}" if waste else ""


def summary(folder: Path) -> dict[str, Any]:
    """Return the figures of every family, and what is not expressible, not inside, not offered."""
    by_family: dict[str, list[Judged]] = {}
    for kind, tuned in read(folder):
        for found in judged(kind, tuned):
            by_family.setdefault(found.family, []).append(found)
    return {name: _figures(by_family[name]) for name in sorted(by_family)}


def _figures(all_of_it: Iterable[Judged]) -> dict[str, Any]:
    found = list(all_of_it)
    able = [one for one in found if not one.lack]
    shaped = [one for one in able if one.left_out is not None]
    return {
        "configs": len(found),
        "distinct": len({one.config for one in found}),
        "expressible": len(able),
        "inside": sum(one.inside for one in able),
        "with_shape": len(shaped),
        "offered": sum(one.inside and not one.left_out for one in shaped),
        "not_expressible": [_line(one, one.lack) for one in found if one.lack],
        "not_inside": [_line(one, one.config) for one in able if not one.inside],
        "not_offered": dict(Counter(one.left_out for one in shaped if one.left_out)),
    }


def _line(found: Judged, what: str) -> str:
    return f"{found.tuned.file} {found.tuned.bucket}: {what}"


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report for people."""
    for name, of in report.items():
        yield (
            f"{name:17} {of['configs']:4} configs ({of['distinct']} distinct), {of['expressible']} "
            f"expressible, {of['inside']} inside; of {of['with_shape']} with a shape "
            f"{of['offered']} offered"
        )
        yield from (f"  not expressible: {line}" for line in of["not_expressible"])
        yield from (f"  not inside: {line}" for line in of["not_inside"])
        yield from (f"  {count} not offered: {why}" for why, count in of["not_offered"].items())


def main() -> None:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = summary(options.data)
    print(json.dumps(report, indent=1) if options.json else "\n".join(lines(report)))


if __name__ == "__main__":
    main()
