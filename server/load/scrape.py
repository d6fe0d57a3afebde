"""The server's own numbers over a while: two scrapes of /metrics and what grew between them. Pure.

Quantiles of histograms lie between the edges of their buckets, by a straight line, as Prometheus
gives them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

PREFIX = "onbeat_"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """Values by name and labels."""

    values: dict[tuple[str, Labels], float]

    @staticmethod
    def of(text: str) -> "Scrape":
        return Scrape(
            {
                (sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))): (
                    sample.value
                )
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
        )

    def since(self, before: "Scrape") -> "Scrape":
        """What counters and histograms grew by; gauges lose their meaning."""
        return Scrape({key: v - before.values.get(key, 0.0) for key, v in self.values.items()})

    def all(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Every series of a name that has these labels."""
        for (each, given), value in self.values.items():
            found = dict(given)
            if each == name and all(found.get(k) == v for k, v in labels.items()):
                yield found, value

    def total(self, name: str, **labels: str) -> float:
        return sum(value for _, value in self.all(name, **labels))

    def mean(self, name: str, **labels: str) -> float | None:
        """Of a histogram; None without events."""
        count = self.total(f"{name}_count", **labels)
        return self.total(f"{name}_sum", **labels) / count if count else None

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Of a histogram; the last finite edge for what lies beyond it."""
        edges: dict[float, float] = {}
        for found, value in self.all(f"{name}_bucket", **labels):
            edge = float(found["le"])
            edges[edge] = edges.get(edge, 0.0) + value
        order = sorted(edges)
        if not order or not edges[order[-1]]:
            return None
        wanted, low, under = share * edges[order[-1]], 0.0, 0.0
        for edge in order:
            if edges[edge] >= wanted:
                if edge == float("inf"):
                    return low
                inside = edges[edge] - under
                return low + (edge - low) * ((wanted - under) / inside if inside else 1.0)
            low, under = edge, edges[edge]
        return low
