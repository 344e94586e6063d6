"""The families of AITER's Triton kernels: its ten keys, and the rules that its kernels have.

Source: ROCm/aiter, aiter/ops/triton/gemm/basic/gemm_a16wfp4.py and the kernels that it launches.
"""

from dataclasses import dataclass

from mxtune.configs.devices import Device, load_device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.aiter import ARCH, obstacle
from mxtune.kernels.aiter_steps import as_tile, triton_call
from mxtune.kernels.family import INT32, Call, Legality, Plan, Problem, Tunable, illegal
from mxtune.kernels.tile_rules import tile_legality, tile_waste
from mxtune.kernels.tiles import ceil_div, defaults, next_power_of_two

# AITER's ten keys with every value in its configs for gfx950; "" is its null.
KEYS = (
    Tunable("BLOCK_SIZE_M", "rows of C a program computes", 16, (4, 8, 16, 32, 64, 128, 256)),
    Tunable("BLOCK_SIZE_N", "columns of C a program computes", 64, (16, 32, 64, 128, 256)),
    Tunable("BLOCK_SIZE_K", "values along K in a step of its loop", 256, (128, 256, 512, 1024)),
    Tunable("GROUP_SIZE_M", "tiles along M before the next along N", 1, (1, 2, 4, 8, 16)),
    Tunable("num_warps", "waves a program has", 4, (1, 2, 4, 8)),
    Tunable("num_stages", "steps of the loop in flight", 2, (1, 2, 3, 4)),
    Tunable("waves_per_eu", "waves a SIMD should hold; 0 lets the compiler choose", 0, least=0),
    Tunable("matrix_instr_nonkdim", "M and N of the MFMA", 16, (16, 32)),
    Tunable("cache_modifier", "how loads of B use the caches", "", ("", ".cg")),
    Tunable("NUM_KSPLIT", "programs that share the K loop of a tile", 1),
)

_SPLIT = ("NUM_KSPLIT", "BLOCK_SIZE_K")
_LEAST_K = 128  # of a step: what the scaled MFMA takes


@dataclass(frozen=True, slots=True)
class AiterTritonFamily:
    """A RouteFamily of one of AITER's Triton kernels."""

    name: str
    function: str
    shuffled: bool  # whether it reads shuffled weights and scales
    tunables: tuple[Tunable, ...] = KEYS

    def missing(self, device: Device) -> str | None:
        """See RouteFamily."""
        shape = Shape(16, 64, 256)
        sample = Problem.contiguous(shape, load_device(ARCH))
        return obstacle(self._call(self.fallback(shape), sample), device)

    def normalise(self, config: Config, shape: Shape) -> Config:
        """Return what AITER's host code makes of ``config``."""
        split = _as_split(config, shape)
        if split.number("BLOCK_SIZE_K") >= _LEAST_K:
            config = split
        if config.number("BLOCK_SIZE_K") >= shape.k:
            whole = max(_LEAST_K, next_power_of_two(shape.k))
            config = config.changed(BLOCK_SIZE_K=whole, NUM_KSPLIT=1)
        ordered = config.number("NUM_KSPLIT") == 1 and shape.m > config.number("BLOCK_SIZE_M")
        return config if ordered else config.changed(GROUP_SIZE_M=1)  # it is not looked at

    def legality(self, config: Config, shape: Shape, device: Device) -> Legality:
        """See RouteFamily."""
        if device.arch != ARCH:
            return illegal(f"AITER's FP4 kernels are for {ARCH}, not {device.arch}")
        verdict = tile_legality(as_tile(config, shuffled=self.shuffled), shape, device)
        if verdict.grade != "legal":
            return verdict
        if shape.m * shape.k > INT32 or shape.n * shape.k // 2 > INT32:
            return illegal("AITER's kernel has 32-bit offsets, too small for such operands")
        if next_power_of_two(shape.k) < _LEAST_K:
            return illegal(f"K {shape.k}: the scaled MFMA takes {_LEAST_K} values along K")
        if (split := _as_split(config, shape)) != config:
            asked, made = ("x".join(str(c[name]) for name in _SPLIT) for c in (config, split))
            return illegal(f"AITER changes {' x '.join(_SPLIT)} from {asked} to {made}")
        return self._tails(config, shape, verdict)

    def _tails(self, config: Config, shape: Shape, verdict: Legality) -> Legality:
        n, k = config.number("BLOCK_SIZE_N"), config.number("BLOCK_SIZE_K")
        if not self.shuffled:
            if shape.k % k:
                return Legality(
                    "suspect", f"K is no multiple of BLOCK_SIZE_K {k}: it reads scales past the end"
                )
            return verdict
        if n % 32 or k % 256:
            return illegal("it reads shuffled scales 32 rows and 256 values along K at a time")
        if shape.k % k:
            return illegal(f"K is no multiple of BLOCK_SIZE_K {k}: the kernel does not compile")
        if shape.n % n:
            return illegal(f"N is no multiple of BLOCK_SIZE_N {n}: it reads weights past the end")
        return verdict

    def waste(
        self, config: Config, shape: Shape, device: Device, *, won: bool = False
    ) -> str | None:
        """See RouteFamily."""
        return tile_waste(as_tile(config, shuffled=False), shape, device, won=won)

    def fallback(self, shape: Shape) -> Config:
        """Return a tile that is legal wherever one of this family is."""
        rows = min(64, max(16, next_power_of_two(shape.m)))
        columns = 64 if shape.n % 64 == 0 else 32
        return Config.of(defaults(self.tunables) | {"BLOCK_SIZE_M": rows, "BLOCK_SIZE_N": columns})

    def plan(self, config: Config, problem: Problem) -> Plan:
        """See RouteFamily."""
        return Plan((self._call(config, problem),))

    def _call(self, config: Config, problem: Problem) -> Call:
        return triton_call(self.function, config, problem, shuffled=self.shuffled)


def _as_split(config: Config, shape: Shape) -> Config:
    """Return ``config`` with the split that AITER makes of it: get_splitk, in bytes of K as there.

    It halves the number of splits until all are whole blocks and as long as each other.
    """
    splits, block, row = config.number("NUM_KSPLIT"), config.number("BLOCK_SIZE_K"), shape.k // 2
    share = ceil_div(2 * ceil_div(row, splits), block) * block
    while splits > 1 and block > 16:
        if row % (share // 2):
            splits //= 2
        elif row % (block // 2):
            block //= 2
        else:
            break
        share = ceil_div(2 * ceil_div(row, splits), block) * block
    if config.number("NUM_KSPLIT") > 1:
        splits = ceil_div(row, share // 2)
    return config.changed(NUM_KSPLIT=splits, BLOCK_SIZE_K=block)
