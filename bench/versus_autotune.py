"""The measuring engine against plain ``@triton.autotune``, side by side on one GPU.

    python bench/versus_autotune.py --out FOLDER

Both choose among the same 65 configs of the same kernel (``gemm`` of the family ``direct``) at the
six contest shapes, each in processes of its own: from an empty compile cache, then with the cache
that left. The autotuner times the GEMM on operands quantised beforehand and checks nothing; the
engine quantises A in every call, checks every candidate on two problems, and holds finals. Then all
65 are timed against each other, interleaved and cold, and each side's choice is compared with the
best.

Prints one JSON object; ``--out`` also gets it as versus_autotune.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

SHAPES = (
    (4, 2880, 512),
    (16, 2112, 7168),
    (32, 4096, 512),
    (32, 2880, 512),
    (64, 7168, 2048),
    (256, 3072, 1536),
)


def tiles() -> list[dict[str, int]]:
    """Return the 65 configs: tiles that are neither too large nor too small for their warps."""
    return [
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": warps, "num_stages": stages}
        for m in (16, 32, 64)
        for n in (32, 64, 128)
        for k in (128, 256, 512)
        for warps in (4, 8)
        for stages in (2, 3)
        if n * k <= 128 * 256 and m * k <= 64 * 256
        if not (warps == 8 and m * n < 2048)
        if not (stages == 3 and k == 512)
    ]


def autotune() -> dict[str, Any]:
    """Let the autotuner choose at every shape."""
    import torch
    import triton

    from mxtune.configs.shapes import Shape
    from mxtune.kernels.device.gemm import gemm
    from mxtune.kernels.family import Problem
    from mxtune.kernels.gpu import running_device
    from mxtune.kernels.registry import family
    from mxtune.kernels.weight import Mxfp4Weight

    launch = ("num_warps", "num_stages")
    configs = [
        triton.Config(
            {k: v for k, v in tile.items() if k not in launch}, **{k: tile[k] for k in launch}
        )
        for tile in tiles()
    ]
    tuned = triton.autotune(configs=configs, key=["M", "N", "K"])(gemm)
    chosen: dict[str, dict[str, int]] = {}
    for m, n, k in SHAPES:
        shape = Shape(m, n, k)
        a = Mxfp4Weight.quantise(torch.randn(m, k, device="cuda"))
        b = Mxfp4Weight.quantise(torch.randn(n, k, device="cuda"))
        c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        owner = family("direct")
        plan = owner.plan(owner.fallback(shape), Problem.contiguous(shape, running_device(0)))
        step = plan.steps[1]
        pointers = {
            "a_ptr": a.codes(),
            "a_scales_ptr": a.scales(),
            "b_ptr": b.codes(),
            "b_scales_ptr": b.scales("shuffled"),
            "c_ptr": c,
        }
        fixed = {x: v for x, v in step.constants.items() if not x.startswith("BLOCK_")}
        # every K here is a multiple of every BLOCK_K
        fixed["EVEN_K"] = True
        integers = dict(step.integers) | {"split_blocks": k}

        def grid(meta: dict[str, int], m: int = m, n: int = n) -> tuple[int, int]:
            return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]), 1)

        tuned[grid](**pointers, **integers, **fixed)
        torch.cuda.synchronize()
        best = tuned.best_config
        chosen[str(shape)] = {**best.kwargs, "num_warps": best.num_warps} | {
            "num_stages": best.num_stages
        }
    return {"chosen": chosen}


def engine(out: Path) -> dict[str, Any]:
    """Let the engine choose among the same configs, writing a store as a sweep does."""
    from mxtune.configs.regimes import Regime
    from mxtune.configs.settings import read_settings
    from mxtune.results.choose import ranking
    from mxtune.results.store import Store
    from mxtune.tuner.lanes import Lane
    from mxtune.tuner.ledger import Ledger
    from mxtune.tuner.machine import probe
    from mxtune.tuner.measured import sweep_measured
    from mxtune.tuner.provenance import session_of
    from mxtune.tuner.task import Done

    settings = read_settings()
    machine = probe(settings)
    device, regime = machine.gpus[0], Regime()
    searches = [search(shape, device) for shape in SHAPES]
    lane, ledger = Lane(device, "cuda:0"), Ledger()
    store = Store.open(out, create=True)
    number = store.session(session_of(device, machine, regime))
    for found in sweep_measured(searches, [lane.factory(regime)], regime, settings, ledger):
        if not isinstance(found, Done):
            store.add(number, found)
    store.close()
    best = {str(s.task.shape): ranking(s.task.trials)[0].route.config for s in searches}
    names = tuple(tiles()[0])
    chosen = {shape: {name: config[name] for name in names} for shape, config in best.items()}
    return {"chosen": chosen, "seconds_by_account": ledger.totals(1)}


def search(mnk: tuple[int, int, int], device: Any) -> Any:
    """Return the search of one shape over the 65 configs."""
    from mxtune.configs.routes import Route
    from mxtune.configs.shapes import Shape
    from mxtune.kernels.candidates import Candidates
    from mxtune.kernels.registry import family
    from mxtune.tuner.search import Effort, Search
    from mxtune.tuner.task import Task

    shape, owner = Shape(*mnk), family("direct")
    routes = tuple(
        Route("direct", owner.normalise(owner.fallback(shape).changed(**tile), shape))
        for tile in tiles()
    )
    found = Candidates(routes, len(routes), 0, {}, ())
    task = Task(shape, device, found, routes, [], len(routes))
    effort = Effort("65", seeds=None, rounds=0, around=0, finalists=12, final_rounds=150)
    return Search(task, effort)


def remeasure(chosen: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """Time all 65 at every shape, then the best with the ``chosen``: microseconds by config.

    Interleaved and cold. The first round of all finds the best; the second, of few and longer,
    compares, since the least of 65 medians is less than any of them deserves.
    """
    from mxtune.configs.regimes import Regime
    from mxtune.kernels.gpu import running_device
    from mxtune.tuner.measure import FinalJob, gpu_service

    device = running_device(0)
    bench = gpu_service(device, "cuda:0", Regime())
    times: dict[str, dict[str, float]] = {}
    for mnk in SHAPES:
        shape = search(mnk, device).task.shape
        by_name = {named(route.config): route for route in search(mnk, device).task.ranked}
        first = timed(bench, FinalJob(shape, tuple(by_name.values()), 60))
        best = sorted(first, key=first.__getitem__)[:8]
        playing = dict.fromkeys([*best, *chosen[str(shape)]])
        routes = tuple(by_name[name] for name in playing)
        times[str(shape)] = timed(bench, FinalJob(shape, routes, 250))
    return times


def named(config: Any) -> str:
    """Return the settings that the 65 differ in, as text."""
    return json.dumps({name: config[name] for name in tiles()[0]})


def timed(bench: Any, job: Any) -> dict[str, float]:
    """Return the median of every route of a final."""
    finals = bench.finals(job)
    return {
        named(route.config): median(samples)
        for route, samples in zip(job.routes, finals.routes, strict=True)
    }


def child(what: str, out: Path, cache: Path) -> dict[str, Any]:
    """Run one side in a process of its own; adds the seconds of the whole process."""
    begin = time.monotonic()
    result = subprocess.run(
        [sys.executable, __file__, "--out", str(out), "--child", what],
        env=dict(os.environ, TRITON_CACHE_DIR=str(cache)),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begin
    if result.returncode:
        raise SystemExit(f"{what}: {result.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer | {"seconds": round(seconds, 2)}


def compare(out: Path) -> dict[str, Any]:
    """Run both sides cold and warm, and judge their choices by one measurement."""
    with tempfile.TemporaryDirectory() as folder:
        rows: dict[str, dict[str, Any]] = {}
        for what in ("autotune", "engine"):
            for state in ("cold", "warm"):
                rows[f"{what} {state}"] = child(
                    what, Path(folder) / f"{what}-{state}", Path(folder) / what
                )
        chosen = {
            "x".join(map(str, mnk)): [
                json.dumps(row["chosen"]["x".join(map(str, mnk))]) for row in rows.values()
            ]
            for mnk in SHAPES
        }
        (out / "chosen.json").write_text(json.dumps(chosen), "utf-8")
        times = child("remeasure", out, Path(folder) / "engine")["times"]
    report: dict[str, Any] = {name: {"seconds": row["seconds"]} for name, row in rows.items()}
    for name, row in rows.items():
        report[name]["regret"] = {
            shape: round(times[shape][json.dumps(config)] / min(times[shape].values()), 4)
            for shape, config in row["chosen"].items()
        }
    for state in ("cold", "warm"):
        ratio = rows[f"engine {state}"]["seconds"] / rows[f"autotune {state}"]["seconds"]
        report[f"wall ratio {state}"] = round(ratio, 3)
    report["engine cold"]["accounts"] = rows["engine cold"]["seconds_by_account"]
    report["engine warm"]["accounts"] = rows["engine warm"]["seconds_by_account"]
    return report


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument("--child", choices=["autotune", "engine", "remeasure"])
    options = parser.parse_args()
    if options.child == "autotune":
        print(json.dumps(autotune()))
    elif options.child == "engine":
        print(json.dumps(engine(options.out)))
    elif options.child == "remeasure":
        chosen = json.loads((options.out / "chosen.json").read_text("utf-8"))
        print(json.dumps({"times": remeasure(chosen)}))
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(compare(options.out), indent=1)
        (options.out / "versus_autotune.json").write_text(text + "\n", "utf-8")
        print(text)


if __name__ == "__main__":
    main()
