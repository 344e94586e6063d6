"""The text of a submission: where it comes from, its routes, their kernels, what launches them."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import mxtune
from mxtune.configs.devices import bare_arch
from mxtune.configs.evidence import Measured, Modelled, Reported
from mxtune.configs.table import RouteTable
from mxtune.kernels.build import DYNAMIC
from mxtune.kernels.registry import brief
from mxtune.results.contest.literals import Code, Made, Noted, literal
from mxtune.results.contest.routes import DEVICE_CODE, FileCall, FileLaunch, FileRoute
from mxtune.results.contest.sources import (
    Gathered,
    Import,
    Place,
    gathered,
    import_block,
    parameters,
    unspecialised,
)

_RUNTIME = "mxtune.results.contest.runtime"
_WITH_AITER = "mxtune.results.contest.aiter_runtime"
_MAIN = Place(_RUNTIME, "custom_kernel")
_GENERATED = tuple(
    Place(module, name)
    for module, name in ((_RUNTIME, "ROUTES"), (_RUNTIME, "KERNELS"), (_WITH_AITER, "AITER"))
)
_ALWAYS = (Place(f"{DEVICE_CODE}.quantise", "quantise"), Place(f"{DEVICE_CODE}.gemm", "gemm"))

# Where the contest's AITER has its functions.
_AITER_MODULES = {
    "gemm_a4w4": "aiter.ops.gemm_op_a4w4",
    "gemm_a4w4_asm": "aiter.ops.gemm_op_a4w4",
    "gemm_a16wfp4_preshuffle": "aiter.ops.triton.gemm.basic.gemm_a16wfp4",
}
DTYPES = {
    "bf16": "torch.bfloat16",
    "fp32": "torch.float32",
    "u8": "torch.uint8",
    "fp4x2": "torch.float4_e2m1fn_x2",
    "e8m0": "torch.float8_e8m0fnu",
}
_WIDTH = 98  # of a comment


def submission_text(
    table: RouteTable, routes: Sequence[FileRoute], *, leaderboard: str, gpu: str
) -> str:
    """Return the file, the same bytes for the same routes."""
    functions = sorted({s.function for r in routes for s in r.steps if isinstance(s, FileCall)})
    launches = (s for route in routes for s in route.steps if isinstance(s, FileLaunch))
    kernels = sorted({*_ALWAYS, *(launch.kernel for launch in launches)})
    records, device, runtime = _parts(kernels, calls_aiter=bool(functions))
    imports = records.imports | device.imports | runtime.imports
    imports |= {Import(_AITER_MODULES[function], function) for function in functions}
    blocks = [
        import_block(imports),
        *records.pieces.values(),
        _table(routes),
        *(_kernel(place, text, kernels) for place, text in device.pieces.items()),
        _names("KERNELS", [kernel.name for kernel in kernels]),
        *([_names("AITER", functions)] if functions else []),
        *runtime.pieces.values(),
    ]
    header = "\n".join(_header(table, routes, leaderboard, gpu))
    return f"{header}\n\n" + "\n\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _parts(kernels: Sequence[Place], *, calls_aiter: bool) -> tuple[Gathered, Gathered, Gathered]:
    """Return what the table is written in, the device code, and what runs on the host."""
    moved = {Place(_RUNTIME, "bound"): Place(_WITH_AITER, "bound")} if calls_aiter else {}
    written_in = [Place(_RUNTIME, "Launch"), Place(_RUNTIME, "Route")]
    written_in += [Place(_WITH_AITER, "Call")] if calls_aiter else []
    records = gathered(written_in)
    device = gathered(kernels)
    present = (*_GENERATED, *records.pieces, *device.pieces)
    return records, device, gathered([_MAIN], present, moved)


def _kernel(place: Place, text: str, launched: Sequence[Place]) -> str:
    if place not in launched:
        return text
    taken = parameters(place)
    return unspecialised(text, [name for name in DYNAMIC if name in taken])


def _names(variable: str, names: Sequence[str]) -> str:
    return f"{variable} = {literal({name: Code(name) for name in names})}"


def _header(
    table: RouteTable, routes: Sequence[FileRoute], leaderboard: str, gpu: str
) -> Iterator[str]:
    made = table.made
    yield f"#!POPCORN leaderboard {leaderboard}"
    yield f"#!POPCORN gpu {gpu}"
    yield "#"
    yield from _comment(
        "C = mxfp4(A) @ B.T in bf16, with B in MXFP4, each shape by a route of its own. Written by "
        f"mxtune {mxtune.__version__} from a route table; change the table, not this file."
    )
    yield "#"
    yield from _comment(f"table for     {table.device.name} ({bare_arch(table.device.arch)})")
    yield from _comment(f"made          {made.at} by mxtune {made.mxtune}")
    for name in ("torch", "triton", "aiter", "driver", "regime", "rule"):
        if found := getattr(made, name):
            yield from _comment(f"{name:<13} {found}")
    yield "#"
    for route in routes:
        yield from _comment(f"{route.entry.key!s:<13} {brief(route.route)}")
        yield from _comment(f"{'':<13} {_evidence(route)}")
    yield from _comment(f"{'any other':<13} direct, which is legal for every shape")


def _evidence(route: FileRoute) -> str:
    match route.entry.evidence:
        case Measured() as seen:
            return f"measured: {seen.median_us:g} us ({seen.low_us:g} to {seen.high_us:g})"
        case Modelled() as seen:
            emulated = ", its machine code emulated" if seen.emulated else ""
            return f"modelled: score {seen.score_us:g}, never timed{emulated}"
        case Reported() as seen:
            time = f", {seen.us:g} us" if seen.us else ""
            return f"reported: {seen.source}{time}"


def _comment(text: str) -> Iterator[str]:
    """Yield a text as comments, whatever is in it, with later lines under the second column."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    indent = " " * 14 if shown[13:14] == " " else ""
    for line in textwrap.wrap(shown, _WIDTH, subsequent_indent=indent, drop_whitespace=True):
        yield f"# {line}"


def _table(routes: Sequence[FileRoute]) -> str:
    entries = {
        Noted(route.entry.shape, _noted(route)): Made("Route", (), _fields(route))
        for route in routes
    }
    return f"ROUTES = {literal(entries)}"


def _noted(route: FileRoute) -> tuple[str, ...]:
    return tuple(textwrap.wrap(brief(route.route), _WIDTH - 4))


def _fields(route: FileRoute) -> Mapping[str, object]:
    fresh = {name: (_viewed(dtype), size) for name, (dtype, size) in route.fresh.items()}
    return {"fresh": fresh, "steps": tuple(_step(step) for step in route.steps)}


def _step(step: FileLaunch | FileCall) -> Made:
    if isinstance(step, FileCall):
        tensors = {keyword: (name, _viewed(how)) for keyword, (name, how) in step.tensors.items()}
        return Made("Call", (step.function,), {"tensors": tensors, "values": step.values})
    fields = {
        "grid": step.grid,
        "tensors": step.tensors,
        "values": step.values,
        "options": step.options,
    }
    return Made("Launch", (step.kernel.name,), fields)


def _viewed(how: str | tuple[int, ...]) -> object:
    return Code(DTYPES[how]) if isinstance(how, str) else how
