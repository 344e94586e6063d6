"""The commands about stores and route tables: parse, call one function, print."""

import json
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
        metavar="ROUTES",
        help="Route tables; a .csv is AITER's table of tuned a4w4 GEMMs; lint: a .py.",
    ),
]


def export(
    source: Annotated[Path, typer.Argument(help="A sweep's store, its folder, or a route table.")],
    out: Annotated[
        Path | None, typer.Option(help="File. [default: routes.json or submission.py]")
    ] = None,
    form: Annotated[
        Literal["routes", "submission"], typer.Option("--format", help="What to write.")
    ] = "routes",
    session: SessionKey = None,
    shapes: Annotated[
        str | None, typer.Option(help="MxNxK,... or a list of shapes. [default: all]")
    ] = None,
    leaderboard: Annotated[str, typer.Option(help="Of a submission.")] = "amd-mxfp4-mm",
    gpu: Annotated[str, typer.Option(help="Of a submission.")] = "MI355X",
) -> None:
    """Write a route table, or a contest submission with its routes."""
    from mxtune.results.exports import ExportWish, export

    wish = ExportWish(source, form, out, session, shapes, leaderboard, gpu)
    typer.echo(export(wish), err=True)


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
    """Say what is wrong with route tables or submissions, without a GPU.

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


def trials(
    store: Annotated[Path, typer.Argument(help="A sweep's store, or its folder.")],
    csv: Annotated[Path | None, typer.Option(help="CSV file to write, a row a trial.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Parquet file to write.")] = None,
    json_: Json = False,  # noqa: FBT002  a flag
    session: SessionKey = None,
) -> None:
    """Show what became of the candidates in a store, or write every trial to a file."""
    from mxtune.results.export import store_file
    from mxtune.results.trials_frame import Journal, lines, write_csv, write_parquet

    journal = Journal.load(store_file(store), session)
    for file, write in ((csv, write_csv), (parquet, write_parquet)):
        if file:
            write(journal, file)
            typer.echo(f"{file}: {len(journal.trials)} trials", err=True)
    if json_:
        typer.echo(json.dumps(list(journal.rows()), indent=1, allow_nan=False))
    elif not (csv or parquet):
        typer.echo("\n".join(lines(journal)))
