"""The three ways a file lists shapes: CSV, YAML, or words. Text in, shapes and faults out."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import yaml

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape, read_dimension

MOST_SHAPES = 100_000  # of one m x gemms: more would take weeks to sweep, so it is a slip

_DIMENSIONS = ("m", "n", "k")
_LISTS = ("shapes", "m", "gemms")
_INT_TAG = "tag:yaml.org,2002:int"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Why a line of a file, counted from 1, cannot be used."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its number, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Counted:
    """A shape, and how often it was asked for."""

    shape: Shape
    calls: int


Found = Shape | Counted | Fault


@dataclass(frozen=True, slots=True)
class Columns:
    """The header of a CSV file, in lower case, with each of m, n and k once."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in _DIMENSIONS:
            if self.names.count(name) > 1:
                raise ConfigError(f"two columns are named {name.upper()}")
        missing = [name.upper() for name in _DIMENSIONS if name not in self.names]
        if missing:
            what = "header" if len(missing) == len(_DIMENSIONS) else f"column {', '.join(missing)}"
            raise ConfigError(f"no {what}; the first line must name the columns M,N,K")

    @classmethod
    def parse(cls, header: str) -> "Columns":
        """Read the header; other separators than commas are named, for they are common."""
        for separator, name in ((";", "semicolons"), ("\t", "tabs")):
            if separator in header and "," not in header:
                raise ConfigError(f"cells are separated by {name}; use commas, as in M,N,K")
        return cls(tuple(cell.strip().lower() for cell in _cells(header)))

    def shape(self, row: str) -> Shape:
        """Read the shape of one row."""
        cells = _cells(row)
        if len(cells) != len(self.names):
            raise ConfigError(f"the header has {len(self.names)} cells, this row {len(cells)}")
        return Shape.of(tuple(cells[self.names.index(name)] for name in _DIMENSIONS))


def csv_shapes(text: str) -> Iterator[Found]:
    """Yield the shape or the fault of every row below the header."""
    lines = _lines(text)
    header = next(lines, None)
    if header is None:
        return
    try:
        columns = Columns.parse(header.text)
    except ConfigError as error:
        yield Fault(header.number, str(error))
        return
    for line in lines:
        yield attempt(line.number, partial(columns.shape, line.text))


def word_shapes(text: str) -> Iterator[Found]:
    """Yield the shape or the fault of every word ``MxNxK``; ``#`` starts a comment."""
    for line in _lines(text):
        for word in line.text.partition("#")[0].split():
            yield attempt(line.number, partial(Shape.parse, word))


def yaml_shapes(text: str) -> Iterator[Found]:
    """Yield the shapes under ``shapes``, then every gemm of ``gemms`` at every m of ``m``.

    The document is composed, not constructed: only nodes know their line.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        yield _yaml_fault(text, error)
        return
    if isinstance(root, yaml.MappingNode):
        yield from _document(root)
    elif root is not None:
        yield _fault(
            root, "not a list of shapes; write shapes: [...], or m: [...] and gemms: [...]"
        )


def attempt(line: int, read: Callable[[], Shape]) -> Found:
    """Return the shape that ``read`` returns, or why it did not."""
    try:
        return read()
    except ConfigError as error:
        return Fault(line, str(error))


def _lines(text: str) -> Iterator[Line]:
    """Yield the lines that are neither blank nor a comment."""
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield Line(number, line)


def _cells(row: str) -> list[str]:
    """Split a row that ends with its line: a shape has no cell of several lines."""
    if row.count('"') % 2:
        raise ConfigError("a quote is not closed on its line")
    try:
        return next(csv.reader([row], skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"not CSV ({error})") from error


def _document(root: yaml.MappingNode) -> Iterator[Found]:
    """Yield what the top level of a YAML file lists."""
    yield from _key_faults(root, optional=("about", "source", *_LISTS))
    top = _values(root)
    given = {name: top[name] for name in _LISTS if name in top}
    for name, node in given.items():
        if not isinstance(node, yaml.SequenceNode):
            yield _fault(node, f"{name} must be a list")
    if ("m" in given) != ("gemms" in given):
        yield _fault(given.get("m", given.get("gemms", root)), "m and gemms need each other")
    lists = {name: node for name, node in given.items() if isinstance(node, yaml.SequenceNode)}
    if "shapes" in lists:
        for item in lists["shapes"].value:
            yield from _item(item)
    if "m" in lists and "gemms" in lists:
        yield from _model(lists["m"], lists["gemms"])


def _item(node: yaml.Node) -> Iterable[Found]:
    """Return the shape of one item of ``shapes``, or its faults."""
    if isinstance(node, yaml.MappingNode):
        values = _values(node)
        faults = _key_faults(node, required=_DIMENSIONS, optional=("calls",))
        found = faults or _shape([values[name] for name in _DIMENSIONS])
        return found if faults or "calls" not in values else _counted(found, values["calls"])
    if not isinstance(node, yaml.SequenceNode):
        return [attempt(_line(node), partial(Shape.parse, node.value))]
    if len(node.value) != len(_DIMENSIONS):
        return [_fault(node, f"a shape is M, N and K, not {len(node.value)} numbers")]
    return _shape(node.value)


def _model(ladder: yaml.SequenceNode, gemms: yaml.SequenceNode) -> Iterator[Found]:
    """Yield every gemm at every m, gemm by gemm; a fault comes up once per shape it spoils."""
    count = len(ladder.value) * len(gemms.value)
    if count > MOST_SHAPES:
        yield _fault(gemms, f"m and gemms make {count} shapes; at most {MOST_SHAPES} are swept")
        return
    for gemm in gemms.value:
        if not isinstance(gemm, yaml.MappingNode):
            yield _fault(gemm, "a gemm is written {n: 2112, k: 7168}")
            continue
        faults = _key_faults(gemm, required=("n", "k"), optional=("layer",))
        yield from faults
        values = _values(gemm)
        for m in () if faults else ladder.value:
            yield from _shape([m, values["n"], values["k"]])


def _shape(cells: Sequence[yaml.Node]) -> Sequence[Found]:
    """Return the shape of three nodes, or the faults among them."""
    numbers = [_dimension(name, cell) for name, cell in zip("MNK", cells, strict=True)]
    faults = [number for number in numbers if isinstance(number, Fault)]
    return faults or [Shape(*(number for number in numbers if isinstance(number, int)))]


def _counted(found: Sequence[Found], node: yaml.Node) -> Sequence[Found]:
    """Return the shape with its calls, or the faults of either."""
    calls = _dimension("calls", node)
    if isinstance(calls, Fault):
        return [*(item for item in found if isinstance(item, Fault)), calls]
    return [Counted(item, calls) if isinstance(item, Shape) else item for item in found]


def _dimension(name: str, node: yaml.Node) -> int | Fault:
    """Return the number in a node; ``yes``, ``16.0`` and ``"16"`` are none."""
    if not isinstance(node, yaml.ScalarNode):
        return _fault(node, f"{name} must be a whole number, not a list or mapping")
    try:
        number = read_dimension(name, node.value)
    except ConfigError as error:
        return _fault(node, str(error))
    if node.tag != _INT_TAG:
        return _fault(node, f"{name} must be a whole number without quotes or tag")
    return number


def _key_faults(
    node: yaml.MappingNode, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> list[Fault]:
    """Return a fault for every key that is unknown, repeated or missing."""
    known = (*required, *optional)
    faults: list[Fault] = []
    seen: list[str] = []
    for key, _ in node.value:
        if key.value not in known:
            name = repr(key.value) if isinstance(key, yaml.ScalarNode) else "that is no word"
            faults.append(_fault(key, f"unknown key {name}; known are {', '.join(known)}"))
        elif key.value in seen:
            faults.append(_fault(key, f"{key.value} is given twice"))
        seen.append(key.value)
    return faults + [_fault(node, f"{name} is missing") for name in required if name not in seen]


def _values(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    """Return the values under the keys that are words."""
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1  # marks count from 0


def _fault(node: yaml.Node, reason: str) -> Fault:
    return Fault(_line(node), reason)


def _yaml_fault(text: str, error: yaml.YAMLError | RecursionError) -> Fault:
    """Return where and why a text is no YAML."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return Fault(error.problem_mark.line + 1, f"not YAML ({error.problem})")
    if isinstance(error, yaml.reader.ReaderError):
        return Fault(text.count("\n", 0, error.position) + 1, f"not YAML ({error.reason})")
    return Fault(1, "not YAML that can be read (nested too deeply)")
