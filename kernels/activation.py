"""A, quantised once for any number of GEMMs."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Config
from mxtune.configs.shapes import SCALE_BLOCK, Shape
from mxtune.kernels import layouts
from mxtune.kernels.bind import bound_calls
from mxtune.kernels.family import A_CODES, A_SCALES, Problem, View
from mxtune.kernels.gpu import capturing
from mxtune.kernels.observe import Observer
from mxtune.kernels.placed import device_at, view_of
from mxtune.kernels.quantise_steps import RULE, codes_step
from mxtune.kernels.stage_times import Subject
from mxtune.kernels.tile_rules import CONVERTS
from mxtune.kernels.tiles import QUANTISE, defaults

if TYPE_CHECKING:
    from torch import Tensor

PLAIN, SHUFFLED = "plain", "shuffled"
_NAMES = {layout: name for name, layout in A_SCALES.items()}
_QUANTISERS = 64  # bound launches kept; the one not used for longest goes first


class Mxfp4Activation:
    """A of C = A @ B.T: M rows of K values, as E2M1 codes and E8M0 scales. Its values never change.

    ``codes`` is uint8 [M, K/2]; ``scales(layout)`` is uint8 [M, K/32] plain and
    [ceil256(M), ceil8(K/32)] shuffled, padding zeroed. None of them may be written.
    """

    def __init__(self, codes: "Tensor", scales: "dict[str, Tensor]", rule: str = RULE) -> None:
        """Take contiguous tensors that fit each other, by layout; callers use `quantise`."""
        self.codes, self.rule = codes, rule
        self.m, self.k = codes.shape[0], 2 * codes.shape[1]
        self._scales = scales

    @property
    def shape(self) -> tuple[int, int]:
        """M and K."""
        return self.m, self.k

    @property
    def device(self) -> str:
        """Where it lies, as torch writes it, such as ``cuda:0``."""
        return str(self.codes.device)

    def scales(self, layout: str = PLAIN) -> "Tensor":
        """Return the scale bytes in ``layout``; made from the other one if need be, and kept.

        What a graph that is being captured makes is not kept: it is there only in replays.
        """
        if layout in self._scales:
            return self._scales[layout]
        _check_layout(layout)
        made = (
            layouts.shuffle_scales(self._scales[PLAIN])
            if layout == SHUFFLED
            else layouts.unshuffle_scales(self._scales[SHUFFLED], self.m, self.k // SCALE_BLOCK)
        )
        if not capturing(self.device):
            self._scales[layout] = made
        return made


def quantise(
    a: "Tensor", *, scale_layout: str = PLAIN, observe: Observer | None = None
) -> Mxfp4Activation:
    """Quantise ``a``, bf16 [M, K] of any strides, by the rule `even`, in one kernel of ours.

    It goes to the current stream of a GPU, into memory of its own. ``scale_layout`` is what the
    kernel writes: shuffled saves AITER's routes some kernels. Raises ConfigError for what is no
    such matrix, MissingError on a CPU, unless Triton interprets.
    """
    import torch

    _check_matrix(a)
    _check_layout(scale_layout)
    (m, k), place = a.shape, str(a.device)
    problem = Problem(Shape(max(m, 1), 1, k), device_at(place), view_of(a), View(1, 1))
    codes = torch.empty((m, k // 2), dtype=torch.uint8, device=a.device)
    size = (m, k // SCALE_BLOCK)
    size = layouts.padded_scales(*size) if scale_layout == SHUFFLED else size
    scales = torch.empty(size, dtype=torch.uint8, device=a.device)
    if m:
        _quantiser(problem, place, scale_layout, observe)(a, codes, scales)
    return Mxfp4Activation(codes, {scale_layout: scales})


@lru_cache(maxsize=_QUANTISERS)
def _quantiser(
    problem: Problem, place: str, scale_layout: str, observe: Observer | None
) -> Callable[..., None]:
    """Return a launch that takes A, its codes and its scales."""
    hardware = problem.device.arch in CONVERTS
    settings = defaults(QUANTISE) | {"convert": "hardware" if hardware else "portable"}
    steps = (codes_step(Config.of(settings), problem, shuffled=scale_layout == SHUFFLED),)
    given = ("a", A_CODES, _NAMES[scale_layout])
    calls = bound_calls(steps, problem.device, {}, given, place)
    if observe is not None:
        sizes = (problem.shape.m, problem.shape.k)
        calls = observe.around(Subject("quantise", sizes, place), steps, calls)
    (call,) = calls
    return call


def _check_layout(layout: str) -> None:
    if layout not in _NAMES:
        raise ConfigError(f"unknown layout {layout!r}: {PLAIN} or {SHUFFLED}")


def _check_matrix(a: "Tensor") -> None:
    import torch

    if a.dtype != torch.bfloat16 or a.ndim != 2:
        raise ConfigError(f"A must be a bfloat16 matrix, not {a.dtype} {list(a.shape)}")
