"""What the sessions need of WebRTC: the ports of `onbeat.webrtc.transport` for a session's model.

Tests put a stand-in here. What it is not: any of the transport, which is `onbeat.webrtc`.
"""

from typing import Protocol

from onbeat.server.api.errors import unavailable
from onbeat.server.engine.messages import EngineReady
from onbeat.webrtc.ingest import InputSink
from onbeat.webrtc.offer import Role
from onbeat.webrtc.ports import NoPortError
from onbeat.webrtc.transport import BroadcastPort as BroadcastLike
from onbeat.webrtc.transport import LinkState as LinkState
from onbeat.webrtc.transport import OnMessage, Transport
from onbeat.webrtc.transport import PeerPort as PeerLike
from onbeat.webrtc.transport import TapPort as TapLike
from onbeat.webrtc.turn import IceServer

__all__ = [
    "BroadcastLike",
    "LinkState",
    "Media",
    "OnMessage",
    "PeerLike",
    "TapLike",
    "WebRtcMedia",
]


class Media(Protocol):
    """Makes broadcasts, answers offers."""

    def broadcast(self, ready: EngineReady) -> BroadcastLike: ...

    def check(self, offer: str, role: Role) -> None:
        """Raises `onbeat.webrtc.settings.OfferError` for an offer that would not be
        taken, before anything is made for it."""
        ...

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
    """Media over any transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def broadcast(self, ready: EngineReady) -> BroadcastLike:
        return self._transport.broadcast(
            width=ready.width, height=ready.height, fps=ready.fps, sample_rate=ready.sample_rate
        )

    def check(self, offer: str, role: Role) -> None:
        self._transport.check(offer, role)

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastLike,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> PeerLike:
        try:
            return await self._transport.answer(offer, broadcast, on_message, role=role, sink=sink)
        except NoPortError as error:
            message = "All UDP ports for connections are in use."
            raise unavailable("capacity", message) from error

    def ice_servers(self, user: str) -> list[IceServer]:
        return self._transport.ice_servers(user)

    async def close(self) -> None:
        await self._transport.close()
