"""The tree that pseudo-code of AMD's CDNA4 manual is parsed into."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: "Expression"
    yes: "Expression"
    no: "Expression"


@dataclass(frozen=True, slots=True)
class Member:
    """``base.u32``: a typed view, or a named part of a register."""

    base: "Expression"
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    base: "Expression"
    at: "Expression"


@dataclass(frozen=True, slots=True)
class Slice:
    """``base[high : low]``, or with ``counted`` ``base[low +: width]``, kept in that order."""

    base: "Expression"
    first: "Expression"
    second: "Expression"
    counted: bool


@dataclass(frozen=True, slots=True)
class Concatenation:
    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Cast:
    type: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    parameters: tuple[str, ...]
    body: "tuple[Statement, ...]"


Expression = (
    Literal
    | Name
    | Unary
    | Binary
    | Ternary
    | Member
    | Index
    | Slice
    | Concatenation
    | Cast
    | Call
    | Lambda
)


@dataclass(frozen=True, slots=True)
class Assign:
    """Every target gets the value; ``operator`` is "" or that of ``+=``."""

    targets: tuple[Expression, ...]
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Declare:
    name: str
    type: str
    count: int  # 0 for a scalar


@dataclass(frozen=True, slots=True)
class If:
    branches: "tuple[tuple[Expression, tuple[Statement, ...]], ...]"
    otherwise: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class For:
    variable: str
    first: Expression
    last: Expression
    body: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression


@dataclass(frozen=True, slots=True)
class Break:
    pass


Statement = Assign | Declare | If | For | Return | Break
