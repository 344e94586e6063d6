"""The search space of each family, by device: which values of each setting are tried."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from mxtune.configs.errors import ConfigError
from mxtune.configs.routes import Value

Space = Mapping[str, tuple[Value, ...]]

ANY = "any"  # the section for a device that has none of its own


@cache
def load_space(family: str, arch: str) -> Space:
    """Read the bundled space of ``family`` for ``arch``: setting to the values tried.

    A setting that is not there keeps its default.
    """
    path = files("mxtune.configs") / "spaces" / f"{family}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"family {family!r} has no search space; add configs/spaces/{family}.yaml"
        )
    sections: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    section = sections.get(arch, sections.get(ANY, {}))
    return {name: tuple(values) for name, values in section.items()}
