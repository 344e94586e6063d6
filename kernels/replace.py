"""Put MXFP4 layers in the place of a model's nn.Linear modules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import nn

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import SCALE_BLOCK
from mxtune.kernels.linear import Gemm, Mxfp4Linear

Skip = str | Iterable[str] | Callable[[str, nn.Linear], bool]

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# nn.Module has no other way to ask for them.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, slots=True)
class Left:
    """A module that was left as it was."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """What became of the nn.Linear modules of a model, by their names in it."""

    replaced: tuple[str, ...]
    left: tuple[Left, ...]


def replace_linears(model: nn.Module, gemm: Gemm | None = None, *, skip: Skip = ()) -> Replacement:
    """Replace the nn.Linear modules of ``model`` in place, one after the other; say which.

    Left alone are those that ``skip`` names (patterns such as ``lm_head`` or ``*.router``, or a
    function of name and module), those whose K is no multiple of 32 and those that would not do
    the same afterwards: subclasses, hooks, a weight that another module has or reads too. A module
    with several names stays one. Raises ConfigError, before anything is replaced, for a model that
    is itself an nn.Linear and for a pattern that fits none.
    """
    sites = _sites(model)
    reasons = _reasons(model, sites, skip)
    left = [Left(name, why) for linear, why in reasons.items() for name in sites.pop(linear)]
    reasons.clear()
    replaced: list[str] = []
    while sites:  # no reference is kept, so that each bf16 weight goes before the next is quantised
        linear = next(iter(sites))
        names = sites.pop(linear)
        layer = Mxfp4Linear.from_linear(linear, gemm).train(linear.training)
        for name in names:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, layer)
        replaced += names
        del linear
    return Replacement(tuple(replaced), tuple(left))


def _sites(model: nn.Module) -> dict[nn.Linear, list[str]]:
    """Return every nn.Linear with all its names."""
    if isinstance(model, nn.Linear):
        raise ConfigError("the model is itself an nn.Linear: use Mxfp4Linear.from_linear(model)")
    sites: dict[nn.Linear, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, nn.Linear):
            sites.setdefault(module, []).append(name)
    return sites


def _reasons(
    model: nn.Module, sites: dict[nn.Linear, list[str]], skip: Skip
) -> dict[nn.Linear, str]:
    """Return why modules are to be left; one that may be replaced is not in it."""
    skipped = _skipped(sites, skip)
    readers = _readers(model, sites)
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    reasons: dict[nn.Linear, str] = {}
    for linear, names in sites.items():
        own = {f"{name}.weight" for name in names}
        others = [name for name in owners.get(id(linear.weight), ()) if name not in own]
        tied = f"its weight is {others[0]} too" if others else None
        reason = skipped.get(linear) or _obstacle(linear) or readers.get(linear) or tied
        if reason:
            reasons[linear] = reason
    return reasons


def _skipped(sites: dict[nn.Linear, list[str]], skip: Skip) -> dict[nn.Linear, str]:
    if callable(skip):
        chosen = (one for one, names in sites.items() if any(skip(name, one) for name in names))
        return dict.fromkeys(chosen, "skip says so")
    reasons: dict[nn.Linear, str] = {}
    for pattern in (skip,) if isinstance(skip, str) else skip:
        meant = [s for s, names in sites.items() if any(fnmatchcase(n, pattern) for n in names)]
        if not meant:
            raise ConfigError(f"skip: {pattern!r} is the name of no nn.Linear in the model")
        reasons |= dict.fromkeys(meant, f"skip has {pattern!r}")
    return reasons


def _readers(model: nn.Module, sites: dict[nn.Linear, list[str]]) -> dict[nn.Linear, str]:
    """Return the modules that their parent does not call: its fast path reads their weights."""
    reasons: dict[nn.Linear, str] = {}
    for linear, names in sites.items():
        parents = [model.get_submodule(name.rpartition(".")[0]) for name in names]
        if any(isinstance(parent, nn.TransformerEncoderLayer) for parent in parents):
            reasons[linear] = "its TransformerEncoderLayer reads the weight itself"
    return reasons


def _obstacle(linear: nn.Linear) -> str | None:
    """Say why a module cannot be replaced by one that does the same in MXFP4, or None."""
    if type(linear) is not nn.Linear:
        return f"it is a {type(linear).__name__}, which may do more than an nn.Linear"
    if any(vars(linear)[hooks] for hooks in _HOOKS) or "forward" in vars(linear):
        return "it has hooks or a forward of its own, which would be lost"
    if linear.in_features % SCALE_BLOCK or not linear.weight.numel():
        return f"K = {linear.in_features} is no multiple of {SCALE_BLOCK}, or there are no rows"
    if linear.weight.is_meta:
        return "its weight is on the meta device and has no values yet"
    if linear.weight.dtype not in _DTYPES:
        return f"its weight is {linear.weight.dtype}"
    return None
