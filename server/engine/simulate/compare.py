"""Every policy on the same sessions, against the bound and against each other.

A point is one case at one load under one variant (policy, admission, anytime), over several seeds.
Goodput counts chunks on time that had all their steps, as a share of what the bound allows. What it
is not: a measurement; the real engine is compared in server/engine/bench_policies.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onbeat.server.engine.settings import POLICIES
from onbeat.server.engine.simulate.bound import most_chunks, most_streams
from onbeat.server.engine.simulate.cases import MAX_ROWS, Case
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.windows import idle_windows, run_windows

RATIO_NOISE = 0.01
"""Differences of ratios below this are not told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    policy: str
    admission: bool
    anytime: bool = False

    @property
    def label(self) -> str:
        steps = " anytime" if self.anytime else ""
        return f"{self.policy}{steps}{' + admission' if self.admission else ''}"


VARIANTS = tuple(
    Variant(policy=policy, admission=admission, anytime=anytime)
    for admission in (True, False)
    for policy in POLICIES
    for anytime in ((False, True) if policy == "edf-s" else (False,))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Lists: one value per seed. `bound_streams`: whole streams that the bound allows."""

    case: str
    load: float
    variant: Variant
    bound_streams: tuple[int, ...]
    offered: int
    admitted: tuple[int, ...]
    clean: tuple[int, ...]
    on_time: tuple[float, ...]
    goodput: tuple[float, ...]
    steps: tuple[float, ...]
    rows: tuple[float, ...]
    speed: float

    @property
    def broken(self) -> int:
        """Admitted streams that were not clean, over all seeds."""
        return sum(self.admitted) - sum(self.clean)


def measure(case: Case, load: float, variant: Variant, *, seeds: int, seconds: float) -> Point:
    """Simulates one variant with seeds 0, 1, ... of arrivals and noise."""
    settings = simulated_settings(
        policy=variant.policy,
        admission=variant.admission,
        anytime=variant.anytime,
        max_rows=MAX_ROWS,
    )
    spec, device = case.spec, case.curve
    results, limits, whole = [], [], []
    for seed in range(seeds):
        sessions = case.sessions(load, seconds, seed)
        result = simulate(sessions, case.machine, settings=settings, spec=spec, seed=seed)
        results.append(result)
        limits.append(most_chunks(run_windows(result, spec, settings, device), device, MAX_ROWS))
        whole.append(most_streams(idle_windows(sessions, spec, settings, device), device, MAX_ROWS))
    return Point(
        case=case.name,
        load=load,
        variant=variant,
        bound_streams=tuple(whole),
        offered=case.offered(load),
        admitted=tuple(len(r.admitted) for r in results),
        clean=tuple(r.clean for r in results),
        on_time=tuple(r.on_time_ratio for r in results),
        goodput=tuple(r.full / limit for r, limit in zip(results, limits, strict=True)),
        steps=tuple(r.mean_steps for r in results),
        rows=tuple(sum(r.batches) / max(1, len(r.batches)) for r in results),
        speed=mean(r.speed for r in results),
    )


def behind(points: Sequence[Point]) -> list[dict[str, object]]:
    """Where a baseline is ahead of edf-s with all steps by more than noise.

    Goodput: of the same case, load and admission. Clean streams: of the same case and load, against
    edf-s with its admission, by more than one stream and more than one in twenty.
    """
    ours = {
        (p.case, p.load, p.variant.admission): p
        for p in points
        if p.variant.policy == "edf-s" and not p.variant.anytime
    }
    found: list[dict[str, object]] = []
    for p in (p for p in points if p.variant.policy != "edf-s"):
        same = ours.get((p.case, p.load, p.variant.admission))
        if same and mean(p.goodput) > mean(same.goodput) + RATIO_NOISE:
            found.append(_behind(p, "goodput", mean(same.goodput), mean(p.goodput)))
        full = ours.get((p.case, p.load, True))
        if full and mean(p.clean) > mean(full.clean) + max(1.0, 0.05 * mean(full.clean)):
            found.append(_behind(p, "clean", mean(full.clean), mean(p.clean)))
    return found


def _behind(p: Point, by: str, ours: float, other: float) -> dict[str, object]:
    return {
        "case": p.case,
        "load": p.load,
        "policy": p.variant.label,
        "by": by,
        "edf-s": round(ours, 4),
        "other": round(other, 4),
    }


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
