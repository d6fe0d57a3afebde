"""Whether lanes pay on a CPU: planning beside a forward, and a batch cut in two halves.

"ahead": a forward on the tick's thread and then a plan, against the forward in a lane of its own
and the plan beside it, at the length of a real plan and at a much longer one. "halves": one batch
with two torch threads, against its halves on two threads with one each (needs two free cores). By
turns, in one run; ratios are of low quartiles.
Run: python benchmarks/engine/lanes.py [--rows 1,4,16] [--turns 40] --json. One JSON line last.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.samplers.consistency import init_chunk
from onbeat.server.cli.flags import one_of, several, whole
from onbeat.server.engine.executor import SWITCH_SECONDS, TorchExecutor
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.lanes import Lane, ThreadLane
from onbeat.server.engine.measure import noise_stream
from onbeat.server.engine.pool import KVPool

PLANS = (0.0003, 0.001)
"""Seconds of a plan for 16 streams here, and of one much longer."""


class Rows:
    """Streams of noise with full windows, at the start of a chunk of two steps."""

    def __init__(self, model: CausalModel, count: int) -> None:
        spec = model.spec
        each = spec.window_chunks + 1
        pool, self._store = KVPool(count * each), KVStore(spec, count * each)
        self._store.k.normal_()
        self._store.v.normal_()
        self._model = model
        self.streams = [noise_stream(model, pool, pool.take(each), i) for i in range(count)]
        self._noise = [init_chunk(spec.modalities, i, 0, 0, 2) for i in range(count)]

    def executor(
        self, lane: Lane | None = None, *, threads: int = 1, split_rows: int = 0
    ) -> TorchExecutor:
        return TorchExecutor(self._model, self._store, threads, lane, split_rows)

    def renew(self) -> None:
        for stream, state in zip(self.streams, self._noise, strict=True):
            stream.state = state


def busy(seconds: float) -> None:
    """Python work, as planning is."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def ahead(rows: Rows, count: int, turns: int) -> list[dict[str, float]]:
    inline, beside = rows.executor(), rows.executor(ThreadLane(1))
    chosen, results = rows.streams[:count], []
    for plan in PLANS:

        def after(plan: float = plan) -> None:
            inline.run(chosen, [])
            busy(plan)

        def meanwhile(plan: float = plan) -> None:
            wait = beside.launch(chosen, [])
            busy(plan)
            wait()

        after_ms, meanwhile_ms = by_turns(rows, (after, meanwhile), turns)
        results.append(
            {
                "rows": count,
                "plan_ms": 1e3 * plan,
                "after_ms": after_ms,
                "meanwhile_ms": meanwhile_ms,
                "ratio": round(meanwhile_ms / after_ms, 3),
            }
        )
    beside.close()
    return results


def halves(rows: Rows, count: int, turns: int) -> dict[str, float]:
    """The executor with two threads, with and without halves, and with one."""
    two, one = ThreadLane(2), ThreadLane(1)
    chosen = rows.streams[:count]
    calls = [
        partial(executor.run, chosen, [])
        for executor in (
            rows.executor(two, threads=2),
            rows.executor(two, threads=2, split_rows=2),
            rows.executor(one),
        )
    ]
    whole_ms, split_ms, alone_ms = by_turns(rows, calls, turns)
    two.close()
    one.close()
    return {
        "rows": count,
        "whole_ms": whole_ms,
        "halves_ms": split_ms,
        "one_thread_ms": alone_ms,
        "ratio": round(split_ms / whole_ms, 3),
    }


def by_turns(rows: Rows, calls: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Low quartiles in milliseconds."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(turns + 3):
        for call, seen in zip(calls, times, strict=True):
            rows.renew()
            started = time.perf_counter()
            call()
            if turn >= 3:
                seen.append(time.perf_counter() - started)
    return [round(1e3 * sorted(seen)[len(seen) // 4], 3) for seen in times]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=several(whole()), default="1,4,16")
    parser.add_argument("--turns", type=whole(4), default=40)
    parser.add_argument(
        "--parts", type=several(one_of(("ahead", "halves"))), default="ahead,halves"
    )
    parser.add_argument("--json", action="store_true", help="nothing but the JSON line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.setswitchinterval(SWITCH_SECONDS)
    counts = options.rows
    rows, result = Rows(load_model("toybox"), max(counts)), dict[str, Any]()
    if "ahead" in options.parts:
        result["ahead"] = [point for n in counts for point in ahead(rows, n, options.turns)]
    if "halves" in options.parts:
        result["halves"] = [halves(rows, n, options.turns) for n in counts if n > 1]
    if not options.json:
        print(json.dumps(result, indent=1))
    device = platform.processor() or platform.machine()
    print(json.dumps({"benchmark": "engine/lanes", "device": device, **result}))


if __name__ == "__main__":
    main()
