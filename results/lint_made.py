"""Rules for how a table was made: its versions, its scale rule, and the GPU it is for."""

from collections.abc import Iterator

from mxtune.configs.devices import Device, bare_arch
from mxtune.configs.table import RouteTable
from mxtune.kernels.build import TRITON_RANGE, version_pair
from mxtune.kernels.quantise_steps import RULE
from mxtune.kernels.registry import own_families
from mxtune.results.findings import Finding, Severity
from mxtune.results.installed import Installed
from mxtune.results.table_files import TableFile


def made(file: TableFile, here: Installed) -> Iterator[Finding]:
    """Yield what makes a table one of another time: versions, and the rule for block scales."""
    about = file.table.made
    if about.rule != RULE:
        why = f"its routes were found under the scale rule {about.rule!r}; ours is {RULE!r}"
        yield _finding(file, "error", "scale-rule", "made.rule", why)
    if not file.routes:
        yield _finding(file, "warning", "empty", "routes", "there is no route in it")
    yield from _triton(file)
    yield from _others(file, here)


def _triton(file: TableFile) -> Iterator[Finding]:
    found = file.table.made.triton
    if found is None:
        return
    lowest, highest = TRITON_RANGE
    try:
        fits = lowest <= version_pair(found) <= highest
    except ValueError:
        why = f"{found!r} is no version of triton: unknown what made it"
        yield _finding(file, "warning", "versions", "made.triton", why)
        return
    if not fits:
        known = f"triton {'.'.join(map(str, lowest))} to {'.'.join(map(str, highest))}"
        why = f"made with triton {found!r}: verify its routes again; {known} is supported"
        yield _finding(file, "warning", "versions", "made.triton", why)


def _others(file: TableFile, here: Installed) -> Iterator[Finding]:
    """Yield versions that are not known, or not the ones that are here."""
    recorded = _recorded(file.table)
    unknown = [name for name, found in recorded.items() if found is None]
    if unknown:
        why = f"no version of {', '.join(unknown)} is recorded: unknown whether it fits"
        yield _finding(file, "note", "versions", "made", why)
    for name, found in recorded.items():
        ours = here.version_of(name)
        if found and ours and _public(found) != _public(ours):
            why = f"made with {name} {found!r}; {ours!r} is installed here"
            yield _finding(file, "note", "versions", f"made.{name}", why)


def _recorded(table: RouteTable) -> dict[str, str | None]:
    """Return the versions that matter for a table: AITER's only if a route is AITER's."""
    named = {entry.family for entry in table.routes}
    named |= {table.default.family} if table.default else set()
    foreign = named - {family.name for family in own_families()}
    versions = {"torch": table.made.torch, "triton": table.made.triton}
    return versions | ({"aiter": table.made.aiter} if foreign else {})


def _public(release: str) -> str:
    """Drop what a build adds to a release: 2.11.0+cpu and 2.11.0+rocm7.1 are one torch."""
    return release.split("+")[0]


def on_device(file: TableFile, device: Device) -> Iterator[Finding]:
    """Yield in what the GPU of a table is not ``device``."""
    info = file.table.device
    if bare_arch(info.arch) != device.arch:
        why = f"for {info.arch!r}: a dispatcher on {device.arch} takes none of its routes"
        yield _finding(file, "warning", "device", "device.arch", why)
    elif info.compute_units != device.compute_units:
        here = f"{device.name} has {device.compute_units}"
        part = f", {info.partition!r}" if info.partition else ""
        why = f"for {info.compute_units} compute units{part}; {here}: times may not hold there"
        severity: Severity = "note" if part else "warning"  # a partition has fewer, rightly
        yield _finding(file, severity, "device", "device.compute_units", why)


def _finding(file: TableFile, severity: Severity, rule: str, place: str, why: str) -> Finding:
    return Finding(severity, rule, file.name, place, None, why)
