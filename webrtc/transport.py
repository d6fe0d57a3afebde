"""The seam of the transport: what a server needs of broadcasts, taps and peers, whoever moves them.

`AiortcTransport` (aiortc_transport.py) serves it; another engine, such as one over libwebrtc, has
to offer no more than this. Protocols and plain data only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from onbeat.webrtc.fragment import Fragment
from onbeat.webrtc.frames import FrameTimes
from onbeat.webrtc.ingest import InputSink
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.offer import Role
from onbeat.webrtc.stats import BroadcastStats
from onbeat.webrtc.tap import PacketSink
from onbeat.webrtc.turn import IceServer

OnMessage = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """As the transport sees it: share of packets lost, whether no lesser rendition is left, and
    seconds of a round trip, None before the first report."""

    loss: float = 0.0
    last_rendition: bool = True
    round_trip: float | None = None


class TapPort(Protocol):
    @property
    def video_codec(self) -> str | None: ...

    def request_keyframe(self) -> None: ...

    def close(self) -> None: ...


class BroadcastPort(Protocol):
    """One session's pictures and sound on their way to all its viewers."""

    def push(self, chunk: MediaChunk) -> None: ...

    def stats(self) -> BroadcastStats: ...

    def frames(self) -> list[FrameTimes]:
        """The pictures that were sent since the last call."""
        ...

    def refresh(self) -> None:
        """The next picture is a key frame for everybody."""

    def tap(self, sink: PacketSink, *, video_codec: str | None, audio: bool = True) -> TapPort:
        """Encoded packets to `sink` until the tap is closed."""
        ...

    def close(self) -> None: ...


class PeerPort(Protocol):
    """The connection of a viewer, of a publisher, or of one that is both."""

    @property
    def answer(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    @property
    def connected(self) -> bool:
        """Whether media can flow: the other side has finished what its offer began."""
        ...

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

    def media_pts(self, rtp_timestamp: int) -> int | None:
        """90 kHz ticks of media time of a picture by the time stamp on its packets, None before
        the first was sent."""
        ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Makes broadcasts, answers offers. All calls on one event loop."""

    def broadcast(self, *, width: int, height: int, fps: int, sample_rate: int) -> BroadcastPort:
        """For pictures of this size, pixels, at this nominal rate, with sound of this rate, Hz."""
        ...

    def check(self, offer: str, role: Role) -> None:
        """Raises `OfferError` for an offer that would not be taken, before anything is made for
        it."""

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastPort,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> PeerPort:
        """A peer that views `broadcast`, which this transport made, publishes to `sink`, or both.

        Raises `OfferError` for an offer that is not taken, `NoPortError` when no port is left.
        """
        ...

    def ice_servers(self, user: str) -> list[IceServer]:
        """What a client may use to get through; `user` shows in the relay's log."""
        ...

    async def close(self) -> None: ...
