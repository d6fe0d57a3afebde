"""The transport over aiortc: broadcasts and peers of this package behind `transport.Transport`."""

import time
from typing import Any

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.fragment import Fragment
from onbeat.webrtc.ingest import InputSink
from onbeat.webrtc.offer import Role, check_offer
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings
from onbeat.webrtc.transport import BroadcastPort, LinkState, OnMessage, PeerPort
from onbeat.webrtc.turn import IceServer, TurnSettings, ice_servers


class AiortcTransport:
    """One pool of encoder threads for all its broadcasts; `settings` hold for each peer."""

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

    def broadcast(self, *, width: int, height: int, fps: int, sample_rate: int) -> BroadcastPort:
        return Broadcast(
            width=width,
            height=height,
            fps=fps,
            sample_rate=sample_rate,
            encoders=self._encoders,
            max_renditions=self._max_renditions,
        )

    def check(self, offer: str, role: Role) -> None:
        check_offer(offer, self._settings, role)

    async def answer(
        self,
        offer: str,
        broadcast: BroadcastPort,
        on_message: OnMessage | None,
        *,
        role: Role = "view",
        sink: InputSink | None = None,
    ) -> PeerPort:
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
        return _AiortcPeer(peer)

    def ice_servers(self, user: str) -> list[IceServer]:
        return ice_servers(self._turn, user, time.time())

    async def close(self) -> None:
        self._encoders.close()


class _AiortcPeer:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def answer(self) -> str:
        return self._peer.answer

    @property
    def closed(self) -> bool:
        return self._peer.state in ("closing", "closed")

    @property
    def connected(self) -> bool:
        return self._peer.state == "connected"

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
        trip = figures["round_trip_ms"]
        return LinkState(
            loss=figures["fraction_lost"] or 0.0,
            last_rendition=figures["last_rendition"],
            round_trip=None if trip is None else trip / 1e3,
        )

    def media_pts(self, rtp_timestamp: int) -> int | None:
        stamps = self._peer.stamps
        return None if stamps is None else stamps.media_pts(rtp_timestamp)

    async def close(self) -> None:
        await self._peer.close()
