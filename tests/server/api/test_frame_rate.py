"""The rate at which a session sends its pictures: which are allowed, from which chunk one holds."""

from typing import Any

import numpy as np
import pytest

from onbeat.server.api.frame_rate import FrameRate, rates_of
from onbeat.server.engine.client import ChunkPayload
from tests.server.api.conftest import Server, until
from tests.server.api.test_whep import Channel


class Made:
    """The fields of a chunk that count here."""

    def __init__(self, chunk: int, revision: int) -> None:
        self.chunk, self.revision, self.playout_at = chunk, revision, 100.0 + 0.2 * chunk


class Model:
    def __init__(self, fps: int = 20, chunk_frames: int = 4) -> None:
        self.fps, self.chunk_frames, self.sample_rate = fps, chunk_frames, 24_000


def test_rates_are_shares_that_leave_whole_chunks_evenly() -> None:
    cases = {(20, 4): [20, 10, 5], (16, 12): [16, 8, 4], (16, 3): [16], (24, 1): [24]}
    for (fps, frames), expected in cases.items():
        model: Any = Model(fps, frames)
        assert rates_of(model) == expected


def test_a_rate_holds_from_the_chunk_of_its_revision_on() -> None:
    model: Any = Model()
    rate = FrameRate(model)
    pictures = np.arange(4, dtype=np.uint8)[:, None, None] * np.ones((1, 3, 2), np.uint8)
    payload: Any = ChunkPayload(frames=pictures, audio=np.ones(4_800, np.int16), latents=b"")

    def sent(index: int, revision: int) -> tuple[int, list[int]]:
        made: Any = Made(index, revision)
        chunk = rate.chunk(made, payload, audio=True)
        assert chunk.audio.size == 4_800 and len(chunk.frames) / chunk.fps == pytest.approx(0.2)
        return chunk.fps, chunk.frames[:, 0, 0].tolist()

    assert sent(0, 0) == (20, [0, 1, 2, 3])
    rate.ask(10, 1)
    rate.ask(None, 2)
    rate.ask(5, 3)
    assert rate.asked == 5
    assert sent(1, 0) == (20, [0, 1, 2, 3]), "the wish is on its way"
    assert sent(2, 2) == (10, [0, 2])
    assert sent(3, 3) == (5, [0])
    assert sent(4, 9) == (5, [0])


def test_a_session_is_opened_steered_and_forked_at_a_rate(server: Server) -> None:
    channel = Channel(server, fps=10)
    made = channel.made
    assert made["fps"] == 10
    (broadcast,) = server.media.broadcasts
    until(lambda: broadcast.chunks)
    assert {chunk.fps for chunk in broadcast.chunks} == {10}
    channel.say({"type": "control", "id": 1, "fps": 20})
    until(lambda: any(m["type"] == "applied" for m in channel.peer.sent))
    applied = next(m for m in channel.peer.sent if m["type"] == "applied")
    until(lambda: broadcast.chunks[-1].index > applied["chunk"])
    for chunk in broadcast.chunks:
        assert chunk.fps == (20 if chunk.index >= applied["chunk"] else 10), chunk.index
    url = f"/v1/sessions/{made['id']}"
    assert server.http.patch(url, json={"fps": 5}).json()["fps"] == 5
    assert server.http.post(f"{url}/fork", json={}).json()["fps"] == 5


def test_other_rates_are_refused_with_those_that_are_allowed(server: Server) -> None:
    (model,) = server.http.get("/v1/models").json()["data"]
    assert model["frame_rates"][0] == model["fps"] and "fps" in model["controls"]
    made = server.session()
    for answer in (
        server.http.post("/v1/sessions", json={"prompt": "a", "fps": 7}),
        server.http.patch(f"/v1/sessions/{made['id']}", json={"fps": 7}),
    ):
        error = answer.json()["error"]
        assert answer.status_code == 422 and error["param"] == "fps"
        assert all(str(rate) in error["message"] for rate in model["frame_rates"])
