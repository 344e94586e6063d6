"""Judge route tables without a GPU: what is wrong with each, and where they contradict each other.

The rules:

    load            a file that is no table
    unknown         a family or a setting that this mxtune does not have
    illegal         a route that must not run on the target, with the reason
    suspect         one that only a measurement could prove right, and none did
    kernel-name     an ASM kernel that does not exist, or is not named by its tile
    kernel-missing  one that the installed AITER does not have
    lds             more LDS than a workgroup can have
    monotonic       fewer rows that take longer than more rows of the same (N, K)
    hole            an M far from every tuned one
    reach           a route said to serve an M that has one of its own
    layouts         routes of one (N, K) that read B in two layouts, so that both are kept
    conflict        the same shape with another route in another file
    device          a table for another GPU, or for other compute units
    versions        another torch, triton or AITER than here, an unsupported one, or none recorded
    scale-rule      block scales by another rule than ours
    empty           no routes
    row             a row of AITER's CSV that is no route, or lacks something
    submission      what the contest disqualifies or its server refuses, in a .py file
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mxtune.configs.devices import Device, bare_arch, load_device
from mxtune.configs.errors import ConfigError
from mxtune.results.aiter_rows import RemarkKind
from mxtune.results.findings import Finding, Severity, worst_first
from mxtune.results.installed import Installed
from mxtune.results.launches import same_launch, told
from mxtune.results.lint_ladders import holes, layouts, monotonic, reaches
from mxtune.results.lint_made import made, on_device
from mxtune.results.lint_routes import single_routes
from mxtune.results.submission_lint import lint_submission
from mxtune.results.table_files import TableFile, read_table_file

_ROWS: dict[RemarkKind, Severity] = {
    "malformed": "error",
    "wrong": "warning",
    "unknown": "warning",
    "slower": "warning",
    "device": "note",
    "foreign": "note",
    "copy": "note",
    "untimed": "note",
}


def lint(paths: Sequence[Path], target: str | None, here: Installed) -> list[Finding]:
    """Return what is wrong with the tables at ``paths``, file by file, the worst first.

    ``target`` is the GPU that routes are judged for, instead of each table's own; ``here`` is what
    tables are compared with. Raises ConfigError for an unknown target; a file that cannot be read
    is a finding.
    """
    device = load_device(target) if target else None
    findings: list[Finding] = []
    read: list[TableFile] = []
    for path in paths:
        if path.suffix == ".py":
            findings += _of_submission(path)
            continue
        file = _read(path)
        if isinstance(file, Finding):
            findings.append(file)
            continue
        found = [*_of_table(file, here), *_of_routes(file, device, here), *_conflicts(file, read)]
        findings += worst_first(found)
        read.append(file)
    return findings


def _of_submission(path: Path) -> list[Finding]:
    try:
        faults = lint_submission(path)
    except ConfigError as error:
        return [_unread(path, error)]
    return [
        Finding("error", "submission", str(path), f"line {fault.line}", None, fault.message)
        for fault in faults
    ]


def _read(path: Path) -> TableFile | Finding:
    try:
        return read_table_file(path)
    except ConfigError as error:
        return _unread(path, error)


def _unread(path: Path, error: ConfigError) -> Finding:
    message = str(error).removeprefix(f"{path}:").strip()
    return Finding("error", "load", str(path), "", None, message)


def _of_table(file: TableFile, here: Installed) -> Iterator[Finding]:
    yield from _rows(file)
    yield from made(file, here)
    yield from monotonic(file)
    yield from holes(file)
    yield from reaches(file)


def _of_routes(file: TableFile, device: Device | None, here: Installed) -> Iterator[Finding]:
    try:
        device = device or load_device(file.table.device.arch)
    except ConfigError as error:
        why = f"{error}; its routes are not judged without --target"
        yield Finding("error", "device", file.name, "device.arch", None, why)
        return
    yield from on_device(file, device)
    yield from single_routes(file, device, here)
    yield from layouts(file, device)


def _rows(file: TableFile) -> Iterator[Finding]:
    for remark in file.remarks:
        severity, place = _ROWS[remark.kind], f"line {remark.line}"
        yield Finding(severity, "row", file.name, place, remark.shape, remark.reason)


def _conflicts(file: TableFile, before: Sequence[TableFile]) -> Iterator[Finding]:
    """Yield the shapes that have another route in a file for the same kind of GPU."""
    arch = bare_arch(file.table.device.arch)
    for other in before:
        if bare_arch(other.table.device.arch) != arch:
            continue
        theirs = {placed.shape: placed for placed in other.routes}
        for placed in file.routes:
            rival = theirs.get(placed.shape)
            if rival and not same_launch(placed.entry.route, rival.entry.route, placed.shape):
                ours, there = told(placed.entry.route), told(rival.entry.route)
                why = f"{ours} here; {there} in {other.name}, {rival.place}"
                yield Finding("warning", "conflict", file.name, placed.place, placed.shape, why)
