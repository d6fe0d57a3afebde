"""What receivers say (lost pictures, estimates, reports, signs of life) and what they are told.

aiortc ignores keyframe requests and estimates for tracks of ready packets, because it has no
encoder there. These hooks wrap one sender or transport of one peer; nothing global is patched.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiortc import RTCRtpSender
from aiortc.clock import current_ntp_time
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtp import (
    RTCP_PSFB_APP,
    RTCP_PSFB_FIR,
    RTCP_PSFB_PLI,
    AnyRtcpPacket,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSrPacket,
    RtpPacket,
    unpack_remb_fci,
)

RTCP_PSFB = 206
NTP_EPOCH = 2_208_988_800
"""Seconds from 1900 to 1970."""
HISTORY = "_RTCRtpSender__rtp_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What is called, on the loop's thread. `estimate` gets bits per second."""

    picture_lost: Callable[[], None]
    estimate: Callable[[int], None]
    report: Callable[[RtcpReceiverInfo], None]


def hear_sender(sender: RTCRtpSender, feedback: Feedback) -> None:
    """Call `feedback` for each RTCP packet about this sender, before aiortc handles it."""
    handle = sender._handle_rtcp_packet

    async def heard(packet: AnyRtcpPacket) -> None:
        _dispatch(packet, sender._ssrc, feedback)
        await handle(packet)

    sender._handle_rtcp_packet = heard  # type: ignore[method-assign]


def _dispatch(packet: AnyRtcpPacket, ssrc: int, feedback: Feedback) -> None:
    if isinstance(packet, RtcpRrPacket | RtcpSrPacket):
        for report in packet.reports:
            if report.ssrc == ssrc:
                feedback.report(report)
    elif isinstance(packet, RtcpPsfbPacket):
        if packet.fmt in (RTCP_PSFB_PLI, RTCP_PSFB_FIR):
            feedback.picture_lost()
        elif packet.fmt == RTCP_PSFB_APP:
            estimate = _remb(packet.fci, ssrc)
            if estimate is not None:
                feedback.estimate(estimate)


def _remb(fci: bytes, ssrc: int) -> int | None:
    try:
        bitrate, ssrcs = unpack_remb_fci(fci)
    except ValueError:
        return None
    return bitrate if ssrc in ssrcs else None


def hear_transport(
    transport: RTCDtlsTransport, alive: Callable[[], None], fir: Callable[[], None]
) -> None:
    """Call `alive` for each authenticated RTCP datagram, `fir` for one that asks for a keyframe.

    A FIR names its stream inside (RFC 5104, 4.3.1), where aiortc's router does not look.
    """
    handle = transport._handle_rtcp_data

    async def heard(data: bytes) -> None:
        alive()
        if has_fir(data):
            fir()
        await handle(data)

    transport._handle_rtcp_data = heard  # type: ignore[method-assign]


def hear_repairs(sender: RTCRtpSender, beyond_repair: Callable[[], None]) -> None:
    """Packets that are sent once more carry the instant of that, as abs-send-time is defined.

    aiortc repeats the first one's. A receiver takes the difference, a round trip and more, for a
    queue on the way, and at one loss in a hundred its estimate of the link fell to a third.
    `beyond_repair` is called for one that is asked for and not kept any more: only a keyframe helps
    then, and receivers ask for that up to a second later.
    """
    retransmit = sender._retransmit
    assert hasattr(sender, HISTORY), "aiortc has no packet history of this name"
    history: dict[int, RtpPacket] = getattr(sender, HISTORY)

    async def stamped(sequence_number: int) -> None:
        kept = [each for each in history.values() if each.sequence_number == sequence_number]
        for packet in kept:
            packet.extensions.abs_send_time = current_ntp_time() >> 14 & 0xFFFFFF
        if not kept:
            beyond_repair()
        await retransmit(sequence_number)

    sender._retransmit = stamped  # type: ignore[method-assign]


class NtpClock:
    """NTP time (RFC 3550, 4) that runs with the monotonic clock, as media do.

    The computer's own time is set and slewed now and then; the reports of a picture and of its
    sound, sent at other instants, would then tell of two lines. One for all senders of a peer.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._ahead = wall() + NTP_EPOCH - clock()

    def now(self) -> int:
        """Seconds since 1900 in 32.32 fixed point."""
        return int((self._clock() + self._ahead) * 2**32)


class SenderReports:
    """The sender reports of one sender, stamped with media time; and the round trip they show.

    aiortc pairs the time stamp of the last packet with the instant at which it was sent, so that a
    hiccup of the loop becomes an error of lip-sync. Here both belong to the instant of the report
    (RFC 3550, 6.4.1). `ticks_ahead` gives how far media time is past the last packet, in RTP ticks.
    """

    def __init__(
        self, sender: RTCRtpSender, ticks_ahead: Callable[[], int | None], ntp: NtpClock
    ) -> None:
        self.round_trip: float | None = None
        self._ticks_ahead, self._ntp = ticks_ahead, ntp
        self._sent_at: dict[int, float] = {}
        send = sender._send_rtcp

        async def stamped(packets: list[AnyRtcpPacket]) -> None:
            for packet in packets:
                if isinstance(packet, RtcpSrPacket) and packet.sender_info.packet_count:
                    self._stamp(packet)
            await send(packets)

        sender._send_rtcp = stamped  # type: ignore[method-assign]

    def _stamp(self, packet: RtcpSrPacket) -> None:
        ahead, info = self._ticks_ahead(), packet.sender_info
        if ahead is None:
            return
        info.ntp_timestamp = self._ntp.now()
        info.rtp_timestamp = (info.rtp_timestamp + ahead) % 2**32
        self._sent_at = {info.ntp_timestamp >> 16 & 0xFFFFFFFF: time.monotonic()}

    def hear(self, report: RtcpReceiverInfo) -> None:
        """A receiver's report: it names the last sender report and how long ago that came."""
        sent_at = self._sent_at.get(report.lsr)
        if sent_at is not None:
            self.round_trip = max(0.0, time.monotonic() - sent_at - report.dlsr / 65536)


def has_fir(data: bytes) -> bool:
    """Whether a compound RTCP datagram (RFC 3550, 6.1) holds a full intra request."""
    at = 0
    while at + 4 <= len(data):
        if data[at + 1] == RTCP_PSFB and data[at] & 0x1F == RTCP_PSFB_FIR:
            return True
        at += 4 * (1 + int.from_bytes(data[at + 2 : at + 4], "big"))
    return False
