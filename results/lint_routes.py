"""Rules for single routes: known, legal on the target, its kernel there, and within the LDS."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from mxtune.configs.asm_rules import load_asm_rules
from mxtune.configs.devices import Device
from mxtune.configs.errors import ConfigError
from mxtune.configs.evidence import Reported
from mxtune.configs.routes import Config, Route
from mxtune.kernels.aiter import ARCH
from mxtune.kernels.registry import brief, checked_route, family
from mxtune.results.findings import Finding
from mxtune.results.installed import Installed
from mxtune.results.table_files import Placed, TableFile

_ASM = "asm"  # the family whose routes name a kernel
_TILE = re.compile(r"[0-9]+x[0-9]+( plain)?")


@dataclass(frozen=True, slots=True)
class Usable:
    """A route whose settings are known and that is not illegal for its shape."""

    placed: Placed
    route: Route  # with every setting


def usable(file: TableFile, device: Device) -> Iterator[Usable]:
    """Yield the routes of a table that are known and not illegal."""
    for placed in file.routes:
        route = _checked(file, placed)
        if isinstance(route, Route):
            verdict = family(route.family).legality(route.config, placed.shape, device)
            if verdict.grade != "illegal":
                yield Usable(placed, route)


def single_routes(file: TableFile, device: Device, here: Installed) -> Iterator[Finding]:
    """Yield what is wrong with each route by itself, and with the default."""
    for placed in file.routes:
        found = _checked(file, placed)
        if isinstance(found, Finding):
            yield found
        else:
            yield from _judged(file, placed, found, device, here)
        yield from _lds(file, placed, device)
    yield from _default(file)
    yield from _not_looked_up(file, here)


def _checked(file: TableFile, placed: Placed) -> Route | Finding:
    """Return a route with every setting, or why it is none of ours."""
    route = placed.entry.route
    if route.family == _ASM and "kernel" in route.config:
        reason = _no_kernel(route.config)
        if reason:
            return _error(file, placed, "kernel-name", reason)
    try:
        return checked_route(route)
    except ConfigError as error:
        return _error(file, placed, "unknown", str(error))


@cache
def _labels() -> dict[str, str]:
    """Every ASM kernel that is known, mangled, by its tile."""
    return {facts.label: facts.name for facts in load_asm_rules(ARCH).kernels}


def _no_kernel(config: Config) -> str | None:
    word = config.text("kernel")
    if not _TILE.fullmatch(word):
        return f"{word[:100]!r} names no ASM kernel: tables name them by tile, as in 32x128"
    return None if word in _labels() else f"no ASM kernel of AITER's is called {word!r}"


def _judged(
    file: TableFile, placed: Placed, route: Route, device: Device, here: Installed
) -> Iterator[Finding]:
    """Yield the one thing that keeps a known route from being used, if something does."""
    label = route.config.get("kernel")
    if here.kernels and route.family == _ASM and _labels()[str(label)] not in here.kernels:
        why = f"the AITER installed here has no kernel {label}"
        yield _error(file, placed, "kernel-missing", why)
        return
    verdict = family(route.family).legality(route.config, placed.shape, device)
    kind = placed.entry.evidence.kind
    if verdict.grade == "illegal":
        reason = verdict.reason.removeprefix(f"{label}: ")
        yield _error(file, placed, "illegal", f"{brief(route)}: {reason}")
    elif verdict.grade == "suspect" and kind != "measured":
        why = f"suspect and only {kind}, so no dispatcher takes it: {verdict.reason}"
        yield Finding("warning", "suspect", file.name, placed.place, placed.shape, why)


def _lds(file: TableFile, placed: Placed, device: Device) -> Iterator[Finding]:
    evidence = placed.entry.evidence
    if not isinstance(evidence, Reported) and evidence.objects.lds_bytes > device.lds_bytes:
        used, most = evidence.objects.lds_bytes, device.lds_bytes
        why = f"its kernels take {used} B of LDS; {device.arch} has {most} B"
        yield _error(file, placed, "lds", why)


def _default(file: TableFile) -> Iterator[Finding]:
    default = file.table.default
    if default is None:
        return
    try:
        checked_route(Route(default.family, Config.of(default.config)))
    except ConfigError as error:
        yield Finding("error", "unknown", file.name, "default", None, str(error))


def _not_looked_up(file: TableFile, here: Installed) -> Iterator[Finding]:
    """Say that the names of kernels were not compared with an AITER, where there is none."""
    named = [placed for placed in file.routes if placed.entry.family == _ASM]
    if named and not here.kernels:
        why = f"routes that name a kernel: {len(named)}; not looked up: {here.no_kernels}"
        yield Finding("note", "kernel-missing", file.name, "", None, why)


def _error(file: TableFile, placed: Placed, rule: str, message: str) -> Finding:
    return Finding("error", rule, file.name, placed.place, placed.shape, message)
