"""One connection: from an SDP offer to media out, media in or both, with an end to everything.

A peer owns an aiortc peer connection, sends the broadcast's packets, hears what the receiver says
and closes itself when the other side does not connect, falls silent or goes. It encodes nothing;
what it receives it leaves to its ingest.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from aioice.ice import Connection
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.exceptions import InternalError, InvalidAccessError, InvalidStateError, OperationError
from aiortc.rtcdtlstransport import RTCDtlsTransport

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.control import LABEL, ControlChannel, Message
from onbeat.webrtc.dtls import take_rsa
from onbeat.webrtc.fragment import Fragment, restart_answer
from onbeat.webrtc.h264 import restored
from onbeat.webrtc.hearing import Hearing
from onbeat.webrtc.ice import drop_sockets, guard_datagrams, host_addresses
from onbeat.webrtc.ingest import Ingest, InputSink
from onbeat.webrtc.liveness import Signs, why_close
from onbeat.webrtc.offer import PARSER_ERRORS, CheckedOffer, Role, check_offer
from onbeat.webrtc.ports import bind_to
from onbeat.webrtc.restart import add_candidates, restart
from onbeat.webrtc.settings import OfferError, PeerSettings
from onbeat.webrtc.stamps import Stamps

WATCH_PERIOD = 0.25
AIORTC_ERRORS = (InternalError, InvalidAccessError, InvalidStateError, OperationError)
logger = logging.getLogger(__name__)


async def answer_offer(
    offer: str,
    broadcast: Broadcast,
    *,
    settings: PeerSettings | None = None,
    on_message: "Callable[[Peer, Message], None] | None" = None,
    role: Role = "view",
    sink: InputSink | None = None,
) -> "Peer":
    """Check `offer`, build a peer that views `broadcast` or publishes to `sink`, and answer.

    A duplex peer does both; without a sink it only views. The answer is `Peer.answer`.
    `on_message(peer, message)` gets each JSON object of the data channel "control". Raises
    OfferError, before anything is built wherever possible; RuntimeError on a closed broadcast.
    """
    settings = settings or PeerSettings()
    checked = check_offer(offer, settings, role)
    peer = Peer(checked, broadcast, settings, on_message, sink)
    try:
        async with asyncio.timeout(settings.connect_deadline):
            await peer._negotiate(checked)
    except (*PARSER_ERRORS, *AIORTC_ERRORS) as error:
        await peer.close()
        why = f"the offer cannot be answered: {error}"
        raise OfferError(why, "offer", "unsupported") from error
    except BaseException:
        await peer.close()
        raise
    return peer


class Peer:
    """Made by `answer_offer`. `closed` is set when all of it is gone; `answer` is the SDP."""

    def __init__(
        self,
        checked: CheckedOffer,
        broadcast: Broadcast,
        settings: PeerSettings,
        on_message: "Callable[[Peer, Message], None] | None",
        sink: InputSink | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.answer = ""
        self.closed = asyncio.Event()
        self.close_reason: str | None = None
        self._broadcast, self._settings, self._on_message = broadcast, settings, on_message
        self._viewer = broadcast.add_viewer(video_codec=checked.video_codec, audio=checked.audio)
        self._ingest = Ingest(sink) if sink is not None and checked.sends else None
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        take_rsa(self._pc)
        self._control: ControlChannel | None = None
        self._refused_channels = 0
        self._hearing = Hearing(broadcast, self._viewer)
        self._created_at = time.monotonic()
        self._connected_at: float | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._pc.on("connectionstatechange", self._on_state)
        self._pc.on("datachannel", self._on_channel)

    @property
    def state(self) -> str:
        """ "connecting", "connected", "closing" or "closed"."""
        if self._closing is not None:
            return "closed" if self.closed.is_set() else "closing"
        return "connecting" if self._connected_at is None else "connected"

    @property
    def stamps(self) -> Stamps | None:
        """Of the pictures that are sent to it; None for one that takes none."""
        return self._hearing.stamps

    @property
    def publishes(self) -> bool:
        """Whether it sends media that a sink takes."""
        return self._ingest is not None

    def silent_seconds(self) -> float:
        """How long no media have come from it; since it was made, if none ever have."""
        last = self._ingest.last_packet_at if self._ingest is not None else None
        return time.monotonic() - (last or self._created_at)

    def send(self, message: Message) -> bool:
        """Send a JSON object over the data channel. False: none open, or too much waits on it."""
        return self._control is not None and self._control.send(message)

    async def close(self) -> None:
        """Give everything back: sockets, tasks, the place in the broadcast. Idempotent."""
        await asyncio.shield(self._begin_close("closed here"))

    def stats(self) -> dict[str, Any]:
        """Figures of this connection; times in milliseconds, None where not known yet."""
        now, viewer = time.monotonic(), self._viewer
        return {
            "id": self.id,
            "state": self.state,
            "close_reason": self.close_reason,
            "video_codec": viewer.video_codec,
            "rendition": viewer.level if viewer.video_codec else None,
            "last_rendition": viewer.level >= self._broadcast.last_rendition,
            "audio": viewer.audio is not None,
            "age_s": now - self._created_at,
            "connect_ms": _since(self._created_at, self._connected_at),
            "first_frame_ms": _since(self._created_at, viewer.first_frame_at),
            "heard_ms_ago": 1e3 * (now - self._hearing.heard_at),
            "video_frames_sent": viewer.video.sent if viewer.video is not None else 0,
            "audio_packets_sent": viewer.audio.sent if viewer.audio is not None else 0,
            "queue_overflows": viewer.overflows,
            **self._hearing.figures(),
            "input": self._ingest.stats() if self._ingest is not None else None,
            "control_open": self._control is not None and self._control.open,
            "messages": self._control.received if self._control is not None else 0,
            "messages_refused": self._control.refused if self._control is not None else 0,
        }

    # ---- negotiation -------------------------------------------------------------------------

    async def _negotiate(self, checked: CheckedOffer) -> None:
        for track in (self._viewer.audio, self._viewer.video):
            if track is not None:
                self._hearing.on_sender(self._pc.addTrack(track), track)
        takes = checked.sends if self._ingest is not None else frozenset()
        for kind in sorted(
            takes - {transceiver.kind for transceiver in self._pc.getTransceivers()}
        ):
            self._pc.addTransceiver(kind, direction="recvonly")
        ours = self._pc.getTransceivers()
        for transceiver in ours:
            if transceiver.sender.track is not None:
                transceiver.direction = "sendrecv" if transceiver.kind in takes else "sendonly"
            _prefer(transceiver, self._video_codecs())
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp=checked.sdp, type="offer"))
        for transceiver in ours:
            if self._ingest is not None and transceiver.kind in takes:
                self._ingest.attach(transceiver)
        for transceiver in self._pc.getTransceivers():
            if transceiver not in ours:
                transceiver.direction = "inactive"  # nobody would read what it received
        self._prepare_transports()
        await self._pc.setLocalDescription()
        for connection in self._connections():
            guard_datagrams(connection, self._settings.max_received_datagrams)
        self.answer = restored(self._pc.localDescription.sdp, checked.restored)
        self._watch_task = asyncio.create_task(self._watch(), name=f"peer-{self.id}")

    def _video_codecs(self) -> tuple[str, ...]:
        """The one that is sent; whoever only publishes chooses."""
        sent = self._viewer.video_codec
        return self._settings.video_codecs if sent is None else (sent,)

    async def trickle(self, fragment: Fragment) -> None:
        """Try candidates that came after the offer."""
        for connection in self._connections():
            await add_candidates(connection, fragment.candidates, self._settings.private_candidates)

    async def restart(self, fragment: Fragment) -> str:
        """Begin a new ICE session with the credentials of `fragment`; the fragment that answers.

        Raises ConnectionError where there is no session, ValueError for one without credentials.
        """
        if fragment.ufrag is None or fragment.password is None:
            raise ValueError("a restart needs credentials")
        private = self._settings.private_candidates
        (connection,) = self._connections()
        made = await restart(
            connection, fragment.ufrag, fragment.password, fragment.candidates, private
        )
        return restart_answer(self.answer, *made)

    def _prepare_transports(self) -> None:
        settings = self._settings
        addresses = host_addresses(settings.host_addresses, settings.max_host_addresses)
        for transport in self._transports():
            connection = transport.transport._connection
            bind_to(connection, addresses, settings.ports, settings.public_address)
            self._hearing.on_transport(transport)

    def _transports(self) -> set[RTCDtlsTransport]:
        found = {each.receiver.transport for each in self._pc.getTransceivers()}
        return found | ({self._pc.sctp.transport} if self._pc.sctp is not None else set())

    def _connections(self) -> Iterator[Connection]:
        for transport in self._transports():
            yield transport.transport._connection

    # ---- what happens to it ------------------------------------------------------------------

    def _on_state(self) -> None:
        state = self._pc.connectionState
        if state == "connected" and self._connected_at is None:
            self._connected_at = time.monotonic()
            self._hearing.alive()
            if self._ingest is not None:
                self._ingest.start()
        elif state in ("failed", "closed"):
            self._begin_close(f"connection {state}")

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label == LABEL and self._control is None:
            self._control = ControlChannel(channel, self._settings, self._on_control)
            return
        channel.close()
        self._refused_channels += 1
        if self._refused_channels > self._settings.max_refused_channels:
            self._begin_close("too many data channels")

    def _on_control(self, message: Message) -> None:
        if self._on_message is not None and self._closing is None:
            self._on_message(self, message)

    # ---- its end -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        while self._closing is None:
            await asyncio.sleep(WATCH_PERIOD)
            reason = self._why_close(time.monotonic())
            if reason is not None:
                self._begin_close(reason)

    def _why_close(self, now: float) -> str | None:
        if self._viewer.ended.is_set():
            return "broadcast ended"
        control, ingest, viewer = self._control, self._ingest, self._viewer
        message_at = 0.0 if control is None else control.last_at or 0.0
        signs = Signs(
            created_at=self._created_at,
            connected_at=self._connected_at,
            heard_at=max(self._hearing.heard_at, message_at),
            sent=viewer.last_sent_at,
            pinged=control is not None and control.pinged,
            media_at=None if ingest is None else ingest.last_packet_at,
            only_publishes=ingest is not None and viewer.video is None and viewer.audio is None,
        )
        return why_close(signs, self._settings, now)

    def _begin_close(self, reason: str) -> "asyncio.Task[None]":
        if self._closing is None:
            self.close_reason = reason
            self._closing = asyncio.create_task(self._shut_down(), name=f"close-{self.id}")
        return self._closing

    async def _shut_down(self) -> None:
        self._broadcast.remove_viewer(self._viewer)
        self._viewer.end()
        if self._ingest is not None:
            self._ingest.close(self.close_reason or "closed")
        if self._watch_task is not None:
            self._watch_task.cancel()
        connections = list(self._connections())
        try:
            async with asyncio.timeout(self._settings.close_timeout):
                await self._pc.close()
        except TimeoutError:
            logger.warning("peer %s did not close in time; its sockets are dropped", self.id)
            for connection in connections:
                drop_sockets(connection)
        finally:
            self.closed.set()


def _prefer(transceiver: RTCRtpTransceiver, video_codecs: tuple[str, ...]) -> None:
    """Agree to these codecs only, the first by preference."""
    names = ("opus",) if transceiver.kind == "audio" else (*video_codecs, "rtx")
    capabilities = RTCRtpSender.getCapabilities(transceiver.kind).codecs
    wanted = [codec for codec in capabilities if codec.name in names]
    transceiver.setCodecPreferences(sorted(wanted, key=lambda codec: names.index(codec.name)))


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else 1e3 * (end - start)
