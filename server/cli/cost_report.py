"""The cost tables of a calibration for people and for programs: rows, times, gain, knee, origin."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onbeat.server.engine.calibration import Calibration, CostTable

TITLES = {
    "step": "steps and commits",
    "decode": "decoding",
    "prefill": "keys and values of a prompt",
    "encode": "reading a prompt",
    "reference": "a chunk of reference media to latents",
}


def cost_report(calibration: "Calibration", path: Path) -> dict[str, Any]:
    """Plain values. `path`: where the calibration is kept."""
    return {
        "source": calibration.source,
        "measured_at": round(calibration.measured_at, 3),
        "took_s": round(calibration.took, 2),
        "path": str(path),
        "tables": [_table(table) for table in calibration.tables],
    }


def origin(report: dict[str, Any]) -> str:
    """Where the tables come from, as a sentence."""
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(report["measured_at"]))
    if report["source"] == "cached":
        slowed = max(table["slowed"] for table in report["tables"])
        busy = f", times {slowed:.2f} as the machine is busy" if slowed > 1.0 else ""
        return f"measured {at}, checked now{busy}; kept in {report['path']}"
    return f"measured now in {report['took_s']} s; kept in {report['path']}"


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The tables as text."""
    for table in report["tables"]:
        seen = f", {table['window']} chunks of history" if table["window"] else ""
        yield f"{TITLES[table['kind']]} ({table['kind']}), {table['tokens']} tokens a row{seen}"
        yield f"{'rows':>6} {'ms p50':>8} {'ms p99':>8} {'rows/s':>8} {'gain':>6}"
        for row in table["rows"]:
            yield (
                f"{row['rows']:6} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} "
                f"{row['rows_per_s']:8.1f} {row['gain']:6.2f}"
            )
        if len(table["rows"]) > 1:
            yield f"batching stops paying at {table['knee_rows']} rows"


def _table(table: "CostTable") -> dict[str, Any]:
    from onbeat.server.engine.calibration import knee

    one = table.p50_ms[min(table.p50_ms)] / min(table.p50_ms)
    rows = [
        {
            "rows": rows,
            "p50_ms": round(ms, 3),
            "p99_ms": round(table.p99_ms[rows], 3),
            "rows_per_s": round(1e3 * rows / ms, 1),
            "gain": round(one * rows / ms, 3),
        }
        for rows, ms in sorted(table.p50_ms.items())
    ]
    return {
        "kind": table.kind,
        "tokens": table.tokens,
        "window": table.window,
        "slowed": round(table.slowed, 3),
        "knee_rows": knee(table.p50_ms),
        "rows": rows,
    }
