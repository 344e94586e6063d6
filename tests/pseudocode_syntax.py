"""The grammar of the pseudo-code in AMD's CDNA4 manual: text in, a tree of frozen nodes out."""

import re
from collections.abc import Iterator
from functools import cache

from tests.pseudocode_nodes import (
    Assign,
    Binary,
    Break,
    Call,
    Cast,
    Concatenation,
    Declare,
    Expression,
    For,
    If,
    Index,
    Lambda,
    Literal,
    Member,
    Name,
    Return,
    Slice,
    Statement,
    Ternary,
    Unary,
)

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | (?P<token>
    "[^"]*"
    | \d+'(?:0x[0-9a-f]+ | \d+\.\d+ | \d+)(?:ULL|LL|U|F)?    # a literal of a given width
    | \d+'[A-Z]+                                              # a type
    | 0x[0-9a-f]+(?:ULL|LL|U)? | \d+\.\d+F? | \d+(?:ULL|LL|U)?
    | [A-Za-z_]\w*
    | \*\* | \+: | << | >> | <= | >= | <> | == | != | && | \|\| | \+= | -= | \*=
    | [-+*/%&|^~!<>=?:;,.(){}\[\]]
    )""",
    re.VERBOSE,
)

# From loosest to tightest, all left-associative, as in C.
_BINARY = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
_STARTERS = ("if", "for", "declare", "return", "break")


class SyntaxFault(Exception):
    """The text is not what this grammar takes for pseudo-code."""


@cache
def parse(text: str) -> tuple[Statement, ...]:
    """Return the statements of ``text``; raise SyntaxFault for anything else, prose above all."""
    parser = _Parser(tuple(_tokens(text)))
    program = parser.block(())
    parser.expect("")
    return program


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise SyntaxFault(f"no token at {text[position : position + 20]!r}")
        position = match.end()
        if match["token"]:
            yield match["token"]


class _Parser:
    """Recursive descent over the tokens; "" stands for their end."""

    def __init__(self, tokens: tuple[str, ...]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        self._at += 1
        return token

    def _accept(self, *tokens: str) -> str:
        return self._take() if self._next in tokens and self._next else ""

    def expect(self, token: str) -> None:
        if self._take() != token:
            raise SyntaxFault(f"{token!r} expected at {self._tokens[self._at - 1 : self._at + 4]}")

    def block(self, ends: tuple[str, ...]) -> tuple[Statement, ...]:
        """Parse statements up to one of ``ends``, which stays."""
        statements = []
        while self._next and self._next not in ends:
            if not self._accept(";"):
                statements.append(self._statement())
        return tuple(statements)

    def _statement(self) -> Statement:
        starter = self._accept(*_STARTERS)
        if starter == "if":
            return self._if()
        if starter == "for":
            return self._for()
        if starter == "declare":
            return self._declare()
        if starter:
            return Return(self.expression()) if starter == "return" else Break()
        return self._assign()

    def _if(self) -> If:
        branches = []
        while True:
            condition = self.expression()
            self.expect("then")
            branches.append((condition, self.block(("elsif", "else", "endif"))))
            if not self._accept("elsif"):
                break
        otherwise = self.block(("endif",)) if self._accept("else") else ()
        self.expect("endif")
        return If(tuple(branches), otherwise)

    def _for(self) -> For:
        variable = self._take()
        self.expect("in")
        first = self.expression()
        self.expect(":")
        last = self.expression()
        self.expect("do")
        body = self.block(("endfor",))
        self.expect("endfor")
        return For(variable, first, last, body)

    def _declare(self) -> Declare:
        name = self._take()
        self.expect(":")
        type_ = self._take()
        count = 0
        if self._accept("["):
            count = int(self._take())
            self.expect("]")
        return Declare(name, type_, count)

    def _assign(self) -> Assign:
        targets = [self._postfix()]
        operator = self._accept("=", "+=", "-=", "*=")
        if not operator:
            raise SyntaxFault(f"no statement: {self._tokens[self._at : self._at + 5]}")
        value = self.expression()
        while operator == "=" and self._accept("="):
            targets.append(value)
            value = self.expression()
        return Assign(tuple(targets), operator[:-1], value)

    def expression(self) -> Expression:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        yes = self.expression()
        self.expect(":")
        return Ternary(condition, yes, self.expression())

    def _binary(self, level: int) -> Expression:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while operator := self._accept(*_BINARY[level]):
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Expression:
        if operator := self._accept("-", "+", "~", "!"):
            return Unary(operator, self._unary())
        return self._postfix()

    def _postfix(self) -> Expression:
        found = self._primary()
        while suffix := self._accept(".", "["):
            found = Member(found, self._take()) if suffix == "." else self._subscript(found)
        return found

    def _subscript(self, base: Expression) -> Expression:
        first = self.expression()
        separator = self._accept(":", "+:")
        subscript: Expression = Index(base, first)
        if separator:
            subscript = Slice(base, first, self.expression(), counted=separator == "+:")
        self.expect("]")
        return subscript

    def _primary(self) -> Expression:
        token = self._take()
        if token == "(":
            found = self.expression()
            self.expect(")")
            return found
        if token == "{":
            return Concatenation(self._list("}"))
        if token == "lambda":
            return self._lambda()
        if re.fullmatch(r"\d+'[A-Z]+", token):
            self.expect("(")
            found = self.expression()
            self.expect(")")
            return Cast(token, found)
        if token[:1].isdigit():
            return Literal(token)
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            raise SyntaxFault(f"no expression at {token!r}")
        return Call(token, self._list(")")) if self._accept("(") else Name(token)

    def _list(self, end: str) -> tuple[Expression, ...]:
        if self._accept(end):
            return ()
        parts = [self.expression()]
        while self._accept(","):
            parts.append(self.expression())
        self.expect(end)
        return tuple(parts)

    def _lambda(self) -> Lambda:
        self.expect("(")
        parameters = tuple(p.text for p in self._list(")") if isinstance(p, Name))
        self.expect("(")
        body = self.block((")",)) if self._next in _STARTERS else (Return(self.expression()),)
        self.expect(")")
        return Lambda(parameters, body)
