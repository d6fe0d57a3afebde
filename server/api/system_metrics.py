"""The Prometheus metrics of the process: answers, warnings in the log, tasks, shares of the CPU.

A part of metrics.py. Labels are bounded: classes of HTTP statuses, levels of the log, three users
of the processor.
"""

import asyncio
import logging

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.server.api.machine import CpuShares

CLASSES = ("2xx", "3xx", "4xx", "503", "5xx")
"""503 stands apart: it is an answer that is meant, such as "full" or "not ready yet"."""
LEVELS = {logging.WARNING: "warning", logging.ERROR: "error", logging.CRITICAL: "error"}


class SystemMetrics:
    """Updating is thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "onbeat_http_responses", "Answers by class", ("status",), registry=registry
        )
        self._logged = Counter(
            "onbeat_log_records", "Warnings and errors in the log", ("level",), registry=registry
        )
        self._cpu = Gauge(
            "onbeat_cpu_ratio", "Share of all cores by user", ("user",), registry=registry
        )
        self._tasks = Gauge(
            "onbeat_event_loop_tasks", "Tasks of the front's event loop", registry=registry
        )
        ProcessCollector(namespace="onbeat", registry=registry)
        for each in CLASSES:
            self._answers.labels(each)
        for level in ("warning", "error"):
            self._logged.labels(level)
        for user in ("front", "engine", "others"):
            self._cpu.labels(user)
        self.counts = dict.fromkeys((*CLASSES, "warning", "error"), 0)

    def answered(self, status: int) -> None:
        name = "503" if status == 503 else f"{status // 100}xx"
        if name in self.counts:
            self._answers.labels(name).inc()
            self.counts[name] += 1

    def logged(self, level: str) -> None:
        self._logged.labels(level).inc()
        self.counts[level] += 1

    def sampled(self, shares: CpuShares) -> None:
        """Once a second, on the event loop."""
        self._tasks.set(len(asyncio.all_tasks()))
        for user in ("front", "engine", "others"):
            self._cpu.labels(user).set(getattr(shares, user))


class LogCounter(logging.Handler):
    """Counts what is logged at warning and above."""

    def __init__(self, metrics: SystemMetrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        self._metrics.logged(LEVELS.get(record.levelno, "warning"))


class Counted:
    """ASGI middleware: tells the metrics of every answer's status."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["app"].state.front.metrics.system.answered(message["status"])
            await send(message)

        await self.app(scope, receive, told)
