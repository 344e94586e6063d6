"""Slices of our own sources: a definition as it stands there, and all that it needs."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_OWN = "mxtune."
_JIT = "@triton.jit\n"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A name at the top of a module."""

    module: str  # mxtune.kernels.device.gemm
    name: str


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """``from module import name``, or ``import module`` without a name, perhaps ``as alias``."""

    module: str
    name: str = ""
    alias: str = ""

    @property
    def bound(self) -> str:
        """What it is called where it is imported."""
        return self.alias or self.name or self.module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Definitions, each behind those that it needs, and what they import from elsewhere."""

    pieces: Mapping[Place, str]
    imports: frozenset[Import]


@dataclass(frozen=True, slots=True)
class _Module:
    """A module of ours, as text."""

    definitions: Mapping[str, tuple[str, frozenset[str]]]  # the text, and the names in it
    imports: Mapping[str, Import]  # by what they are called


def gathered(
    roots: Iterable[Place],
    present: Iterable[Place] = (),
    moved: Mapping[Place, Place] | None = None,
) -> Gathered:
    """Return what ``roots`` are and need, but for what is ``present`` already.

    ``moved`` names what stands in for another definition. Raises ValueError where two
    definitions have one name.
    """
    found: dict[Place, str] = {}
    imports: set[Import] = set()
    here = set(present)
    for root in roots:
        _visit(root, here, found, imports, moved or {})
    taken: dict[str, Place] = {}
    for place in found:
        other = taken.setdefault(place.name, place)
        if other != place:
            raise ValueError(f"{other.module} and {place.module} both define {place.name}")
    return Gathered(found, frozenset(imports))


def _visit(
    place: Place,
    here: set[Place],
    found: dict[Place, str],
    imports: set[Import],
    moved: Mapping[Place, Place],
) -> None:
    place = moved.get(place, place)
    if place in here:
        return
    here.add(place)
    module = _read(place.module)
    text, names = module.definitions[place.name]
    for name in sorted(names):
        source = module.imports.get(name)
        if name in module.definitions:
            _visit(Place(place.module, name), here, found, imports, moved)
        elif source and source.module.startswith(_OWN):
            _visit(Place(source.module, source.name), here, found, imports, moved)
        elif source:
            imports.add(source)
    found[place] = text


def parameters(place: Place) -> tuple[str, ...]:
    """Return what a function takes, in order."""
    (function,) = ast.parse(_read(place.module).definitions[place.name][0]).body
    assert isinstance(function, ast.FunctionDef)
    return tuple(argument.arg for argument in function.args.args)


def unspecialised(text: str, names: Iterable[str]) -> str:
    """Return a kernel whose binary serves every value of ``names``, as our own builds do."""
    if not text.startswith(_JIT):
        raise ValueError(f"not a kernel as they are written here: {text[:40]!r}")
    listed = ", ".join(f'"{name}"' for name in names)
    return f"@triton.jit(do_not_specialize=[{listed}])\n{text.removeprefix(_JIT)}"


def import_block(imports: Iterable[Import]) -> str:
    """Return the import statements, sorted as ruff sorts them."""
    groups: dict[bool, set[Import]] = {True: set(), False: set()}
    for item in imports:
        groups[item.module.partition(".")[0] in sys.stdlib_module_names].add(item)
    return "\n\n".join("\n".join(_statements(group)) for group in groups.values() if group)


def _statements(imports: set[Import]) -> Iterator[str]:
    for item in sorted(item for item in imports if not item.name):
        yield f"import {item.module}" + (f" as {item.alias}" if item.alias else "")
    for module in sorted({item.module for item in imports if item.name}):
        names = {item.name for item in imports if item.module == module and item.name}
        yield f"from {module} import {', '.join(sorted(names, key=_by_kind))}"


def _by_kind(name: str) -> tuple[int, str]:
    """Sort CONSTANTS before Classes before functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@cache
def _read(name: str) -> _Module:
    package, _, module = name.rpartition(".")
    text = (files(package) / f"{module}.py").read_text("utf-8")
    lines = text.splitlines(keepends=True)
    body = ast.parse(text).body
    definitions = {name: _slice(node, lines) for node in body for name in _defined(node)}
    return _Module(definitions, {i.bound: i for node in body for i in _imported(node)})


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def _imported(node: ast.stmt) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            yield from (Import(alias.name, "", alias.asname or "") for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield from (Import(module, alias.name, alias.asname or "") for alias in names)
        case _:
            pass


def _slice(node: ast.stmt, lines: list[str]) -> tuple[str, frozenset[str]]:
    """Return the lines of a definition, with its decorators and the comment above it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    names = {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
    return "".join(lines[first : node.end_lineno]), frozenset(names)
