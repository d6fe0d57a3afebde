"""A session over real WebRTC, served on a loopback port, with a synthetic engine."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import httpx2
import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.fake_engine import FakeEngine
from tests.server.served import listening

SDP = {"content-type": "application/sdp"}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    app = create_app(load_settings(data_dir=tmp_path), FakeEngine())
    with listening(app) as url:
        yield url


class Player:
    """Plays what a session sends, and steers it."""

    def __init__(self) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.frames: dict[str, int] = {"audio": 0, "video": 0}
        self.messages: list[dict[str, Any]] = []
        for kind in self.frames:
            self.pc.addTransceiver(kind, direction="recvonly")
        self.channel = self.pc.createDataChannel("control")
        self.channel.on("message", lambda text: self.messages.append(json.loads(text)))
        self.pc.on("track", lambda track: asyncio.ensure_future(self._count(track)))

    async def _count(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                await track.recv()
            except MediaStreamError:
                return
            self.frames[track.kind] += 1

    async def join(self, http: httpx2.AsyncClient, url: str) -> str:
        """Where to leave."""
        await self.pc.setLocalDescription(await self.pc.createOffer())
        answer = await http.post(url, content=self.pc.localDescription.sdp, headers=SDP)
        assert answer.status_code == 201, answer.text
        await self.pc.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        return str(answer.headers["location"])

    async def until(self, condition: Any) -> Any:
        async with asyncio.timeout(60):
            while not (value := condition()):
                await asyncio.sleep(0.02)
        return value

    def heard(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]


async def test_pictures_sound_and_steering(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        made = (await http.post("/v1/sessions", json={"prompt": "a red ball"})).json()
        player = Player()
        where = await player.join(http, made["duplex_url"])
        await player.until(lambda: min(player.frames.values()) > 10)
        player.channel.send(json.dumps({"type": "control", "prompt": "a blue ball"}))
        applied = await player.until(lambda: player.heard("applied"))
        assert applied[0]["recognised"] == ["a", "blue", "ball"]
        assert player.heard("accepted") == [
            {"type": "accepted", "id": None, "ids": [], "revision": 1}
        ]
        status = await player.until(lambda: player.heard("status"))
        assert status[0]["engine_state"] == "ready"
        async with asyncio.timeout(60):
            while True:
                live = (await http.get("/v1/overview")).json()["live"]
                if live["viewers"] == 1 and live["frames_due"] > 0:
                    break
                await asyncio.sleep(0.05)
        assert (await http.delete(where)).status_code == 200
        await player.pc.close()
        assert (await http.get(f"/v1/sessions/{made['id']}")).json()["viewers"] == 0


async def test_a_plain_player(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        player = Player()
        await player.join(http, "/whep?prompt=a+green+square")
        await player.until(lambda: player.frames["video"] > 5)
        await player.pc.close()


async def test_offers_that_no_peer_can_answer(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        made = (await http.post("/v1/sessions", json={"prompt": "a red ball"})).json()
        for offer in ("v=0\r\n", "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n", "hello"):
            answer = await http.post(made["whep_url"], content=offer, headers=SDP)
            assert answer.status_code in (400, 422), answer.text
            assert answer.json()["error"]["param"]
        assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("kind", ["webm", "mp4"])
async def test_a_recording_needs_no_viewer(address: str, kind: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        made = (await http.post("/v1/sessions", json={"prompt": "a red ball"})).json()
        answer = await http.post(made["recordings_url"], json={"format": kind})
        assert answer.status_code == 201, answer.text
        url = answer.json()["url"]
        async with asyncio.timeout(60):
            while (await http.get(url)).json()["frames"] < 30:
                await asyncio.sleep(0.05)
        told = (await http.post(f"{url}/stop")).json()
        assert (told["status"], told["format"]) == ("completed", kind)
        content = (await http.get(told["content_url"])).content
    with av.open(io.BytesIO(content), "r") as given:
        times = [float(frame.time or 0) for frame in given.decode(video=0)]
    with av.open(io.BytesIO(content), "r") as given:
        sounds = [(float(f.time or 0), np.abs(f.to_ndarray()).max()) for f in given.decode(audio=0)]
    assert len(times) == told["frames"] >= 30 and times[0] == 0.0
    assert told["seconds"] == pytest.approx(times[-1] + 1 / told["fps"], abs=0.002)
    assert sounds[0][0] < 1 / told["fps"] and max(loud for _, loud in sounds) > 0.1


async def test_who_looks_away_and_back_sees_pictures_again(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        made = (await http.post("/v1/sessions", json={"prompt": "a red ball"})).json()
        player = Player()
        await player.join(http, made["duplex_url"])
        await player.until(lambda: player.frames["video"] > 5)
        player.channel.send(json.dumps({"type": "presence", "visible": False}))
        resting = await player.until(lambda: [m for m in player.heard("status") if m["resting"]])
        assert resting[0]["status"] == "paused"
        player.channel.send(json.dumps({"type": "presence", "visible": True}))
        before = player.frames["video"]
        await player.until(lambda: player.frames["video"] > before + 10)
        await player.until(lambda: player.heard("status")[-1]["link"]["level"] == 0)
        await player.pc.close()
