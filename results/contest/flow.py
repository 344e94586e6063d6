"""What the values of a submission may hold, found out without running it.

Every expression is of one kind, the worst that it can be in any call. Order and context are not
looked at, and what is not known counts as a tensor: so what is said to hold none holds none.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import IntEnum

from mxtune.results.contest.known import (
    ENTRY,
    METADATA,
    PASS_ON,
    builtin_gives,
    import_gives,
    imported_makes,
)
from mxtune.results.contest.scopes import (
    FUNCTIONS,
    Function,
    Scope,
    arguments,
    own_nodes,
    stores,
)


class Kind(IntEnum):
    """What a value may be; the larger, the worse."""

    PLAIN = 0  # holds no tensor, and nothing that was read out of one
    MAKER = 1  # holds none, but may return one when it is called
    TENSOR = 2


class Flow:
    """The kinds of all variables and results of a file."""

    def __init__(self, module: Scope) -> None:
        """Work them out: repeat until nothing gets worse."""
        self.scopes = [s for s in module.everything() if not _in_kernel(s)]
        self._inside = {scope.node: scope for scope in self.scopes}
        self._variables: dict[tuple[Scope, str], Kind] = defaultdict(lambda: Kind.PLAIN)
        self._results: dict[ast.AST, Kind] = defaultdict(lambda: Kind.PLAIN)
        self._changed = True
        while self._changed:
            self._changed = False
            for scope in self.scopes:
                self._enter(scope)
                for node in own_nodes(scope.node):
                    self._bind(node, scope)

    def kind(self, node: ast.expr | None, scope: Scope) -> Kind:
        """Return what ``node`` may be in ``scope``."""
        match node:
            case ast.Name():
                return self._name(node, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Call():
                return self._call(node, scope)
            case ast.Lambda():
                return self._closure(node, scope)
            case _:
                waits = isinstance(node, ast.Await | ast.Yield | ast.YieldFrom)
                parts = self._worst(_parts(node), scope) if node else Kind.PLAIN
                return Kind.TENSOR if waits else parts

    def variable(self, name: str, scope: Scope) -> Kind:
        """Return what a name that is bound in ``scope`` may be."""
        return self._variables[scope, name]

    def result(self, function: ast.AST) -> Kind:
        """Return what a function may return."""
        return self._results[function]

    def taken(self, function: Function) -> Kind:
        """Return the worst that a function may be called with."""
        inside = self._inside[function]
        kinds = (self._variables[inside, parameter.arg] for parameter in arguments(function))
        return max(kinds, default=Kind.PLAIN)

    def _worst(self, nodes: Iterable[ast.expr | None], scope: Scope) -> Kind:
        return max([self.kind(node, scope) for node in nodes], default=Kind.PLAIN)

    def _name(self, node: ast.Name, scope: Scope) -> Kind:
        owner = scope.owner(node.id)
        if owner is None:
            return Kind.PLAIN if node.id in PASS_ON else Kind.MAKER
        if node.id in owner.imports:
            return Kind.MAKER if imported_makes(owner.imports[node.id]) else Kind.PLAIN
        definition = scope.definition(node)
        if isinstance(definition, ast.FunctionDef) and definition in self._inside:
            self._escape(definition)
        return self._variables[owner, node.id]

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Kind:
        if path := scope.path(node):
            return Kind.MAKER if imported_makes(path) else Kind.PLAIN
        base = self.kind(node.value, scope)
        return Kind.PLAIN if base is Kind.TENSOR and node.attr in METADATA else base

    def _call(self, node: ast.Call, scope: Scope) -> Kind:
        given = self._worst([*node.args, *(keyword.value for keyword in node.keywords)], scope)
        definition = scope.definition(node.func)
        if isinstance(definition, ast.FunctionDef) and definition in self._inside:
            return self._called(definition, node, scope, given)
        if isinstance(definition, ast.ClassDef) and not _has_methods(definition):
            return given
        if path := scope.path(node.func):
            return Kind(import_gives(path, given))
        if isinstance(node.func, ast.Name) and scope.owner(node.func.id) is None:
            return Kind(builtin_gives(node.func.id, given))
        return self._called_value(node.func, scope, given)

    def _called_value(self, function: ast.expr, scope: Scope, given: Kind) -> Kind:
        """Return what calling a method or a variable may give."""
        if isinstance(function, ast.Attribute):
            held = self.kind(function.value, scope)
            if held is Kind.TENSOR and function.attr in METADATA:
                return Kind.PLAIN
        else:
            held = self.kind(function, scope)
        return Kind.PLAIN if held is given is Kind.PLAIN else Kind.TENSOR

    def _called(self, function: ast.FunctionDef, call: ast.Call, scope: Scope, given: Kind) -> Kind:
        """Hand the arguments of a call over, and return what comes back."""
        inside = self._inside[function]
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        spread = None in named or any(isinstance(a, ast.Starred) for a in call.args)
        for at, parameter in enumerate(arguments(function)):
            node = call.args[at] if at < len(call.args) else named.get(parameter.arg)
            several = parameter in (function.args.vararg, function.args.kwarg)
            kind = given if spread or several else self.kind(node, scope)
            self._join(inside, parameter.arg, kind)
        if all(path in PASS_ON for path in decorators(function, inside.parent)):
            return self._results[function]
        self._escape(function)
        return Kind.TENSOR

    def _closure(self, function: Function, scope: Scope) -> Kind:
        """Return what a function is as a value: the worst of what it takes from around it."""
        names = {found.id for found in ast.walk(function) if isinstance(found, ast.Name)}
        owned = ((scope.owner(name), name) for name in names)
        around = [self._variables[o, name] for o, name in owned if o and not o.persistent]
        return max(Kind.MAKER, *around) if around else Kind.MAKER

    def _escape(self, function: Function) -> None:
        """Take anything for the arguments of a function whose calls are not all seen."""
        for parameter in arguments(function):
            self._join(self._inside[function], parameter.arg, Kind.TENSOR)

    def _enter(self, scope: Scope) -> None:
        """Take anything for the arguments of what others call: the entry, methods, lambdas."""
        node = scope.node
        if not isinstance(node, FUNCTIONS):
            return
        method = scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef)
        if method or not isinstance(node, ast.FunctionDef) or node.name == ENTRY:
            self._escape(node)
        if isinstance(node, ast.Lambda):
            self._result(node, self.kind(node.body, scope))

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        for store in stores(node):
            entered = isinstance(node, ast.withitem)  # which may give anything
            kind = Kind.TENSOR if entered else self.kind(store.value, scope)
            self._spread(store.target, kind, scope)
        match node:
            case ast.Return(value=value):
                self._result(scope.node, self.kind(value, scope))
            case ast.Yield() | ast.YieldFrom():
                self._result(scope.node, self.kind(node, scope))
            case ast.Call():
                self._keep(node, scope)
            case _:
                self._bind_name(node, scope)

    def _bind_name(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node, scope)
            case ast.ClassDef():
                self._join(scope, node.name, Kind.MAKER if _has_methods(node) else Kind.PLAIN)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self._join(scope, name, Kind.TENSOR)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._join(scope, name, Kind.TENSOR)
            case _:
                pass

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        if node not in self._inside:
            return
        self._join(scope, node.name, self._closure(node, scope))
        usual = self._worst([*node.args.defaults, *node.args.kw_defaults], scope)
        for parameter in arguments(node):
            self._join(self._inside[node], parameter.arg, usual)
        for decorator, path in zip(node.decorator_list, decorators(node, scope), strict=True):
            if path not in PASS_ON and getattr(decorator, "id", "") not in PASS_ON:
                applied = ast.Call(decorator, [ast.Name(node.name)], [])
                self._join(scope, node.name, self._call(applied, scope))

    def _keep(self, call: ast.Call, scope: Scope) -> None:
        """Look at a call wherever it stands; the object of a method may keep what it is given."""
        self.kind(call, scope)
        if isinstance(call.func, ast.Attribute) and not scope.path(call.func):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            self._spread(call.func.value, self._worst(given, scope), scope)

    def _spread(self, target: ast.expr, kind: Kind, scope: Scope) -> None:
        """Give every variable in a target a kind; what is stored within one makes it such."""
        match target:
            case ast.Name(id=name):
                if owner := scope.owner(name):
                    self._join(owner, name, kind)
            case ast.Attribute(value=inner):
                self._spread(inner, kind, scope)
            case ast.Subscript(value=inner, slice=index):
                self._spread(inner, max(kind, self.kind(index, scope)), scope)
            case _:
                pass

    def _join(self, scope: Scope, name: str, kind: Kind) -> None:
        if kind > self._variables[scope, name]:
            self._variables[scope, name] = kind
            self._changed = True

    def _result(self, function: ast.AST, kind: Kind) -> None:
        if kind > self._results[function]:
            self._results[function] = kind
            self._changed = True


def decorators(node: ast.AST, scope: Scope | None) -> list[str]:
    """Return the dotted paths of a function's decorators, empty for what is not imported."""
    found: list[ast.expr] = getattr(node, "decorator_list", [])
    called = (d.func if isinstance(d, ast.Call) else d for d in found)
    return [scope.path(decorator) if scope else "" for decorator in called]


def _in_kernel(scope: Scope) -> bool:
    """Whether a scope is device code, which can keep nothing of Python's."""
    if scope.parent is None:
        return False
    paths = decorators(scope.node, scope.parent)
    kernel = "triton.jit" in paths and all(path.startswith("triton.") for path in paths)
    return kernel or _in_kernel(scope.parent)


def _has_methods(node: ast.ClassDef) -> bool:
    return any(isinstance(found, FUNCTIONS) for found in ast.walk(node))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that a value is made of."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.comprehension):
            yield child.iter
