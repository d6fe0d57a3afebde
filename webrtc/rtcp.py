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
    unpack_remb_fci,
)

RTCP_PSFB = 206


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


class SenderReports:
    """The sender reports of one sender, stamped with media time; and the round trip they show.

    aiortc pairs the time stamp of the last packet with the instant at which it was sent, so that a
    hiccup of the loop becomes an error of lip-sync. Here both belong to the instant of the report
    (RFC 3550, 6.4.1). `ticks_ahead` gives how far media time is past the last packet, in RTP ticks.
    """

    def __init__(self, sender: RTCRtpSender, ticks_ahead: Callable[[], int | None]) -> None:
        self.round_trip: float | None = None
        self._ticks_ahead = ticks_ahead
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
        info.ntp_timestamp = current_ntp_time()
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
