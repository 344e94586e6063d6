"""The commands about route tables: parse, call one function, print."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionKey = Annotated[
    str | None, typer.Option(help="Which session of the store. [default: the newest]")
]
Tables = Annotated[
    list[Path],
    typer.Argument(
        metavar="ROUTES", help="Route tables; a .csv is AITER's table of tuned a4w4 GEMMs."
    ),
]


def export(
    store: Annotated[Path, typer.Argument(help="A sweep's store, or its folder.")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("routes.json"),
    form: Annotated[Literal["routes"], typer.Option("--format", help="What to write.")] = "routes",
    session: SessionKey = None,
) -> None:
    """Write the route table that a store implies."""
    from mxtune.results.export import export, store_file

    del form
    table = export(store_file(store), out, session)
    typer.echo(f"{out}: {len(table.routes)} routes for {table.device.arch}", err=True)


def explain(
    shape: Annotated[str, typer.Argument(help="The GEMM, as MxNxK.")],
    routes: Annotated[
        Path | None, typer.Option(help="Route table. [default: the one that comes with mxtune]")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="On gfx950 or sm_90. [default: the GPU that the table names]"),
    ] = None,
    json_: Json = False,  # noqa: FBT002  a flag
) -> None:
    """Tell which route a table has for a shape, step by step, without a GPU."""
    from mxtune.tuner.explain import as_json, explain, lines

    found = explain(shape, routes, target)
    typer.echo(as_json(found) if json_ else "\n".join(lines(found)))


def lint(
    routes: Tables,
    target: Annotated[
        str | None,
        typer.Option(help="Judge for gfx950 or sm_90. [default: the GPU that a table names]"),
    ] = None,
    json_: Json = False,  # noqa: FBT002  a flag
) -> None:
    """Say what is wrong with route tables, without a GPU.

    Exit status: 0 for nothing or notes only, 1 for warnings, 3 for errors; 2 as everywhere for a
    command that cannot be understood.
    """
    from mxtune.results.findings import as_json, exit_status, lines
    from mxtune.results.installed import installed
    from mxtune.results.lint import lint

    found = lint(routes, target, installed())
    shown = as_json(found, len(routes)) if json_ else "\n".join(lines(found, len(routes)))
    typer.echo(shown)
    raise typer.Exit(exit_status(found))


def merge(
    tables: Tables,
    out: Annotated[Path, typer.Option(help="File to write.")],
) -> None:
    """Make one route table of several: of each shape the route with the better evidence.

    Measured counts more than modelled, and that more than reported; then the faster one, where
    times compare; then the first given. What tables disagree about goes to stderr, a line each.
    """
    from mxtune.results.merge import merge
    from mxtune.results.table_files import read_table_file

    files = [read_table_file(path) for path in tables]
    merged = merge(files)
    merged.table.save(out)
    for line in (*(file.left_out for file in files if file.left_out), *merged.conflicts):
        typer.echo(line, err=True)
    typer.echo(f"{out}: {len(merged.table.routes)} routes of {len(files)} tables", err=True)
