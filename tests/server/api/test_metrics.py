"""The Prometheus page over a scripted run: counts equal events, labels stay few."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from onbeat.server.api.frames import ALL_STAGES, ENGINE_STAGES, FRONT_STAGES, VIEWER_STAGES
from onbeat.server.api.metrics import Metrics
from onbeat.server.engine.messages import ChunkReady, EngineStats
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import CHUNK_FRAMES, FPS, FakeEngine
from tests.server.api.fake_media import OFFER, FakePeer
from tests.server.api.test_tails import record

SDP = {"content-type": "application/sdp"}
MOST_SERIES = 1200


def samples(text: str) -> dict[str, float]:
    """By name and label values."""
    return {
        sample.name + "".join(f"{{{v}}}" for v in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(server: Server) -> dict[str, float]:
    return samples(server.http.get("/metrics").text)


def tell(server: Server, peer: FakePeer, message: dict[str, Any]) -> None:
    """As if it came over the data channel."""

    async def say() -> None:
        assert peer.on_message is not None
        peer.on_message(message)

    asyncio.run_coroutine_threadsafe(say(), server.front._loop).result(30)


class Counted:
    """Everything that the sessions were told of, and what was sampled of their senders."""

    def __init__(self, server: Server) -> None:
        self.chunks: list[ChunkReady] = []
        self.frames = self.seen = self.intervals = 0
        sampled = server.front.telemetry.sample
        server.front.sessions.watchers.append(self._watch)

        def sample(now: float) -> Any:
            found = sampled(now)
            for _, sent in found:
                self.frames += len(sent.frames)
                self.seen += len(sent.seen)
                self.intervals += sum(r.interval is not None for r in sent.frames)
            return found

        server.front.telemetry.sample = sample  # type: ignore[method-assign]

    def _watch(self, what: str, _: object, detail: Any) -> None:
        if what == "chunk":
            self.chunks.append(detail)
        elif what == "viewed":
            self.seen += len(detail)


JOBS_DONE = "onbeat_job_duration_seconds_count{completed}"


def test_every_histogram_counts_the_events_of_a_scripted_run(server: Server) -> None:
    counted = Counted(server)
    made = [server.session() for _ in range(2)]
    for each in made:
        server.http.post(each["duplex_url"], content=OFFER, headers=SDP)
    server.http.patch(f"/v1/sessions/{made[0]['id']}", json={"seed": 4})
    jobs = [server.ended(server.video()["id"]) for _ in range(3)]
    until(lambda: counted.frames > 3 * CHUNK_FRAMES)
    until(lambda: scraped(server)[JOBS_DONE] == len(jobs))  # counted after their state is told
    server.engine.silent.set()
    with server.engine._lock:  # no chunk is under way
        given = sum(stream.chunk for stream in server.engine.streams.values())
    until(lambda: len(counted.chunks) == given)
    for peer in server.media.peers:
        frames = [[4500 * n, 20.0, 5.0] for n in range(2 * CHUNK_FRAMES)]
        tell(server, peer, {"type": "stats", "rtt_ms": 8, "frames": frames})
    until(lambda: counted.frames == CHUNK_FRAMES * len(counted.chunks))
    until(lambda: counted.seen == 2 * 2 * CHUNK_FRAMES)
    found = scraped(server)

    def count(name: str) -> float:
        metric, brace, labels = name.partition("{")
        return found[f"onbeat_{metric}_count{brace}{labels}"]

    assert counted.seen == 2 * 2 * CHUNK_FRAMES
    for stage in ENGINE_STAGES:
        assert count(f"chunk_duration_seconds{{{stage}}}") == len(counted.chunks)
    for stage in FRONT_STAGES:
        assert count(f"frame_duration_seconds{{{stage}}}") == counted.frames
    for stage in VIEWER_STAGES:
        assert count(f"frame_duration_seconds{{{stage}}}") == counted.seen
    assert count("frame_latency_seconds{sent}") == counted.frames
    assert count("frame_latency_seconds{shown}") == counted.seen
    assert count("frame_lateness_seconds") == counted.frames
    assert count("frame_interval_seconds") == counted.intervals
    assert count("chunk_slack_seconds") == len(counted.chunks)
    assert count("time_to_first_frame_seconds") == len(made)
    assert count("admission_wait_seconds") == len(made)
    assert count("control_to_photon_seconds") == 1
    assert count("queue_wait_seconds") == len(jobs)
    assert count("job_duration_seconds{completed}") == len(jobs)
    assert count("round_trip_seconds") == found["onbeat_viewer_reports_total"] == len(made)
    assert found["onbeat_chunks_total{on_time}"] == len(counted.chunks)
    assert found["onbeat_frames_generated_total"] == CHUNK_FRAMES * len(counted.chunks)
    steps, decodes = count("denoise_step_seconds"), count("decode_seconds")
    assert steps == 2 * decodes == count("batch_rows") == count("batch_efficiency_ratio")
    assert found["onbeat_http_responses_total{2xx}"] > len(made)


def test_sums_are_those_of_the_records() -> None:
    metrics = Metrics()
    metrics.frames.sent([record(encode=0.1, send=0.02)] * 10)
    metrics.frames.seen([record(seen=True, buffer=0.05)] * 4)
    found = samples(_text(metrics))
    assert found["onbeat_frame_duration_seconds_sum{encode}"] == pytest.approx(1.0)
    assert found["onbeat_frame_duration_seconds_sum{send}"] == pytest.approx(0.2)
    assert found["onbeat_frame_duration_seconds_sum{buffer}"] == pytest.approx(0.2)
    whole = sum(found[f"onbeat_frame_duration_seconds_sum{{{s}}}"] for s in FRONT_STAGES)
    sent = found["onbeat_frame_latency_seconds_sum{sent}"]
    assert sent == pytest.approx(whole + 10 * 0.001 * len(ENGINE_STAGES))


def _text(metrics: Metrics) -> str:
    from prometheus_client.exposition import generate_latest

    return generate_latest(metrics.registry).decode()


def test_reports_of_browsers_count_by_what_they_grew() -> None:
    metrics = Metrics()
    first = {"freeze_count": 2.0, "freezes_ms": 500.0, "frames_dropped": 7.0, "av_skew_ms": -30.0}
    metrics.frames.reported(first, {})
    metrics.frames.reported(first | {"freeze_count": 3.0}, first)
    metrics.frames.reported({"freeze_count": 1.0}, first)  # a page that was loaded anew
    found = samples(_text(metrics))
    assert found["onbeat_viewer_freezes_total"] == 3
    assert found["onbeat_viewer_freeze_seconds_total"] == pytest.approx(0.5)
    assert found["onbeat_viewer_frames_dropped_total"] == 7
    assert found["onbeat_av_skew_seconds_count"] == 2
    assert found["onbeat_av_skew_seconds_sum"] == pytest.approx(0.06)


def test_series_stay_few_however_many_sessions(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(capacity=64), max_sessions=64, max_active_sessions=64)
    for n in range(3):
        server.session(prompt=f"a ball {n}")
    until(lambda: scraped(server)["onbeat_kv_pages"])
    few = scraped(server)
    for n in range(40):
        server.session(prompt=f"a square {n}")
    until(lambda: server.front.telemetry.latency.view(time.monotonic(), late=False)["frames"])
    many = scraped(server)
    new = {name for name in set(many) - set(few) if not name.startswith("onbeat_chunk_steps")}
    assert not new, "all labels are there from the start"
    assert len(many) < MOST_SERIES
    for session in server.front.sessions.all():
        assert not any(session.id in name for name in many)


def test_streams_are_counted_by_their_place_on_the_ladder(server: Server) -> None:
    server.session()
    until(lambda: scraped(server).get("onbeat_streams_by_level{1}") == 1)
    assert scraped(server)["onbeat_streams_by_level{0}"] == 0


def test_misses_past_what_a_stream_may_have_are_counted_once(server: Server) -> None:
    server.session()
    stats = until(lambda: server.front.hub.stats)
    assert isinstance(stats, EngineStats)
    metrics = Metrics()
    for broken in (0, 2, 2, 3):
        streams = [
            msgspec.structs.replace(s, firm_broken=broken, stream_id="a") for s in stats.streams[:1]
        ]
        metrics.engine_stats(msgspec.structs.replace(stats, streams=streams), None)
    assert samples(_text(metrics))["onbeat_firm_misses_total"] in (0, 3)


@pytest.mark.parametrize("stage", ["queue", "denoise", "decode", "encode", "send", "network"])
def test_a_stall_is_shown_as_its_stages(server: Server, stage: str) -> None:
    """Through the whole front: engine, sender or viewer is slow, and the overview names it."""
    made = server.session()
    server.http.post(made["duplex_url"], content=OFFER, headers=SDP)
    until(lambda: server.http.get("/v1/overview").json()["latency"]["frames"])
    server.engine.stall = {stage: 0.5}
    server.media.broadcasts[0].stall = {stage: 0.5}
    peer = server.media.peers[0]

    def named() -> bool:
        if stage == "network":
            newest = server.media.broadcasts[0].chunks[-1].index * CHUNK_FRAMES
            frames = [[90_000 // FPS * n, 5, 5] for n in range(max(0, newest - 20), newest)]
            message = {"type": "stats", "rtt_ms": 1000, "frames": frames}
            tell(server, peer, message)
            time.sleep(0.05)
        return bool(server.http.get("/v1/overview").json()["latency"]["slowest"] == stage)

    until(named)
    assert stage in ALL_STAGES


def test_an_answer_that_is_meant_is_no_error(start_server: StartServer) -> None:
    server = start_server(max_sessions=1)
    server.session()
    assert server.http.post("/v1/sessions", json={"prompt": "a ball"}).status_code == 503
    found = scraped(server)
    assert found["onbeat_http_responses_total{503}"] >= 1
    assert found["onbeat_http_responses_total{5xx}"] == 0
    until(lambda: server.http.get("/v1/overview").json()["errors"]["answers_5xx"] == 0)
