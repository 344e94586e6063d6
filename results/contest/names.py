"""What a submission must not name: recorded calls, and ways to hide what it does."""

import ast
from collections.abc import Iterator

from mxtune.results.contest.known import (
    BEHIND,
    HARMLESS_DUNDERS,
    HIDDEN_PARTS,
    HIDING,
    IMPORTABLE,
    REPLAYING,
)
from mxtune.results.contest.scopes import AMBIGUOUS, Scope, bound_names, imported, own_nodes
from mxtune.results.contest.sinks import Finding, line_of

_PACKAGES = ("torch", "triton", "aiter")


def named(module: Scope) -> Iterator[Finding]:
    """Yield every name that a submission must not have."""
    for scope in module.everything():
        for node in own_nodes(scope.node):
            for message in (*_imports(node), *_words(node), *_hidden(node, scope)):
                yield Finding(line_of(node), message)
        for name in scope.names:
            path = scope.imports.get(name, "")
            if path == AMBIGUOUS or (name in _PACKAGES and path.partition(".")[0] != name):
                yield Finding(_line_of_binding(name, scope), f"{name} is not only what is imported")


def _line_of_binding(name: str, scope: Scope) -> int:
    """Return where a name is bound to something that is not imported."""
    nodes = (node for node in own_nodes(scope.node) if name in bound_names(node))
    others = (node for node in nodes if not list(imported(node)))
    return line_of(next(others, scope.node))


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        yield f"everything is imported from {node.module}: name what is needed"
    match node:
        case ast.Import(names=names):
            modules = [alias.name for alias in names]
        case ast.ImportFrom(module=module):
            modules = [module or "."]
        case _:
            return
    for name in modules:
        if name.partition(".")[0] not in IMPORTABLE:
            yield f"{name} is imported; a submission may use {', '.join(sorted(IMPORTABLE))}"


def _words(node: ast.AST) -> Iterator[str]:
    """Yield what is wrong with an identifier or with text that could become one."""
    for word in _identifiers(node):
        if "graph" in word.lower() or word in REPLAYING:
            yield f"{word}: recorded calls must not be replayed"
        elif word.startswith("__") and word not in HARMLESS_DUNDERS:
            yield f"{word} reaches behind what can be looked at"


def _identifiers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.Name(id=word):
            yield word
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (part for alias in names for part in alias.name.split("."))
            yield from (alias.asname for alias in names if alias.asname)
        case ast.FunctionDef(name=word) | ast.ClassDef(name=word):
            yield word
        case ast.Call(args=arguments):  # a function that takes names as text
            for argument in arguments:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value
        case _:
            pass


def _hidden(node: ast.AST, scope: Scope) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
            pass
        case ast.Call(func=ast.Name(id="getattr")) if scope.owner("getattr") is None:
            yield "getattr of a name that is made up hides what is done"
        case ast.Name(id=name) if name in HIDING and scope.owner(name) is None:
            yield f"{name} hides what is done"
        case ast.Attribute() | ast.Name():
            yield from _part(scope.path(node))
        case _:
            for _, path in imported(node):
                yield from _part(path)


def _part(path: str) -> Iterator[str]:
    if BEHIND.intersection(path.split(".")[1:]):
        yield f"{path} reaches behind what can be looked at"
    for hidden, why in HIDDEN_PARTS.items():
        if path == hidden or path.startswith(f"{hidden}."):
            yield f"{path} {why}"
