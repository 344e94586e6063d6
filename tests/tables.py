"""Small route tables for tests: entries with each kind of evidence, and tables around them."""

from pathlib import Path
from typing import Any

from mxtune.configs.evidence import Checked, Evidence, Measured, Modelled, Objects, Reported
from mxtune.configs.routes import Config, Route, Value
from mxtune.configs.table import Default, DeviceInfo, Entry, Made, RouteTable
from mxtune.kernels.registry import checked_route

_RIGHT = Checked(where="gpu", shape=(16, 64, 128), seeds=2, worst=0.5, largest_error=0.1)


def reported(us: float | None = None, source: str = "a forum") -> Reported:
    return Reported(source=source, us=us)


def measured(us: float, noise_us: float = 0.0, *, lds_bytes: int = 0) -> Measured:
    return Measured(
        median_us=us,
        low_us=us - noise_us,
        high_us=us + noise_us,
        rounds=100,
        deterministic=True,
        error=_RIGHT,
        objects=Objects(lds_bytes=lds_bytes),
    )


def modelled(score_us: float, *, lds_bytes: int = 0) -> Modelled:
    objects = Objects(lds_bytes=lds_bytes)
    return Modelled(score_us=score_us, deterministic=True, error=_RIGHT, objects=objects)


def entry(
    shape: tuple[int, int, int],
    family: str = "fused",
    evidence: Evidence | None = None,
    **settings: Value,
) -> Entry:
    """Return the entry of a route whose settings have their defaults, but for what is given."""
    config = dict(checked_route(Route(family, Config.of(settings))).config)
    return raw_entry(shape, family, evidence, **config)


def raw_entry(
    shape: tuple[int, int, int],
    family: str = "fused",
    evidence: Evidence | None = None,
    **config: Value,
) -> Entry:
    """Return an entry with these settings and no others, known or not."""
    return Entry(shape=shape, family=family, config=config, evidence=evidence or reported())


def table(
    *entries: Entry,
    arch: str = "gfx950",
    compute_units: int = 256,
    partition: str | None = None,
    default: Default | None = None,
    **made: Any,
) -> RouteTable:
    """Return a table; ``made`` changes what it says of how it was made."""
    usual = {"at": "2026-01-02T03:04:05+00:00", "mxtune": "0.1.0", "torch": "2.10.0"}
    return RouteTable(
        device=DeviceInfo(
            arch=arch,
            name="AMD Instinct MI355X",
            compute_units=compute_units,
            partition=partition,
        ),
        made=Made.model_validate(usual | {"triton": "3.6.0", "regime": "cold eager"} | made),
        routes=entries,
        default=default,
    )


def saved(path: Path, found: RouteTable) -> Path:
    """Write a table and return where."""
    found.save(path)
    return path
