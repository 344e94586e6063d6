"""What AITER's files tell without importing them: a function's parameters, the commit."""

import ast
import re
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import _ParameterKind

# 0.1.5.dev2+g1a2b3c4d5 of a version, "commit_id": "1a2b..." of pip's direct_url.json
_COMMIT = re.compile(r'\+g([0-9a-f]{7,40})\b|"commit_id":\s*"([0-9a-f]{40})"')


def signature_in(source: str, name: str) -> Signature:
    """Return what the function ``name`` takes that ``source`` defines at its top level.

    Defaults and annotations are their source text. Raises ValueError if there is no such function.
    """
    found = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name]
    if not found:
        raise ValueError(f"no function {name} in its source")
    taken = found[-1].args
    positional: list[tuple[ast.arg, _ParameterKind]] = [
        *((a, Parameter.POSITIONAL_ONLY) for a in taken.posonlyargs),
        *((a, Parameter.POSITIONAL_OR_KEYWORD) for a in taken.args),
    ]
    unset: list[ast.expr | None] = [None] * (len(positional) - len(taken.defaults))
    defaults = [*unset, *taken.defaults]
    parameters = [_parameter(a, kind, d) for (a, kind), d in zip(positional, defaults, strict=True)]
    if taken.vararg:
        parameters.append(_parameter(taken.vararg, Parameter.VAR_POSITIONAL))
    for a, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        parameters.append(_parameter(a, Parameter.KEYWORD_ONLY, default))
    if taken.kwarg:
        parameters.append(_parameter(taken.kwarg, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _parameter(
    taken: ast.arg, kind: "_ParameterKind", default: ast.expr | None = None
) -> Parameter:
    annotation = _text_of(taken.annotation)
    return Parameter(taken.arg, kind, default=_text_of(default), annotation=annotation)


def _text_of(node: ast.expr | None) -> Any:
    return ast.unparse(node) if node else Parameter.empty


def commit_in(text: str) -> str | None:
    """Return the commit that a version or an installer's record names, or None."""
    match = _COMMIT.search(text)
    return (match[1] or match[2]) if match else None


def commit_of_checkout(folder: Path) -> str | None:
    """Return the commit that is checked out in ``folder``, None if it is no git checkout."""
    head = _text(folder / ".git" / "HEAD")
    if not head.startswith("ref: "):
        return head or None
    branch = head.removeprefix("ref: ")
    packed = _text(folder / ".git" / "packed-refs").splitlines()
    lines = (line.split() for line in packed if line.endswith(f" {branch}"))
    return _text(folder / ".git" / branch) or next((line[0] for line in lines), None)


def _text(path: Path) -> str:
    """Return the text of a file without the line break at its end; empty if there is none."""
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
