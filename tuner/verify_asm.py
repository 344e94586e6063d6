"""Verify AITER's ASM kernels: execute their objects as AITER's host code would launch them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxtune.configs.errors import MissingError, MxtuneError
from mxtune.configs.json_files import write_whole
from mxtune.configs.settings import Settings, for_child
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import find_aiter
from mxtune.kernels.asm_catalogue import AsmKernel, read_catalogue
from mxtune.tuner.ask import ask_many
from mxtune.tuner.crew import Finished
from mxtune.tuner.emulate.job import require_emulator
from mxtune.tuner.verify_request import VerifyRequest

if TYPE_CHECKING:
    from mxtune.tuner.emulate.asm_cases import TileRow

LIMIT_S = 900.0  # of one kernel


@dataclass(frozen=True, slots=True)
class AsmJob:
    """One kernel and the bytes of its object; no shapes: every question."""

    kernel: AsmKernel
    blob: bytes
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class AsmVerified:
    """What came of one kernel: a line of the table, and whether it was clean where asked."""

    label: str
    cells: tuple[str, ...]
    ok: bool
    details: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield what is wrong as plain text, under the kernel's name."""
        yield from (f"{self.label}: {detail}" for detail in self.details)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"kernel": self.label, "ok": self.ok, "cells": list(self.cells)} | {
            "details": list(self.details)
        }


class AsmVerification:
    """Every kernel that is asked for, one job each."""

    def __init__(self, request: VerifyRequest) -> None:
        """Find AITER's objects; raises MissingError or ConfigError before any work."""
        require_emulator()
        self.rules = request.rules
        self.catalogue = read_catalogue(request.aiter or _installed())
        self.jobs: Mapping[str, AsmJob] = {
            kernel.label: AsmJob(kernel, self.catalogue.code(kernel), request.shapes)
            for kernel in self.catalogue.called(request.asm or "all")
        }

    @property
    def heading(self) -> tuple[str, ...]:
        """Return the columns of the results, none where shapes were named."""
        from mxtune.tuner.emulate.asm_table import COLUMNS

        asked = any(job.shapes for job in self.jobs.values())
        return ("kernel", "shapes") if asked else COLUMNS

    def run(self, settings: Settings) -> Iterator[Finished]:
        """Yield what became of each kernel."""
        return ask_many(asm_service, self.jobs, for_child(settings, interpret=False), LIMIT_S)

    def results(self, finished: Sequence[Finished]) -> Iterator[AsmVerified]:
        """Yield what is known of each kernel, in the order of the catalogue; write the rules."""
        from mxtune.tuner.emulate.asm_table import rules_text

        outcomes = {item.key: item.outcome for item in finished}
        rows: list[TileRow] = []
        for label in self.jobs:
            outcome = outcomes[label]
            if outcome.state != "done":
                yield AsmVerified(label, (label, "failed"), ok=False, details=(outcome.reason,))
                continue
            verified, row = outcome.value
            rows.append(row)
            yield verified
        if self.rules:
            if len(rows) < len(self.jobs):
                raise MxtuneError(f"{self.rules}: not written, some kernels could not be asked")
            write_whole(self.rules, rules_text(rows, self.catalogue.release))


def _installed() -> Path:
    found = find_aiter()
    if not found.amd or found.path is None:
        raise MissingError(f"{found.note}, or name a wheel or checkout with --aiter")
    return Path(found.path)


def asm_service() -> Any:
    """Return the service of a worker that asks kernels."""
    from mxtune.tuner.emulate.asm_cases import AsmCase, check_tile, emulate_case
    from mxtune.tuner.emulate.asm_table import cells, unexpected
    from mxtune.tuner.emulate.code_object import CodeObject

    def survey(job: AsmJob) -> Any:
        row = check_tile(job.kernel, job.blob)
        details = tuple(str(result) for result in unexpected(row))
        return AsmVerified(job.kernel.label, cells(row), ok=not details, details=details), row

    def at_shapes(job: AsmJob) -> Any:
        code = CodeObject.read(job.blob, job.kernel.name)
        found = [emulate_case(job.kernel, code, AsmCase("exact", s)) for s in job.shapes]
        bad = tuple(str(result) for result in found if not result.clean)
        told = f"{len(found) - len(bad)} of {len(found)} right"
        label = job.kernel.label
        return AsmVerified(label, (label, told), ok=not bad, details=bad), None

    def answer(job: AsmJob) -> Any:
        return at_shapes(job) if job.shapes else survey(job)

    return answer
