"""The child's side: call a test by its file and name."""

import traceback
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

Call = tuple[str, str, Mapping[str, object]]  # file, function, arguments


def service() -> Callable[[Call], str]:
    import torch

    torch.set_num_threads(1)
    return failure


def failure(call: Call) -> str:
    """Return the traceback of a test, or nothing if it passes."""
    path, name, arguments = call
    try:
        getattr(_module(path), name)(**arguments)
    except Exception:  # noqa: BLE001  a test may fail in any way
        return traceback.format_exc()
    return ""


@cache
def _module(path: str) -> ModuleType:
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
