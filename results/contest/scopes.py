"""Which scope of a Python file a name belongs to, and what is imported under it."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
AMBIGUOUS = "?"  # the path of what may be imported or not
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A module, a class or a function: the names bound in it, and the code that binds them."""

    node: ast.Module | ast.ClassDef | Function
    parent: "Scope | None"
    names: Mapping[str, int]  # and how often
    elsewhere: frozenset[str]  # declared global or nonlocal
    imports: Mapping[str, str]  # name to dotted path
    definitions: "Mapping[str, ast.FunctionDef | ast.ClassDef]"
    inner: "list[Scope]" = field(default_factory=list["Scope"])

    @property
    def persistent(self) -> bool:
        """Whether what is bound here outlives a call."""
        return not isinstance(self.node, FUNCTIONS)

    def owner(self, name: str) -> "Scope | None":
        """Return the scope that ``name`` means here, None for a builtin."""
        if name in self.names and name not in self.elsewhere:
            return self
        outer = self.parent
        while outer and isinstance(outer.node, ast.ClassDef):  # whose names its methods do not see
            outer = outer.parent
        return outer.owner(name) if outer else None

    def path(self, node: ast.expr) -> str:
        """Return the dotted path of a name or attribute that is imported, else nothing."""
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else ""
        if not isinstance(node, ast.Name):
            return ""
        owner = self.owner(node.id)
        return owner.imports.get(node.id, "") if owner else ""

    def definition(self, node: ast.expr) -> "ast.FunctionDef | ast.ClassDef | None":
        """Return the function or class of this file that a name can only stand for."""
        owner = self.owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name) or owner.names[node.id] > 1:
            return None
        return owner.definitions.get(node.id)

    def everything(self) -> "Iterator[Scope]":
        """Yield this scope and all within."""
        yield self
        for scope in self.inner:
            yield from scope.everything()


@dataclass(frozen=True, slots=True)
class Store:
    """A value that goes to a target: whole, or each of its elements, or what it enters."""

    target: ast.expr
    value: ast.expr
    whole: bool = True

    def parts(self) -> "Iterator[Store]":
        """Yield it, or one for each target of a tuple of them."""
        if isinstance(self.target, ast.Starred):
            yield from Store(self.target.value, self.value, whole=False).parts()
            return
        if not isinstance(self.target, ast.Tuple | ast.List):
            yield self
            return
        targets, values = self.target.elts, _elements(self.value)
        paired = self.whole and len(values) == len(targets) and not _starred([*targets, *values])
        for at, target in enumerate(targets):
            value = values[at] if paired else self.value
            yield from Store(target, value, whole=paired).parts()


def _elements(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.Tuple | ast.List) else []


def _starred(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def stores(node: ast.AST) -> Iterator[Store]:
    """Yield what a node stores, and where."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from Store(target, value).parts()
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield Store(target, value)
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield Store(target, value)
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from Store(target, value, whole=False).parts()
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield from Store(target, value, whole=False).parts()
        case _:
            pass


def scope_of(module: ast.Module) -> Scope:
    """Return the scope of a file, with all others in it."""
    return _scope(module, None)


def _scope(node: ast.Module | ast.ClassDef | Function, parent: Scope | None) -> Scope:
    own = list(own_nodes(node))
    scope = Scope(
        node=node,
        parent=parent,
        names=Counter(
            [*(name for found in own for name in bound_names(found)), *_parameters(node)]
        ),
        elsewhere=frozenset(
            name
            for found in own
            if isinstance(found, ast.Global | ast.Nonlocal)
            for name in found.names
        ),
        imports=dict(_only_imported(own, node)),
        definitions={f.name: f for f in own if isinstance(f, ast.FunctionDef | ast.ClassDef)},
    )
    for found in own:
        if isinstance(found, (*FUNCTIONS, ast.ClassDef)):
            scope.inner.append(_scope(found, scope))
    return scope


def _only_imported(own: list[ast.AST], node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what names are imported, with no path if they are bound to something else as well."""
    paths = [pair for found in own for pair in imported(found)]
    bound = Counter([*(name for found in own for name in bound_names(found)), *_parameters(node)])
    times = Counter(name for name, _ in paths)
    for name, path in paths:
        same = all(other == path for named, other in paths if named == name)
        yield name, path if same and times[name] == bound[name] else AMBIGUOUS


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run in a scope; a function within it is one node, its defaults others.

    What a comprehension binds counts as bound here: that only makes more names unsafe.
    """
    body: ast.expr | list[ast.stmt] = getattr(node, "body", [])
    waiting: list[ast.AST] = [*reversed(body)] if isinstance(body, list) else [body]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(list(_children(found)))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, FUNCTIONS):
        yield from node.args.defaults
        yield from (default for default in node.args.kw_defaults if default)
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield from getattr(node, "decorator_list", [])
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield child


def _parameters(node: ast.AST) -> list[str]:
    return [a.arg for a in arguments(node)] if isinstance(node, FUNCTIONS) else []


def arguments(function: Function) -> list[ast.arg]:
    """Return all parameters of a function, those that take many at the end."""
    taken = function.args
    several = [argument for argument in (taken.vararg, taken.kwarg) if argument]
    return [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, *several]


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node by itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            yield from (name for name, _ in imported(node))


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, with their dotted paths."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
        case ast.ImportFrom(module=module, names=names):
            yield from ((alias.asname or alias.name, f"{module}.{alias.name}") for alias in names)
        case _:
            pass
