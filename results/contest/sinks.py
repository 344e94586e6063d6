"""Where a submission keeps what must not outlive a call: tensors, and what was read out of them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mxtune.results.contest.flow import Flow, Kind, decorators
from mxtune.results.contest.known import FRESH, FRESH_BUILTINS, KEEPING, MEMOISING
from mxtune.results.contest.scopes import Function, Scope, Store, own_nodes, stores

_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.JoinedStr)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """What is wrong, and in which line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


def kept(flow: Flow) -> Iterator[Finding]:
    """Yield every place where something of a call is kept for the next one."""
    for scope in flow.scopes:
        sinks = _Sinks(flow, scope)
        for node in own_nodes(scope.node):
            for message in sinks.at(node):
                yield Finding(line_of(node), message)


def line_of(node: ast.AST) -> int:
    """Return the line of a node; some have none and are where their first part is."""
    if line := getattr(node, "lineno", None):
        return int(line)
    return next((line_of(child) for child in ast.iter_child_nodes(node)), 1)


@dataclass(frozen=True, slots=True)
class _Sinks:
    """The places of one scope."""

    flow: Flow
    scope: Scope

    def at(self, node: ast.AST) -> Iterator[str]:
        """Yield what is wrong with one statement or expression."""
        for store in stores(node):
            yield from self._stored(store)
        match node:
            case ast.AugAssign(target=ast.Name() as target, value=value):
                yield from self._added(target, value)
            case ast.Delete(targets=targets):
                yield from (self._imported(target) for target in targets if self._import_of(target))
            case ast.Call(func=ast.Attribute() as method):
                yield from self._called(node, method)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from self._defined(node)
            case ast.Attribute() | ast.Name():
                yield from self._held(node)
                yield from self._memoised_otherwise(node)
            case _:
                pass

    def _stored(self, store: Store) -> Iterator[str]:
        target, value = store.target, store.value
        if isinstance(target, ast.Name):
            yield from self._named(target.id, value)
        elif self._import_of(target):
            yield self._imported(target)
        elif isinstance(target, ast.Attribute) and self._tensor(value):
            yield f"an attribute, {ast.unparse(target)}, keeps {_WHAT}"
        elif isinstance(target, ast.Subscript):
            yield from self._stored_within(target, value)

    def _named(self, name: str, value: ast.expr) -> Iterator[str]:
        if not self._tensor(value):
            return
        if name in self.scope.elsewhere:
            yield f"{name}, which outlives the call, keeps {_WHAT}"
        elif self.scope.persistent:
            yield f"{name}, which is not made anew in each call, may hold {_WHAT}"

    def _stored_within(self, target: ast.Subscript, value: ast.expr) -> Iterator[str]:
        root = _root(target)
        if self._fresh(root):
            return
        shown = ast.unparse(target.value)
        if self._tensor(value) or self._tensor(target.slice):
            yield f"{shown}, which may outlive the call, keeps {_WHAT}"
        elif self._tensor(root):
            yield f"{shown} is changed, which was not made in this call"

    def _added(self, target: ast.Name, value: ast.expr) -> Iterator[str]:
        """Judge ``x += value``: a list or a tensor is changed in place."""
        if target.id in self.scope.elsewhere or self._fresh(target):
            return
        if self._tensor(value) or self._tensor(target):
            yield f"{target.id} is changed, which was not made in this call"

    def _called(self, call: ast.Call, method: ast.Attribute) -> Iterator[str]:
        if self.scope.path(method).count(".") == 1:
            return  # torch.add is no method
        receiver, name = method.value, method.attr
        in_place = name.endswith("_") and not name.endswith("__")
        if not (name in KEEPING or in_place) or self._fresh(_root(receiver)):
            return
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        shown = ast.unparse(receiver)
        if any(self._tensor(node) for node in given):
            yield f"{shown}, which may outlive the call, keeps {_WHAT}"
        elif in_place and self._tensor(receiver):
            yield f"{shown} is changed, which was not made in this call"

    def _held(self, node: ast.Attribute | ast.Name) -> Iterator[str]:
        """Judge a method that keeps things where it is not called: anybody may call it then."""
        if not isinstance(node, ast.Attribute) or node.attr not in KEEPING or self.scope.path(node):
            return
        called = {id(n.func) for n in own_nodes(self.scope.node) if isinstance(n, ast.Call)}
        if id(node) not in called and not self._fresh(_root(node.value)):
            yield f"{ast.unparse(node)} is passed on: what it keeps cannot be seen"

    def _defined(self, node: Function) -> Iterator[str]:
        usual = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
        for default in usual:
            if isinstance(default, _DISPLAYS) or self._kind(default) is Kind.TENSOR:
                yield "a default argument is made once and outlives the call"
        name = getattr(node, "name", "")
        if self.scope.persistent and self.flow.variable(name, self.scope) is Kind.TENSOR:
            yield f"{name}, which is not made anew in each call, may hold {_WHAT}"
        if not MEMOISING.intersection(decorators(node, self.scope)):
            return
        if self.flow.taken(node) is Kind.TENSOR:
            yield f"{name} remembers its results, and is called with {_WHAT}"
        elif self.flow.result(node) is Kind.TENSOR:
            yield f"{name} remembers its results, and may return {_WHAT}"

    def _memoised_otherwise(self, node: ast.expr) -> Iterator[str]:
        """Refuse functools.cache where it is no decorator of a function that can be looked at."""
        if self.scope.path(node) not in MEMOISING:
            return
        for found in own_nodes(self.scope.node):
            for decorator in getattr(found, "decorator_list", []):
                if node is decorator or node is getattr(decorator, "func", None):
                    return
        yield f"{ast.unparse(node)} is no decorator here: what it remembers cannot be seen"

    def _tensor(self, node: ast.expr) -> bool:
        return self._kind(node) is Kind.TENSOR

    def _kind(self, node: ast.expr) -> Kind:
        return self.flow.kind(node, self.scope)

    def _import_of(self, target: ast.expr) -> str:
        root = _root(target)
        return self.scope.path(root) if not isinstance(target, ast.Name) else ""

    def _imported(self, target: ast.expr) -> str:
        return f"{ast.unparse(target)}: what is imported is changed"

    def _fresh(self, node: ast.expr) -> bool:
        """Whether a variable of this call only ever is something that this call has made."""
        if not isinstance(node, ast.Name) or self.scope.persistent:
            return self._makes(node)
        if self.scope.owner(node.id) is not self.scope:
            return False
        values = list(self._values(node.id))
        return len(values) == self.scope.names[node.id] and all(map(self._makes, values))

    def _values(self, name: str) -> Iterator[ast.expr]:
        for node in own_nodes(self.scope.node):
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    yield value
                case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value):
                    if found == name:
                        yield value
                case ast.AugAssign(target=ast.Name(id=found), value=value) if found == name:
                    yield ast.BinOp(ast.Name(name), ast.Add(), value)
                case _:
                    pass

    def _makes(self, node: ast.expr) -> bool:
        """Whether an expression makes a new object."""
        if isinstance(node, (*_DISPLAYS, *_COMPUTED)):
            return True
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and self.scope.owner(node.func.id) is None:
            return node.func.id in FRESH_BUILTINS
        copied = isinstance(node.func, ast.Attribute) and node.func.attr == "clone"
        return copied or self.scope.path(node.func) in FRESH


_WHAT = "a tensor or what was read out of one"


def _root(node: ast.expr) -> ast.expr:
    """Return what an attribute or an element is taken of."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node
