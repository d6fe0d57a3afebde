"""The seam to WebRTC: what the sessions need of a broadcast and of a peer, and the real thing.

Tests put a stand-in here. What it is not: any of the transport, which is `onbeat.webrtc`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from onbeat.server.engine.messages import EngineReady
from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.fragment import Fragment
from onbeat.webrtc.ingest import InputSink
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.offer import Role
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings
from onbeat.webrtc.stats import BroadcastStats
from onbeat.webrtc.tap import PacketSink
from onbeat.webrtc.turn import IceServer, TurnSettings, ice_servers

OnMessage = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """As the transport sees it: share of packets lost, and whether no lesser rendition is left."""

    loss: float = 0.0
    last_rendition: bool = True


class TapLike(Protocol):
    @property
    def video_codec(self) -> str | None: ...

    def request_keyframe(self) -> None: ...

    def close(self) -> None: ...


class BroadcastLike(Protocol):
    """One session's pictures and sound on their way to all its viewers."""

    def push(self, chunk: MediaChunk) -> None: ...

    def stats(self) -> BroadcastStats: ...

    def refresh(self) -> None:
        """The next picture is a key frame for everybody."""

    def tap(self, sink: PacketSink, *, video_codec: str | None, audio: bool = True) -> TapLike:
        """Encoded packets to `sink` until the tap is closed."""
        ...

    def close(self) -> None: ...


class PeerLike(Protocol):
    """The connection of a viewer, of a publisher, or of one that is both."""

    @property
    def answer(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def send(self, message: dict[str, Any]) -> None:
        """Lost if the viewer has no data channel, or does not read."""

    def sends(self) -> bool:
        """Whether it sends media that are taken."""
        ...

    def silent_seconds(self) -> float:
        """How long it has sent no media; since it was made, if it never has."""
        ...

    async def trickle(self, fragment: Fragment) -> None:
        """Tries candidates that came after the offer."""

    async def restart(self, fragment: Fragment) -> str:
        """Begins a new ICE session; the fragment that answers. Raises ConnectionError."""
        ...

    def quiet_seconds(self) -> float:
        """Since anything was heard of it."""
        ...

    def link(self) -> LinkState: ...

    async def close(self) -> None: ...


class Media(Protocol):
    """Makes broadcasts, answers offers."""

    def broadcast(self, ready: EngineReady) -> BroadcastLike: ...

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastLike,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> PeerLike:
        """A peer that views `broadcast`, publishes to `sink`, or both.

        Raises `onbeat.webrtc.settings.OfferError` for an offer that is not taken.
        """
        ...

    def ice_servers(self, user: str) -> list[IceServer]:
        """What a client may use to get through; `user` shows in the relay's log."""
        ...

    async def close(self) -> None: ...


class WebRtcMedia:
    """Media over aiortc, with one pool of encoder threads."""

    def __init__(
        self,
        settings: PeerSettings,
        encoders: EncoderPool,
        *,
        max_renditions: int = 3,
        turn: TurnSettings | None = None,
    ) -> None:
        self._settings, self._encoders = settings, encoders
        self._max_renditions, self._turn = max_renditions, turn

    def broadcast(self, ready: EngineReady) -> BroadcastLike:
        return Broadcast(
            width=ready.width,
            height=ready.height,
            fps=ready.fps,
            sample_rate=ready.sample_rate,
            encoders=self._encoders,
            max_renditions=self._max_renditions,
        )

    def ice_servers(self, user: str) -> list[IceServer]:
        return ice_servers(self._turn, user, time.time())

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastLike,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> PeerLike:
        assert isinstance(broadcast, Broadcast)

        def forward(_peer: Peer, message: dict[str, Any]) -> None:
            if on_message is not None:
                on_message(message)

        peer = await answer_offer(
            offer,
            broadcast,
            settings=self._settings,
            on_message=forward,
            role=role,
            sink=sink,
        )
        return _WebRtcPeer(peer)

    async def close(self) -> None:
        self._encoders.close()


class _WebRtcPeer:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def answer(self) -> str:
        return self._peer.answer

    @property
    def closed(self) -> bool:
        return self._peer.state in ("closing", "closed")

    def send(self, message: dict[str, Any]) -> None:
        self._peer.send(message)

    def sends(self) -> bool:
        return self._peer.publishes

    def silent_seconds(self) -> float:
        return self._peer.silent_seconds()

    async def trickle(self, fragment: Fragment) -> None:
        await self._peer.trickle(fragment)

    async def restart(self, fragment: Fragment) -> str:
        return await self._peer.restart(fragment)

    def quiet_seconds(self) -> float:
        return float(self._peer.stats()["heard_ms_ago"]) / 1e3

    def link(self) -> LinkState:
        figures = self._peer.stats()
        return LinkState(
            loss=figures["fraction_lost"] or 0.0, last_rendition=figures["last_rendition"]
        )

    async def close(self) -> None:
        await self._peer.close()
