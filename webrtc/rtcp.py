"""Hearing what receivers say: lost pictures, rate estimates, reports, signs of life.

aiortc ignores keyframe requests and estimates for tracks of ready packets, because it has no
encoder there. These hooks wrap one sender or transport of one peer; nothing global is patched.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiortc import RTCRtpSender
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


def has_fir(data: bytes) -> bool:
    """Whether a compound RTCP datagram (RFC 3550, 6.1) holds a full intra request."""
    at = 0
    while at + 4 <= len(data):
        if data[at + 1] == RTCP_PSFB and data[at] & 0x1F == RTCP_PSFB_FIR:
            return True
        at += 4 * (1 + int.from_bytes(data[at + 2 : at + 4], "big"))
    return False
