"""From the time stamps on a viewer's packets back to media time.

A sender counts from an origin of its own (RFC 3550, 5.1), which aiortc keeps to itself; it shows in
the last packet that left. Reads only.
"""

from aiortc import RTCRtpSender

from onbeat.webrtc.viewer import PacketTrack

HALF, WHOLE = 2**31, 2**32
NEWEST = "_RTCRtpSender__rtp_timestamp"


class Stamps:
    """Of the pictures of one sender."""

    def __init__(self, sender: RTCRtpSender, track: PacketTrack) -> None:
        self._sender = sender
        self._newest: int | None = None
        self._origin = 0
        track.on_sent.append(self._sent)

    def _sent(self, pts: int) -> None:
        """Called when all packets of the picture have left, and none of the next."""
        if self._newest is None:
            self._origin = (int(getattr(self._sender, NEWEST)) - pts) % WHOLE
        self._newest = pts

    def media_pts(self, rtp_timestamp: int) -> int | None:
        """90 kHz ticks of media time; None while nothing was sent."""
        if self._newest is None:
            return None
        ahead = (rtp_timestamp - self._origin - self._newest + HALF) % WHOLE - HALF
        return self._newest + ahead
