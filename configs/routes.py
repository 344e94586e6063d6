"""A route: one way to compute a GEMM, by family and settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mxtune.configs.errors import ConfigError

Value = int | str


@dataclass(frozen=True, slots=True)
class Config(Mapping[str, Value]):
    """The settings of a route, by name, in a fixed order; hashable, unlike a dict."""

    items_: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Config":
        """Take any mapping."""
        return cls(tuple(sorted(values.items())))

    def __getitem__(self, name: str) -> Value:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def number(self, name: str) -> int:
        """Return a setting that is a whole number."""
        value = self[name]
        if not isinstance(value, int):
            raise ConfigError(f"{name} must be a whole number, not {value!r}")
        return value

    def text(self, name: str) -> str:
        """Return a setting that is a word."""
        return str(self[name])

    def changed(self, **values: Value) -> "Config":
        """Return the same settings but for ``values``."""
        return Config.of(dict(self.items_) | values)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.items_ if value != "")


@dataclass(frozen=True, slots=True)
class Route:
    """A kernel family and its settings."""

    family: str
    config: Config

    def __str__(self) -> str:
        return f"{self.family} {self.config}".rstrip()
