"""What a verification is asked to do."""

from dataclasses import dataclass
from pathlib import Path

from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Routes of mxtune at shapes, or kernels of AITER; how is always by emulation."""

    shapes: tuple[Shape, ...]
    emulate: bool
    routes: Path | None
    family: str | None
    settings: tuple[str, ...]  # KEY=VALUE
    target: str
    asm: str | None  # which of AITER's kernels
    aiter: Path | None  # where it is
    rules: Path | None  # where to write what follows of them

    def __post_init__(self) -> None:
        if not self.emulate:
            raise ConfigError("say how: --emulate is the only way to verify so far")
        if self.asm and (self.routes or self.family or self.settings):
            raise ConfigError("--asm verifies AITER's kernels; leave --routes, --family, --set out")
        if not self.asm and (self.aiter or self.rules):
            raise ConfigError("--aiter and --rules go with --asm")
        if self.rules and (self.shapes or self.asm != "all"):
            raise ConfigError("--rules takes every question to every kernel: --asm all, no shapes")
        if not (self.asm or self.shapes):
            raise ConfigError("no shape to verify at; name one such as 16x2112x7168")
