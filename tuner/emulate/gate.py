"""Compiles a route, executes its machine code and compares, as the gate does on a GPU."""

import time

from mxtune.configs.shapes import Shape
from mxtune.kernels.bind import planned
from mxtune.kernels.family import Plan, Problem
from mxtune.tuner.check import POISONS, SEEDS, check_one, make_case
from mxtune.tuner.emulate.job import Emulated, EmulateJob, KernelRun
from mxtune.tuner.emulate.launch import Report
from mxtune.tuner.emulate.route import EmulatedRoute, KernelObject, kernel_objects


def emulate(job: EmulateJob) -> Emulated:
    """Compile the route and run the gate on it, with one seed.

    Raises EmulationError for an instruction that the emulator does not know, and what compiling
    raises.
    """
    problem = Problem.contiguous(job.shape, job.device)
    objects = kernel_objects(job.route, problem)
    return emulate_objects(objects, planned(job.route, problem), job.shape, job.seed)


def emulate_objects(
    objects: tuple[KernelObject, ...], plan: Plan, shape: Shape, seed: int
) -> Emulated:
    """Run the gate on compiled kernels, wherever they come from."""
    began = time.monotonic()
    told: list[tuple[str, Report]] = []
    case, poison = make_case(shape, seed, "cpu"), POISONS[SEEDS.index(seed)]

    def tell(step: str, report: Report) -> None:
        told.append((step, report))

    verdict = check_one(case, poison, lambda weight: EmulatedRoute(objects, plan, weight, tell))
    return Emulated(
        shape=shape,
        verdict=verdict,
        findings=tuple((step, found) for step, report in told for found in report.findings),
        kernels=tuple(KernelRun(step, told_.profile, told_.dismissed) for step, told_ in told),
        seconds=time.monotonic() - began,
    )
