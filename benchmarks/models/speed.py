"""What a denoise step of the model makes of the processor: GFLOP/s, and its share of the peak.

Counted are the products of weights and the attention of one forward, at 1, 4 and 16 rows with full
windows. The peak is the same products by themselves, at the same shapes and types, in the same run;
the sizes take turns. Prints a table and, last, one JSON line. What it is not: the cost table of an
engine (server/engine/calibrate.py). Run: python benchmarks/models/speed.py [--seconds 10].
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from onbeat.models.registry import load_model
from onbeat.server.cli.flags import number
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.measure import Bench, measure
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.settings import EngineSettings

ROWS = (1, 4, 16)
LINEAR = torch.ops.aten.linear.default
ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
Shapes = tuple[tuple[int, ...], ...]
Call = tuple[Any, Shapes, torch.dtype]
"""An operation, the shapes of its tensors, and their type."""


class Calls(TorchDispatchMode):
    """Counts the linear layers and attentions that run while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[Call] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in (LINEAR, ATTENTION):
            tensors = [x for x in args if isinstance(x, torch.Tensor)]
            self.found[func, tuple(tuple(x.shape) for x in tensors), tensors[0].dtype] += 1
        return func(*args, **(kwargs or {}))


def flops(call: Call) -> int:
    """Two for each multiplication with its addition."""
    func, shapes, _ = call
    if func is LINEAR:
        x, weight = shapes[:2]
        rows = 1
        for n in x[:-1]:
            rows *= n
        return 2 * rows * weight[0] * weight[1]
    batch, heads, queries, width = shapes[0]
    return 4 * batch * heads * queries * shapes[1][2] * width


def alone(call: Call) -> Callable[[], object]:
    """The operation by itself, on numbers of its own."""
    func, shapes, dtype = call
    tensors = [torch.randn(shape).to(dtype) for shape in shapes]
    if func is LINEAR:
        return lambda: F.linear(*tensors)
    q, k, v = tensors[:3]
    mask = tensors[3] if len(tensors) > 3 else None
    return lambda: F.scaled_dot_product_attention(q, k, v, mask)


def peak(calls: Counter[Call], seconds: float) -> float:
    """Seconds that all of the calls take, each timed by itself: its low quartile."""
    total = 0.0
    each = seconds / max(1, len(calls))
    for call, count in calls.items():
        run = alone(call)
        times: list[float] = []
        end = time.perf_counter() + each
        with torch.inference_mode():
            run()
            while time.perf_counter() < end or len(times) < 5:
                started = time.perf_counter()
                run()
                times.append(time.perf_counter() - started)
        total += count * sorted(times)[len(times) // 4]
    return total


def figures(rows: Sequence[int], seconds: float, model_name: str) -> list[dict[str, float]]:
    model = load_model(model_name)
    pages = max(rows) * pages_per_stream(model.spec)
    settings = EngineSettings(max_rows=max(rows))
    bench = Bench(model, KVPool(pages), KVStore(model.spec, pages), settings)
    found: dict[int, Counter[Call]] = {}
    with ExitStack() as stack:
        run = stack.enter_context(bench.forwards())
        for n in rows:
            run(n, 0)
            with Calls() as calls:
                run(n, 0)
            found[n] = calls.found
        times = measure(rows, lambda n: run(n, 0), seconds=seconds, rounds=5)
    return [_figures(n, sorted(times[n]), found[n], seconds / len(rows)) for n in rows]


def _figures(
    rows: int, times: Sequence[float], calls: Counter[Call], seconds: float
) -> dict[str, float]:
    step, work = times[len(times) // 4], sum(flops(c) * count for c, count in calls.items())
    products = peak(calls, seconds)
    return {
        "rows": rows,
        "step_ms": round(1e3 * step, 2),
        "gflop": round(work / 1e9, 3),
        "gflop_per_s": round(work / step / 1e9, 1),
        "peak_gflop_per_s": round(work / products / 1e9, 1),
        "share_of_peak": round(products / step, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="toybox")
    parser.add_argument("--seconds", type=number, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = figures(ROWS, options.seconds, options.model)
    for f in found:
        print("  ".join(f"{name} {value}" for name, value in f.items()))
    print(json.dumps({"benchmark": "model-speed", "model": options.model, "steps": found}))


if __name__ == "__main__":
    main()
