"""Which of the packages that tables name are installed here. None of them is imported."""

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from mxtune.kernels.aiter import asm_objects, find_aiter
from mxtune.kernels.build import installed_triton

# As which ROCm's builds of torch have brought a triton.
_TRITONS = ("pytorch-triton-rocm", "pytorch-triton", "triton-rocm")


@dataclass(frozen=True, slots=True)
class Installed:
    """Versions, None for what is not here, and AITER's ASM kernels by their mangled names."""

    torch: str | None = None
    triton: str | None = None
    aiter: str | None = None
    kernels: frozenset[str] = frozenset()
    no_kernels: str = ""  # why there are none

    def version_of(self, package: str) -> str | None:
        """Return the version of ``torch``, ``triton`` or ``aiter``."""
        return {"torch": self.torch, "triton": self.triton, "aiter": self.aiter}[package]


def installed() -> Installed:
    """Look at what is installed."""
    objects = asm_objects()
    return Installed(
        torch=_version("torch"),
        triton=installed_triton() or _version(*_TRITONS),
        aiter=find_aiter().release,
        kernels=frozenset(objects.digests),
        no_kernels=objects.lack,
    )


def _version(*distributions: str) -> str | None:
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return None
