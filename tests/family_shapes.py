"""Shapes at which every family is tried as far as it takes them: shuffled weights bound N and K."""

from mxtune.configs.devices import load_device
from mxtune.configs.routes import Config
from mxtune.configs.shapes import Shape
from mxtune.kernels.registry import family, own_families

NAMES = sorted(owner.name for owner in own_families())
SPLITTING = [name for name in NAMES if any(t.name == "split_k" for t in family(name).tunables)]
# One block of scales alone; tiles that are not whole along M, along N and along K.
ANY_WEIGHTS = (Shape(1, 32, 32), Shape(3, 70, 96), Shape(17, 130, 320), Shape(33, 96, 1056))
SHUFFLED_WEIGHTS = (Shape(17, 160, 320), Shape(33, 96, 1088))  # N % 16 == 0, K % 64 == 0


def is_legal(name: str, config: Config, shape: Shape, arch: str = "gfx950") -> bool:
    return family(name).legality(config, shape, load_device(arch)).grade == "legal"


def takes(name: str, shape: Shape) -> bool:
    """Whether a family has a route for a shape: its fallback is legal wherever any config is."""
    return is_legal(name, family(name).fallback(shape), shape)


def layouts_of(name: str) -> tuple[str, ...]:
    """Return the layouts of weights that a family can read."""
    if any(tunable.name == "weights" for tunable in family(name).tunables):
        return ("plain", "shuffled")
    return ("plain",) if takes(name, ANY_WEIGHTS[0]) else ("shuffled",)


READINGS = [(name, weights) for name in NAMES for weights in layouts_of(name)]


def shapes_of(weights: str) -> tuple[Shape, ...]:
    """Return the shapes that are tried with a layout of weights."""
    return ANY_WEIGHTS if weights == "plain" else SHUFFLED_WEIGHTS
