"""Generated requests from the OpenAPI document, by Schemathesis, against a running server.

Each operation gets its share of the cases; ids are real ones half of the time. What has to hold:
no 5xx beside those that say when to come back, every answer of a documented kind, and in time.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import hypothesis.strategies as st
import requests
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

ENDLESS = {"overview_events"}
"""Streams without an end; the others end, as ids in them are mostly unknown."""
TIMEOUT_SECONDS = 60.0
for kind in ("application/sdp", "application/trickle-ice-sdpfrag"):
    schemathesis.serializer.alias(kind, "text/plain")
load_all_checks()
CHECKED = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
"""Others know habits that are not ours: the served model's limits are not in the document."""
ALLOWED_5XX = {503: "retry-after", 507: ""}
"""Full, or starting: they name a header that says when to come back."""


@dataclass
class Report:
    """What was sent and what came back."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def fuzz(url: str, *, cases: int, seed: int, only: str = "") -> Report:
    """Sends about `cases` requests to operations whose path begins with `only`.

    Every failure is in the report, with the request as curl.
    """
    document = requests.get(f"{url}/openapi.json", timeout=TIMEOUT_SECONDS).json()
    schema = schemathesis.openapi.from_dict(document)
    found: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    operations = [
        o
        for o in found
        if o.definition.raw["operationId"] not in ENDLESS and o.path.startswith(only)
    ]
    report = Report()
    ids = _Ids(url)
    for operation in operations:
        _each(operation, url, max(1, -(-cases // len(operations))), seed, ids, report)
    return report


def _each(operation: Any, url: str, cases: int, seed: int, ids: "_Ids", report: Report) -> None:
    strategy = st.tuples(
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
        | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
        st.booleans(),
    )

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def send(drawn: tuple[Any, bool]) -> None:
        case, real = drawn
        if real:
            ids.fill(case)
        _send(case, url, report)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send()


def _send(case: Any, url: str, report: Report) -> None:
    name = case.operation.definition.raw["operationId"]
    report.cases += 1
    report.operations[name] += 1
    try:
        response = case.call(base_url=url, timeout=TIMEOUT_SECONDS)
    except requests.exceptions.RequestException as error:
        report.failures.append(f"{name}: {type(error).__name__}: {error}"[:500])
        return
    report.statuses[response.status_code] += 1
    report.slowest_s = max(report.slowest_s, response.elapsed)
    allowed = ALLOWED_5XX.get(response.status_code)
    if allowed is not None and (not allowed or allowed in response.headers):
        return
    try:
        case.validate_response(response, checks=CHECKED)
    except FailureGroup as error:
        report.failures.append(f"{name}: {[str(each) for each in error.exceptions]}"[:2000])


class _Ids:
    """Real ids for paths, as the server lists them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = 0
        self._found: dict[str, str] = {}

    def fill(self, case: Any) -> None:
        if self._count % 20 == 0:
            self._look()
        self._count += 1
        for name, value in self._found.items():
            if name in (case.path_parameters or {}):
                case.path_parameters[name] = value

    def _look(self) -> None:
        for name, path in (("video_id", "videos"), ("session_id", "sessions")):
            data = requests.get(f"{self._url}/v1/{path}", timeout=TIMEOUT_SECONDS).json()["data"]
            if data:
                self._found[name] = data[0]["id"]
