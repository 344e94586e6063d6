"""Run every test of this folder in one child, where Triton interprets its kernels.

Triton settles at import whether it interprets, and other tests compile: so the choice is a
process's. The child imports a test's file, calls the test, and answers with its traceback, if any.
"""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mxtune.tuner.crew import Crew, wait

LIMIT_S = 120.0

sys.path.append(str(Path(__file__).parent))  # a child finds its service by the module's name


@pytest.fixture(scope="session", autouse=True)
def interpreter() -> Iterator[Crew]:
    factory = import_module("interpreter").service
    with Crew([factory], limit_s=LIMIT_S, variables={"TRITON_INTERPRET": "1"}) as crew:
        yield crew


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    crew = pyfuncitem.funcargs["interpreter"]
    assert isinstance(crew, Crew)
    taken = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in taken}
    crew.submit(pyfuncitem.nodeid, (str(pyfuncitem.path), pyfuncitem.originalname, arguments))
    finished = wait([crew])
    while not finished:
        finished = wait([crew])
    outcome = finished[0].outcome
    if outcome.state != "done" or outcome.value:
        pytest.fail(outcome.value or f"{outcome.state}: {outcome.reason}", pytrace=False)
    return True
