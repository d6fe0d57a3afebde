"""WebRTC without WebRTC: takes any offer that begins like one, remembers what is sent."""

import asyncio
from typing import Any

from onbeat.server.api.media import BroadcastLike, LinkState, OnMessage
from onbeat.server.engine.messages import EngineReady
from onbeat.webrtc.fragment import Fragment
from onbeat.webrtc.frames import FrameTimes
from onbeat.webrtc.ingest import InputSink
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.offer import Role
from onbeat.webrtc.settings import OfferError
from onbeat.webrtc.stats import BroadcastStats, Percentiles
from onbeat.webrtc.tap import PacketSink
from onbeat.webrtc.turn import IceServer

OFFER = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n"
ANSWER = "v=0\r\nan answer\r\n"


class FakeTap:
    """A tap whose packets a test makes."""

    def __init__(self, sink: PacketSink, video_codec: str) -> None:
        self.sink, self.video_codec = sink, video_codec
        self.keyframes_wanted = 0
        self.open = True

    def request_keyframe(self) -> None:
        self.keyframes_wanted += 1

    def close(self) -> None:
        self.open = False

    def end(self) -> None:
        if self.open:
            self.open = False
            self.sink.ended("broadcast ended")


class FakeBroadcast:
    def __init__(self) -> None:
        self.chunks: list[MediaChunk] = []
        self.taps: list[FakeTap] = []
        self.stall: dict[str, float] = {}
        self._told = 0
        self.refreshed = 0
        self.closed = False

    def push(self, chunk: MediaChunk) -> None:
        self.chunks.append(chunk)

    def stats(self) -> BroadcastStats:
        frames = sum(len(chunk.frames) for chunk in self.chunks)
        times = Percentiles(p50=1.0, p95=2.0, p99=3.0, count=frames)
        return BroadcastStats(
            frames_due=frames,
            frames_sent=frames,
            frames_on_time=frames,
            encode_ms=times,
            send_ms=times,
            fps_sent=20.0,
            first_frame_at=self.chunks[0].playout_at if self.chunks else None,
        )

    def frames(self) -> list[FrameTimes]:
        """All pictures of the chunks pushed since, each with what `stall` says beside."""
        new, self._told = self.chunks[self._told :], len(self.chunks)
        return [
            _times(chunk, number, self.stall)
            for chunk in new
            for number in range(len(chunk.frames))
        ]

    def refresh(self) -> None:
        self.refreshed += 1

    def tap(self, sink: PacketSink, *, video_codec: str | None, audio: bool = True) -> FakeTap:
        self.taps.append(FakeTap(sink, video_codec or "VP8"))
        return self.taps[-1]

    def close(self) -> None:
        self.closed = True
        for tap in self.taps:
            tap.end()


ENCODE, SEND = 0.001, 0.0005


def _times(chunk: MediaChunk, number: int, stall: dict[str, float]) -> FrameTimes:
    due = chunk.playout_at + number / chunk.fps
    encoded = due + ENCODE + stall.get("encode", 0.0)
    return FrameTimes(
        chunk=chunk.index,
        number=number,
        pts=(chunk.index * len(chunk.frames) + number) * 90_000 // chunk.fps,
        due=due,
        taken_at=due,
        encoded_at=encoded,
        sent_at=encoded + SEND + stall.get("send", 0.0),
    )


class FakePeer:
    """`silent`: seconds that it has sent nothing. Tests set what they need."""

    def __init__(self, on_message: OnMessage | None, sink: InputSink | None = None) -> None:
        self.on_message = on_message
        self.sink = sink
        self.silent = 0.0
        self.trickled: list[Fragment] = []
        self.restarts: list[Fragment] = []
        self.restartable = True
        self.sent: list[dict[str, Any]] = []
        self.quiet = 0.0
        self.state = LinkState()
        self.closed = False
        self.connected = True
        self.answer = ANSWER

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def sends(self) -> bool:
        return self.sink is not None

    def silent_seconds(self) -> float:
        return self.silent

    async def trickle(self, fragment: Fragment) -> None:
        self.trickled.append(fragment)

    async def restart(self, fragment: Fragment) -> str:
        if not self.restartable:
            raise ConnectionError("there is no session")
        self.restarts.append(fragment)
        return "a=ice-ufrag:ours\r\n"

    def quiet_seconds(self) -> float:
        return self.quiet

    def link(self) -> LinkState:
        return self.state

    def media_pts(self, rtp_timestamp: int) -> int | None:
        return rtp_timestamp

    async def close(self) -> None:
        self.closed = True


class FakeMedia:
    """`delay`: seconds that an answer takes; `held`: none is given until it is not."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay, self.held = delay, False
        self.broadcasts: list[FakeBroadcast] = []
        self.peers: list[FakePeer] = []
        self.closed = False

    def broadcast(self, ready: EngineReady) -> BroadcastLike:
        self.broadcasts.append(FakeBroadcast())
        return self.broadcasts[-1]

    def check(self, offer: str, role: Role) -> None:
        if not offer.startswith("v=0"):
            raise OfferError("sdp: the offer cannot be read", "sdp", "invalid_sdp")
        code = offer.partition("refuse:")[2].strip()
        if code:
            raise OfferError("the offer is refused", "offer", code)

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastLike,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> FakePeer:
        self.check(offer, role)
        await asyncio.sleep(self.delay)
        while self.held:
            await asyncio.sleep(0.01)
        self.peers.append(FakePeer(on_message, sink))
        return self.peers[-1]

    def ice_servers(self, user: str) -> list[IceServer]:
        return []

    async def close(self) -> None:
        self.closed = True
