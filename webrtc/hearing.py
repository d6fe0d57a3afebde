"""What the receiver of one viewer says, heard and passed on: losses, estimates, signs of life.

It hooks the senders and transports of one peer, keeps the last figures and tells the broadcast. It
neither moves rates (rate.py) nor ends connections (liveness.py).
"""

import time
from typing import Any

from aiortc import RTCRtpSender
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtp import RtcpReceiverInfo

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import OPUS_CLOCK, VIDEO_CLOCK
from onbeat.webrtc.losses import LossMeter
from onbeat.webrtc.rtcp import (
    Feedback,
    NtpClock,
    SenderReports,
    hear_repairs,
    hear_sender,
    hear_transport,
)
from onbeat.webrtc.stamps import Stamps
from onbeat.webrtc.viewer import PacketTrack, Viewer


class Hearing:
    """Of one viewer of `broadcast`. `heard_at`: when anything authenticated last came in."""

    def __init__(self, broadcast: Broadcast, viewer: Viewer) -> None:
        self._broadcast, self._viewer = broadcast, viewer
        self.heard_at = time.monotonic()
        self.stamps: Stamps | None = None
        self._ntp = NtpClock()
        self._reports: dict[str, RtcpReceiverInfo] = {}
        self._estimate: int | None = None
        self._round_trip: float | None = None
        self._losses, self._pictures_lost = LossMeter(), 0

    def on_sender(self, sender: RTCRtpSender, track: PacketTrack) -> None:
        """Listen to what is said about the packets of `track`, and report to its receiver."""
        rate = VIDEO_CLOCK if track.kind == "video" else OPUS_CLOCK

        def ticks_ahead() -> int | None:
            at, last = self._broadcast.media_time(), track.last_pts
            return None if at is None or last is None else round(at * rate) - last

        def report(info: RtcpReceiverInfo) -> None:
            self._reports[track.kind] = info
            if track.kind == "video":
                self._note_losses(info)
            reports.hear(info)
            self._round_trip = reports.round_trip

        if track.kind == "video":
            self.stamps = Stamps(sender, track)
        reports = SenderReports(sender, ticks_ahead, self._ntp)
        feedback = Feedback(
            picture_lost=self._on_picture_lost, estimate=self._on_estimate, report=report
        )
        hear_sender(sender, feedback)
        if track.kind == "video":
            hear_repairs(sender, self._on_picture_lost)

    def on_transport(self, transport: RTCDtlsTransport) -> None:
        """Listen for signs of life, and for requests that aiortc's router does not find."""
        hear_transport(transport, self.alive, self._on_picture_lost)

    def alive(self) -> None:
        """Something of it has come."""
        self.heard_at = time.monotonic()

    def figures(self) -> dict[str, Any]:
        """The last of each; times in milliseconds, None where not known yet."""
        video = self._reports.get("video")
        return {
            "pictures_lost": self._pictures_lost,
            "estimate_bps": self._estimate,
            "round_trip_ms": None if self._round_trip is None else 1e3 * self._round_trip,
            "fraction_lost": self._losses.share,
            "packets_lost": None if video is None else video.packets_lost,
            "jitter_ms": None if video is None else video.jitter / 90,
        }

    def _note_losses(self, info: RtcpReceiverInfo) -> None:
        now = time.monotonic()
        share = self._losses.hear(info.highest_sequence, info.packets_lost, now)
        if share is not None:
            self._broadcast.lost(self._viewer, share)

    def _on_picture_lost(self) -> None:
        self._pictures_lost += 1
        self._broadcast.request_keyframe(self._viewer)

    def _on_estimate(self, bits_per_second: int) -> None:
        self._estimate = bits_per_second
        self._broadcast.estimate(self._viewer, bits_per_second)
