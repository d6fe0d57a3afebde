"""Tells addresses of the end of jobs: signed, again after failures, never twice at the same time.

Standard Webhooks 1.0 (signature, ids, success and failure). The address is checked at each attempt
(targets.py). What it is not: who is to be told (jobs/webhooks.py).
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import random
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onbeat.server.api.post import Answer, PostFailed, post
from onbeat.server.api.targets import BadTarget, Unresolved, addresses, parse_target
from onbeat.server.jobs import steady, webhooks
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.steady import Instant
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.webhooks import LONGEST_DELAY, Now, Webhook
from onbeat.server.webhook_settings import PREFIX, Network, secret_bytes

log = logging.getLogger("onbeat.jobs")

SECRET_FILE = "webhook_secret"
DELAYS = (5.0, 30.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0)
"""Seconds before each further attempt; about 33 hours in all."""
JITTER = 0.1
AT_ONCE = 8
LOOK_SECONDS = 1.0

View = Callable[[Job], dict[str, Any]]
Outcome = Callable[[str], None]


def load_secret(given: str | None, folder: Path) -> bytes:
    """The key of the signatures: the setting's, or the data folder's, which is made once.

    Raises ValueError; OSError if the folder's cannot be read or written.
    """
    if given is not None:
        return secret_bytes(given)
    path = folder / SECRET_FILE
    if not path.exists():
        text = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        part = path.with_suffix(f".{os.getpid()}.part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
        part.replace(path)
    return secret_bytes(path.read_text().strip())


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature` (Standard Webhooks, "Signature scheme")."""
    text = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()


def message(webhook: Webhook, job: Job, shown: dict[str, Any]) -> bytes:
    """The body: `type`, `timestamp` and `data`, and what OpenAI's events have."""
    ended = job.completed_at or job.created_at
    event = {
        "id": webhook.event_id,
        "object": "event",
        "type": f"video.{job.state}",
        "created_at": int(ended),
        "timestamp": datetime.fromtimestamp(ended, UTC).isoformat().replace("+00:00", "Z"),
        "data": shown,
    }
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


class Deliverer:
    """Looks for ends that are to be told, and tells them. `start` and `close` on the event loop.

    view: a job as the API shows it. outcome: told of each attempt, for metrics.
    """

    def __init__(
        self,
        store: JobStore,
        key: bytes,
        view: View,
        *,
        networks: tuple[Network, ...] = (),
        outcome: Outcome = lambda _: None,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], Instant] = steady.now,
        delays: tuple[float, ...] = DELAYS,
    ) -> None:
        self._store, self._key, self._view = store, key, view
        self._networks, self._outcome = networks, outcome
        self._clock, self._steady = clock, steady_clock
        self._delays = delays
        self._sending: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="webhooks")

    async def close(self) -> None:
        """Ends; what is being sent is sent again by the next server."""
        tasks = [*self._sending, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # a locked or full disk must not end all later webhooks
                log.exception("webhooks could not be looked for")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Begins to tell what is due."""
        free = AT_ONCE - len(self._sending)
        for webhook in await asyncio.to_thread(self._claim, free) if free else []:
            task = asyncio.create_task(self._tell(webhook), name=f"webhook-{webhook.job_id}")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def finish(self) -> None:
        """Waits for what is being sent."""
        await asyncio.gather(*self._sending)

    def _now(self) -> Now:
        return Now(wall=self._clock(), steady=self._steady())

    def _claim(self, limit: int) -> list[Webhook]:
        with self._store.database.reading() as connection:
            if not webhooks.any_due(connection, self._now()):
                return []
        with self._store.database.writing() as connection:
            return webhooks.claim_due(connection, self._now(), limit)

    async def _tell(self, webhook: Webhook) -> None:
        try:
            job = webhook.deleted or await asyncio.to_thread(self._store.get, webhook.job_id)
            if job is not None:
                await self._settle(webhook, await self._send(webhook, job))
        except Exception:  # its lease runs out, and it is tried again
            log.exception("webhook of %s: its attempt could not be written down", webhook.job_id)

    async def _send(self, webhook: Webhook, job: Job) -> Answer | str | BadTarget:
        """The answer, or why there is none."""
        body = message(webhook, job, self._view(job))
        now = int(self._clock())
        headers = {
            "content-type": "application/json",
            "user-agent": "onbeat",
            "webhook-id": webhook.event_id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._key, webhook.event_id, now, body),
        }
        try:
            target = parse_target(webhook.url)
            found = await addresses(target, self._networks)
            return await post(target, found, body, headers)
        except BadTarget as error:
            return error
        except (Unresolved, PostFailed) as error:
            return str(error)

    async def _settle(self, webhook: Webhook, answer: Answer | str | BadTarget) -> None:
        """2xx is success, 410 and an internal address are the end, all else is tried again."""
        delay, error = self._delay(webhook, answer), _error(answer)
        over = isinstance(answer, BadTarget) or (
            isinstance(answer, Answer) and answer.status == 410
        )
        if error is None:
            await self._write(webhook, "delivered")
        elif over or delay is None:
            await self._write(webhook, "given_up", error=error)
        else:
            await self._write(webhook, "pending", error=error, due=self._now().later(delay))

    async def _write(self, webhook: Webhook, state: webhooks.WebhookState, **values: Any) -> None:
        def write() -> None:
            with self._store.database.writing() as connection:
                webhooks.settle(connection, webhook, state, **values)

        await asyncio.to_thread(write)
        self._outcome("retry" if state == "pending" else state)
        level = logging.INFO if state == "delivered" else logging.WARNING
        error = values.get("error")
        said = f"{state}: {error}" if error else state
        log.log(level, "webhook of %s is %s", webhook.job_id, said)

    def _delay(self, webhook: Webhook, answer: Answer | str | BadTarget) -> float | None:
        """Seconds until the next attempt, longer by Retry-After; None if this was the last."""
        if webhook.attempts >= len(self._delays):
            return None
        asked = answer.headers.get("retry-after", "") if isinstance(answer, Answer) else ""
        wished = float(asked) if asked.isdecimal() and len(asked) < 9 else 0.0
        own = self._delays[webhook.attempts] * random.uniform(1 - JITTER, 1 + JITTER)
        return min(max(own, wished), LONGEST_DELAY)


def _error(answer: Answer | str | BadTarget) -> str | None:
    if not isinstance(answer, Answer):
        return str(answer)
    return None if 200 <= answer.status < 300 else f"it answered {answer.status}"
