"""Webhooks: signed, told once they are due, again after failures, and only to whom they may go."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from onbeat.server.api.video_shape import view
from onbeat.server.api.webhooks import DELAYS, Deliverer, load_secret, signature
from onbeat.server.jobs import webhooks
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.steady import Instant
from onbeat.server.jobs.store import JobStore
from onbeat.server.webhook_settings import parse_networks
from tests.server.api.conftest import StartServer, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.test_sessions import error_of
from tests.server.api.webhook_receiver import Receiver, receiving

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
LOCAL = "127.0.0.0/8"


class Clock:
    """A wall clock that may be `step`ped, and one that goes with it but for that."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self._steps, self.boot = 0.0, "one"

    def __call__(self) -> float:
        return self.now

    def step(self, seconds: float) -> None:
        self.now += seconds
        self._steps += seconds

    def steady(self) -> Instant:
        return Instant(boot=self.boot, seconds=self.now - self._steps)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


class Bench:
    """A store with one job, and a deliverer of it under a clock of its own."""

    def __init__(self, folder: Path, url: str, networks: str = LOCAL) -> None:
        self.clock = Clock()
        self.store = JobStore(folder / "jobs.sqlite3", self.clock)
        self.outcomes: list[str] = []
        self.deliverer = Deliverer(
            self.store,
            b"k" * 32,
            lambda job: view(job, None).model_dump(),
            networks=parse_networks(networks),
            outcome=self.outcomes.append,
            clock=self.clock,
            steady_clock=self.clock.steady,
        )
        request = JobRequest(
            model="toybox",
            prompt="a ball",
            seed=1,
            steps=2,
            frames=20,
            fps=20,
            width=32,
            height=32,
            webhook_url=url,
        )
        self.job = self.store.add(request, [webhooks.beside(url)])

    def end(self) -> Job:
        job = self.store.cancel(self.job.id)
        assert job is not None
        return job

    def look(self) -> None:
        async def once() -> None:
            await self.deliverer.look()
            await self.deliverer.finish()

        asyncio.run(once())

    @property
    def told(self) -> webhooks.Webhook:
        with self.store.database.reading() as connection:
            return webhooks.of_jobs(connection, [self.job.id])[self.job.id]


@pytest.fixture
def bench(tmp_path: Path, receiver: Receiver) -> Iterator[Bench]:
    made = Bench(tmp_path, receiver.url)
    yield made
    made.store.close()


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the specification's own text, worked out with the standard library."""
    expected = hmac.new(b"k" * 32, b"evt_1.1700000000.{}", hashlib.sha256).digest()
    made = signature(b"k" * 32, "evt_1", 1_700_000_000, b"{}")
    assert made == "v1," + base64.b64encode(expected).decode()


def test_an_end_is_told_once_and_can_be_verified(bench: Bench, receiver: Receiver) -> None:
    bench.look()
    assert not receiver.got, "it has not ended"
    bench.end()
    bench.look()
    bench.look()
    assert len(receiver.got) == 1 and bench.told.state == "delivered"
    assert bench.outcomes == ["delivered"] and receiver.paths == ["/hook?a=1"]
    headers, body = receiver.got[0]
    assert len(body) < 20_000 and headers["content-type"] == "application/json"
    event = json.loads(body)
    assert event["type"] == "video.cancelled" and event["id"] == headers["webhook-id"]
    assert event["data"]["id"] == bench.job.id and event["data"]["status"] == "cancelled"
    assert event["timestamp"].endswith("Z")


def test_the_official_client_verifies_it(bench: Bench, receiver: Receiver) -> None:
    bench.end()
    bench.look()
    headers, body = receiver.got[0]
    client = OpenAI(api_key="unused", base_url="http://127.0.0.1:1/v1")
    verify: Any = client.webhooks.verify_signature
    verify(body.decode(), headers, secret=SECRET, tolerance=2**40)
    with pytest.raises(Exception, match="signature"):
        verify(body.decode() + " ", headers, secret=SECRET, tolerance=2**40)


def test_failures_are_tried_again_later_and_later(bench: Bench, receiver: Receiver) -> None:
    receiver.answers = [(500, {}), (404, {}), (302, {"location": receiver.url}), (200, {})]
    bench.end()
    for attempt, delay in enumerate(DELAYS[:3], 1):
        bench.look()
        assert (len(receiver.got), bench.told.attempts) == (attempt, attempt)
        assert 0.9 * delay <= bench.told.next_at - bench.clock.now <= 1.1 * delay
        bench.clock.now += 0.8 * delay
        bench.look()
        assert len(receiver.got) == attempt, "not yet"
        bench.clock.now += 0.4 * delay
    bench.look()
    assert bench.told.state == "delivered" and bench.outcomes == ["retry"] * 3 + ["delivered"]
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    assert len({headers["webhook-timestamp"] for headers, _ in receiver.got}) == 4


def test_it_gives_up_after_a_day_or_when_told_to(bench: Bench, receiver: Receiver) -> None:
    receiver.answers = [(503, {})]
    bench.end()
    for _ in range(len(DELAYS) + 1):
        bench.look()
        bench.clock.now += 100_000
    bench.look()
    assert len(receiver.got) == len(DELAYS) + 1 and bench.told.state == "given_up"
    assert bench.told.error == "it answered 503"


def test_gone_is_the_end(bench: Bench, receiver: Receiver) -> None:
    receiver.answers = [(410, {})]
    bench.end()
    bench.look()
    assert bench.told.state == "given_up" and len(receiver.got) == 1


def test_retry_after_is_honoured(bench: Bench, receiver: Receiver) -> None:
    receiver.answers = [(429, {"retry-after": "3000"}), (200, {})]
    bench.end()
    bench.look()
    assert bench.told.next_at == bench.clock.now + 3000


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_steps_moves_no_attempt(bench: Bench, receiver: Receiver, step: float) -> None:
    receiver.answers = [(500, {}), (200, {})]
    bench.end()
    bench.look()
    bench.clock.step(step)
    bench.clock.now += 0.8 * DELAYS[0]
    bench.look()
    assert len(receiver.got) == 1, "not yet"
    bench.clock.now += 0.4 * DELAYS[0]
    bench.look()
    assert len(receiver.got) == 2 and bench.told.state == "delivered"


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_nor_does_it_end_or_keep_a_lease(bench: Bench, receiver: Receiver, step: float) -> None:
    """A sender died; the clock steps while its lease runs."""
    bench.end()
    with bench.store.database.writing() as connection:
        now = webhooks.Now(wall=bench.clock.now, steady=bench.clock.steady())
        assert len(webhooks.claim_due(connection, now, 8)) == 1
    bench.clock.step(step)
    bench.look()
    assert not receiver.got, "somebody else is at it"
    bench.clock.now += webhooks.LEASE_SECONDS + 1
    bench.look()
    assert len(receiver.got) == 1


def test_after_a_start_of_the_machine_the_wall_clock_counts(
    bench: Bench, receiver: Receiver
) -> None:
    receiver.answers = [(500, {}), (500, {}), (200, {})]
    bench.end()
    bench.look()
    bench.clock.boot = "two"
    bench.look()
    assert len(receiver.got) == 1, "not yet"
    bench.clock.now += 1.2 * DELAYS[0]
    bench.look()
    assert len(receiver.got) == 2
    bench.clock.boot = "three"
    bench.clock.step(-3 * webhooks.LONGEST_DELAY)
    bench.look()
    assert len(receiver.got) == 3, "no attempt is that far away"


def test_a_job_that_is_deleted_after_its_end_is_still_told(
    bench: Bench, receiver: Receiver
) -> None:
    receiver.answers = [(500, {}), (500, {}), (200, {})]
    bench.end()
    bench.look()
    bench.store.delete(bench.job.id)
    for delay in DELAYS[:3]:
        bench.clock.now += 1.2 * delay
        bench.look()
    assert bench.outcomes == ["retry", "retry", "delivered"]
    bodies = [json.loads(body) for _, body in receiver.got]
    assert bodies[0] == bodies[1] == bodies[2] and bodies[2]["data"]["status"] == "cancelled"
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    with bench.store.database.reading() as connection:
        assert not webhooks.of_jobs(connection, [bench.job.id]), "nothing of it is kept"


def test_a_job_that_is_deleted_before_its_end_tells_nobody(
    bench: Bench, receiver: Receiver
) -> None:
    bench.store.delete(bench.job.id)
    bench.clock.now += 100_000
    bench.look()
    assert not receiver.got
    with bench.store.database.reading() as connection:
        assert not webhooks.of_jobs(connection, [bench.job.id])


def test_nobody_there_is_a_failure_like_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "http://127.0.0.1:9/hook")
    bench.end()
    bench.look()
    assert bench.told.state == "pending" and "Connect" in (bench.told.error or "")
    bench.store.close()


def test_a_sender_that_died_leaves_it_to_the_next(bench: Bench, receiver: Receiver) -> None:
    bench.end()
    with bench.store.database.writing() as connection:
        now = webhooks.Now(wall=bench.clock.now, steady=bench.clock.steady())
        assert len(webhooks.claim_due(connection, now, 8)) == 1
    bench.look()
    assert not receiver.got, "somebody else is at it"
    bench.clock.now += webhooks.LEASE_SECONDS + 1
    bench.look()
    assert len(receiver.got) == 1


@pytest.mark.parametrize("networks", ["", "10.0.0.0/8"])
def test_an_internal_address_gets_nothing(
    tmp_path: Path, receiver: Receiver, networks: str
) -> None:
    bench = Bench(tmp_path, receiver.url, networks)
    bench.end()
    bench.look()
    assert not receiver.got and bench.told.state == "given_up"
    assert "internal" in (bench.told.error or "")
    bench.store.close()


def test_a_redirect_inward_is_not_followed(bench: Bench, receiver: Receiver) -> None:
    with receiving() as inside:
        receiver.answers = [(307, {"location": inside.url})]
        bench.end()
        bench.look()
        assert not inside.got
    assert bench.told.state == "pending" and bench.told.error == "it answered 307"


def test_a_name_that_changes_its_mind_is_not_followed(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it is checked at creation, internal when it is told."""
    port = int(receiver.url.split(":")[2].split("/")[0])

    async def inside(_self: Any, host: str, *_: Any, **__: Any) -> list[Any]:
        assert host == "rebound.example"
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", inside)
    bench = Bench(tmp_path, f"http://rebound.example:{port}/", "")
    bench.end()
    bench.look()
    assert not receiver.got and bench.told.state == "given_up"
    bench.store.close()


# ---- the whole server ----------------------------------------------------------------------------


def test_a_job_tells_its_end(start_server: StartServer, receiver: Receiver) -> None:
    server = start_server(webhook_networks=LOCAL, webhook_secret=SECRET)
    made = server.video(webhook_url=receiver.url)
    assert made["webhook"] == {
        "url": receiver.url,
        "status": "pending",
        "attempts": 0,
        "error": None,
    }
    url = f"/v1/videos/{made['id']}"
    until(lambda: server.http.get(url).json()["webhook"]["status"] == "delivered")
    event = json.loads(receiver.got[0][1])
    assert event["type"] == "video.completed" and event["data"]["url"] == f"{url}/content"
    assert (
        b'webhook_deliveries_total{outcome="delivered"} 1.0' in server.http.get("/metrics").content
    )


def test_a_webhook_survives_its_server(
    start_server: StartServer, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answers = [(500, {})]
    first = start_server(engine=FakeEngine(), webhook_networks=LOCAL, data_dir=tmp_path / "kept")
    made = first.ended(first.video(webhook_url=receiver.url)["id"])
    url = f"/v1/videos/{made['id']}"
    until(lambda: first.http.get(url).json()["webhook"]["attempts"] == 1)
    receiver.answers = [(200, {})]
    first.http.__exit__(None, None, None)
    second = start_server(webhook_networks=LOCAL, data_dir=tmp_path / "kept")
    until(lambda: second.http.get(url).json()["webhook"]["status"] == "delivered")
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


def test_a_password_in_an_address_is_not_repeated(one_server: Any) -> None:
    for url in ("http://me:geheim@example.com/", "http://me:ge/heim@example.com/"):
        body = {"prompt": "a ball", "webhook_url": url}
        answer = one_server.http.post("/v1/videos", json=body)
        assert answer.status_code == 422 and "heim" not in answer.text, answer.text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1./x",
        "https://exa%6dple.com/",
        "http://127.0.0.1/x",
        "http://localhost:8000/v1/videos",
        "https://[::1]/",
        "http://0/",
    ]
    + ["http://169.254.169.254/latest/meta-data", "ftp://example.com/", "hook", "http://", ""]
    + [
        "http://u:p@example.com/",
        "http://example.com:0/",
        "http://exa mple.com/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_addresses_that_nothing_is_sent_to(one_server: Any, url: str) -> None:
    body = {"prompt": "a ball", "webhook_url": url}
    answer = one_server.http.post("/v1/videos", json=body)
    assert answer.status_code == 422 and error_of(answer)["param"] == "webhook_url"


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    first = load_secret(None, tmp_path)
    assert load_secret(None, tmp_path) == first and len(first) == 32
    path = tmp_path / "webhook_secret"
    assert path.stat().st_mode & 0o077 == 0 and path.read_text().startswith("whsec_")
    assert load_secret(SECRET, tmp_path) == b"k" * 32
