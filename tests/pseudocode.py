"""Evaluate the pseudo-code of AMD's CDNA4 manual for one lane.

Reading rules, where the manual leaves them to the reader: integers narrower than 32 bits are
computed with 32, as in C; a comparison with a signed zero (``== -0.0``) looks at the sign, because
the branches that use it would make no sense otherwise; ``x * 2.0F ** n`` rounds once; floats keep
denormals; a name such as ``v_max_f32`` runs the pseudo-code of that instruction.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests import pseudocode_nodes as nodes
from tests.pseudocode_functions import FUNCTIONS, conversion
from tests.pseudocode_operators import combined, equal_with_sign
from tests.pseudocode_syntax import parse
from tests.pseudocode_values import (
    Value,
    convert,
    integer,
    literal,
    parse_type,
    real,
    truth,
    view,
)
from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

# A variable holds a Value, a named group of them, an array, the registers, or a function.
Variables = dict[str, Any]

CONSTANTS: Mapping[str, Any] = {
    "INF": real(math.inf, width=64),
    "NAN": real(math.nan, width=64),
    "PI": real(math.pi, width=64),
    "WAVE_MODE": {"IEEE": truth(1)},  # compute kernels run with it set
    "ROUND_MODE": integer(0),
    "ROUND_NEAREST_EVEN": integer(0),
}
_UNKNOWN_BITS = 256  # how wide a variable is that is written by bits and never declared
# The pseudo-code of each instruction by its name; where two encodings have it, it is the same.
BY_NAME: Mapping[str, str] = {
    op.name.removesuffix("_E32").removesuffix("_E64"): text for op, text in PCODE.items()
}


class EvaluationFault(Exception):
    """The pseudo-code uses what this evaluator does not know."""


class _Returned(Exception):
    pass


class _Broken(Exception):
    pass


def evaluate(text: str, variables: Variables) -> None:
    """Run ``text`` on ``variables`` (S0, D0, SCC, laneId ...), which it changes."""
    _Evaluator(variables).run(parse(text))


def _beyond(part: Any) -> Any:
    """Return ``D0[63 : 32]`` for ``D0.u32[63 : 32]``, which names bits outside its view."""
    return replace(part, base=part.base.base)


class _Evaluator:
    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self._returned = integer(0)
        self._statements: Mapping[type, Callable[[Any], None]] = {
            nodes.Assign: self._assign,
            nodes.Declare: self._declare,
            nodes.If: self._if,
            nodes.For: self._for,
            nodes.Return: self._return,
            nodes.Break: self._break,
        }
        self._expressions: Mapping[type, Callable[[Any], Any]] = {
            nodes.Literal: lambda node: literal(node.text),
            nodes.Name: self._name,
            nodes.Unary: self._unary,
            nodes.Binary: self._binary,
            nodes.Ternary: self._ternary,
            nodes.Member: self._member,
            nodes.Index: self._index,
            nodes.Slice: self._slice,
            nodes.Concatenation: self._concatenation,
            nodes.Cast: self._cast,
            nodes.Call: self._call,
            nodes.Lambda: lambda node: node,
        }

    def run(self, statements: Sequence[nodes.Statement]) -> None:
        for statement in statements:
            self._statements[type(statement)](statement)

    def _get(self, node: nodes.Expression) -> Any:
        return self._expressions[type(node)](node)

    def _assign(self, node: nodes.Assign) -> None:
        value = self._get(node.value)
        if node.operator:
            value = combined(node.operator, self._get(node.targets[0]), value)
        for target in node.targets:
            self._set(target, value)

    def _set(self, target: nodes.Expression, value: Any) -> None:
        """Store into a variable, or into the bits of one that a view or an index names."""
        if isinstance(target, nodes.Name):
            self.variables[target.text] = value
            return
        if isinstance(target, nodes.Concatenation):
            self._set_parts(target.parts, value)
            return
        if not isinstance(target, nodes.Member | nodes.Index | nodes.Slice):
            raise EvaluationFault(f"no target: {target}")
        old = self._present(target.base)
        if isinstance(old, list | dict):
            assert isinstance(target, nodes.Index)
            old[self._get(target.at).integer] = value
            return
        low, width = self._place(target)
        if isinstance(target, nodes.Member):
            value = self._typed(value, target.name)
        elif isinstance(target.base, nodes.Member) and low + width > old.width:
            self._set(_beyond(target), value)
            return
        inserted = (value.bits & ((1 << width) - 1)) << low
        kept = old.bits & ~(((1 << width) - 1) << low)
        self._set(target.base, Value(old.kind, max(old.width, low + width), kept | inserted))

    def _set_parts(self, parts: Sequence[nodes.Expression], value: Value) -> None:
        """Spread the bits of ``value`` over ``{ D1.u1, D0.u64 }``, the last part first."""
        low = 0
        for part in reversed(parts):
            _, width = self._place(part)
            self._set(part, integer(value.bits >> low, "B", width))
            low += width

    def _present(self, node: nodes.Expression) -> Any:
        """Return what is stored so far; what was never declared is as wide as need be."""
        root = node
        while isinstance(root, nodes.Member | nodes.Index | nodes.Slice):
            root = root.base
        if isinstance(root, nodes.Name):
            self.variables.setdefault(root.text, Value("B", _UNKNOWN_BITS, 0))
        return self._get(node)

    def _place(self, target: nodes.Expression) -> tuple[int, int]:
        """Return (lowest bit, width) of what ``target`` names in its base."""
        if isinstance(target, nodes.Member):
            found = parse_type(target.name)
            if not found:
                raise EvaluationFault(f"no type: {target.name}")
            return 0, found[1]
        if isinstance(target, nodes.Index):
            return self._get(target.at).integer, 1
        assert isinstance(target, nodes.Slice)
        first, second = self._get(target.first).integer, self._get(target.second).integer
        return (first, second) if target.counted else (second, first - second + 1)

    def _typed(self, value: Value, name: str) -> Value:
        """Return ``value`` as a typed target takes it: floats round, integers keep their value."""
        kind, width = parse_type(name) or ("B", value.width)
        if value.kind == kind == "F":
            return convert(value, kind, width)
        return integer(value.integer, kind, width)

    def _declare(self, node: nodes.Declare) -> None:
        if node.name in self.variables:  # the caller gives a value to some of what is declared
            return
        kind, width = parse_type(node.type) or ("B", 0)
        zero = Value(kind, width, 0)
        self.variables[node.name] = [zero] * node.count if node.count else zero

    def _if(self, node: nodes.If) -> None:
        for condition, body in node.branches:
            if self._get(condition).bits:
                self.run(body)
                return
        self.run(node.otherwise)

    def _for(self, node: nodes.For) -> None:
        first, last = self._get(node.first), self._get(node.last)
        for number in range(first.integer, last.integer + 1):
            self.variables[node.variable] = integer(number)
            try:
                self.run(node.body)
            except _Broken:
                return

    def _return(self, node: nodes.Return) -> None:
        self._returned = self._get(node.value)
        raise _Returned

    def _break(self, _node: nodes.Break) -> None:
        raise _Broken

    def _name(self, node: nodes.Name) -> Any:
        for scope in (self.variables, CONSTANTS):
            if node.text in scope:
                return scope[node.text]
        raise EvaluationFault(f"unknown name {node.text}")

    def _unary(self, node: nodes.Unary) -> Value:
        value = self._get(node.operand)
        assert isinstance(value, Value)
        if node.operator == "!":
            return truth(not value.bits)
        if node.operator == "~":
            return Value(value.kind, value.width, ~value.bits & ((1 << value.width) - 1))
        if node.operator == "-" and value.floating:
            return Value(value.kind, value.width, value.bits ^ 1 << (value.width - 1))
        return integer(-value.integer, value.kind, value.width) if node.operator == "-" else value

    def _binary(self, node: nodes.Binary) -> Any:
        left = self._get(node.left)
        if node.operator in ("&&", "||"):
            decided = bool(left.bits) == (node.operator == "||")
            return truth(left.bits if decided else self._get(node.right).bits)
        right = self._get(node.right)
        if node.operator == "==" and isinstance(node.right, nodes.Unary):
            return equal_with_sign(left, right)
        return combined(node.operator, left, right)

    def _ternary(self, node: nodes.Ternary) -> Any:
        return self._get(node.yes if self._get(node.condition).bits else node.no)

    def _member(self, node: nodes.Member) -> Any:
        base = self._get(node.base)
        if isinstance(base, Mapping):
            return base[node.name]
        found = parse_type(node.name)
        if not found:
            raise EvaluationFault(f"no type: {node.name}")
        return view(base, *found)

    def _index(self, node: nodes.Index) -> Any:
        base, at = self._get(node.base), self._get(node.at).integer
        return base[at] if isinstance(base, list | dict) else truth(base.bits >> at & 1)

    def _slice(self, node: nodes.Slice) -> Value:
        base = self._get(node.base)
        low, width = self._place(node)
        if isinstance(node.base, nodes.Member) and low + width > base.width:
            return self._slice(_beyond(node))
        if width > 0:
            return integer(base.bits >> low, "U", width)
        # ``[0 : 31]`` reads the bits the other way round
        first = low + width - 1
        bits = format(base.bits >> first & ((1 << (low - first + 1)) - 1), f"0{low - first + 1}b")
        return integer(int(bits[::-1], 2), "U", len(bits))

    def _concatenation(self, node: nodes.Concatenation) -> Value:
        bits = width = 0
        for part in map(self._get, node.parts):
            bits, width = bits << part.width | part.bits, width + part.width
        return Value("B", width, bits)

    def _cast(self, node: nodes.Cast) -> Value:
        kind, width = parse_type(node.type) or ("B", 0)
        return convert(self._get(node.operand), kind, width)

    def _call(self, node: nodes.Call) -> Any:
        arguments = [self._get(argument) for argument in node.arguments]
        defined = self.variables.get(node.function)
        if isinstance(defined, nodes.Lambda):
            return self._apply(defined, arguments)
        function = FUNCTIONS.get(node.function) or conversion(node.function)
        if function:
            return function(*arguments)
        if node.function.upper() not in BY_NAME:
            raise EvaluationFault(f"unknown function {node.function}")
        inner = {f"S{i}": argument for i, argument in enumerate(arguments)}
        inner["D0"] = Value("B", 64, 0)
        evaluate(BY_NAME[node.function.upper()], inner)
        return view(inner["D0"], arguments[0].kind, arguments[0].width)

    def _apply(self, function: nodes.Lambda, arguments: Sequence[Any]) -> Any:
        inner = _Evaluator(
            {**self.variables, **dict(zip(function.parameters, arguments, strict=True))}
        )
        try:
            inner.run(function.body)
        except _Returned:
            return inner._returned
        raise EvaluationFault("a function without a result")
