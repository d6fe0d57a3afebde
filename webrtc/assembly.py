"""RTP packets in any order into encoded frames in order, as soon as they are whole.

It holds what waits for a missing packet, and gives up on it when it is late or when too much waits.
It knows codecs only so far as to tell a key frame. What it is not: decoding, or asking the sender
for lost packets (aiortc does), though it says when only a new key frame can help.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from aiortc.rtp import RtpPacket

PATIENCE = 0.4
"""Seconds that a missing packet is waited for: time for a retransmission over a slow link."""
WAITING = 512
"""Packets that wait at most."""
ASK_PERIOD = 0.5
"""Seconds between two requests for a key frame."""
FAR = 3000
"""A sequence number this far off is a new start, not an old or early packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFrame:
    """One access unit. timestamp: of RTP, not unwrapped. arrived_at: when its last packet came.

    after_gap: something before it is lost, so that only a key frame can be decoded now.
    """

    data: bytes
    timestamp: int
    payload_type: int
    arrived_at: float
    after_gap: bool


class FrameAssembler:
    """Stands in for aiortc's jitter buffer of one received stream: the same `add`.

    `deliver(frame)` is called from `add`. aiortc's buffer hands a frame out only when the next one
    begins, a frame period late, and at most one for each packet, so that it never catches up.
    """

    def __init__(
        self,
        *,
        kind: Literal["audio", "video"],
        deliver: Callable[[EncodedFrame], None],
        clock: Callable[[], float],
    ) -> None:
        self._video = kind == "video"
        self._deliver, self._clock = deliver, clock
        self._next: int | None = None
        self._waiting: dict[int, tuple[RtpPacket, float]] = {}
        self._stuck_since: float | None = None
        self._broken: int | None = None
        self._after_gap = self._picture_lost = False
        self._asked_at = float("-inf")
        self.gaps = 0
        self.last_at: float | None = None

    def lose_picture(self) -> None:
        """Whoever takes the frames can use none before the next key frame: ask for one."""
        self._picture_lost = True

    def add(self, packet: RtpPacket) -> tuple[bool, None]:
        """Takes a packet whose `_data` is depayloaded. True: a key frame is to be asked for."""
        now = self._clock()
        self.last_at = now
        self._place(packet, now)
        self._drain()
        self._lose_patience(now)
        return self._asks_now(now), None

    def _asks_now(self, now: float) -> bool:
        if not (self._video and self._picture_lost) or now - self._asked_at < ASK_PERIOD:
            return False
        self._picture_lost, self._asked_at = False, now
        return True

    def _place(self, packet: RtpPacket, now: float) -> None:
        number = packet.sequence_number
        if self._next is None:
            self._next = number
        ahead = (number - self._next) % 2**16
        if ahead >= 2**15:
            if 2**16 - ahead < FAR:
                return  # it comes too late, or twice
            ahead = FAR
        if ahead >= FAR:
            self._waiting.clear()
            self._next = number
            self._gap()
        self._waiting[number] = (packet, now)

    def _drain(self) -> None:
        """Hands out all frames that are whole, and begins where they end."""
        assert self._next is not None
        before, run = self._next, list[tuple[RtpPacket, float]]()
        at = self._next
        while at in self._waiting:
            packet, arrived = self._waiting[at]
            if run and packet.timestamp != run[0][0].timestamp:
                self._hand_out(run, at)
                run = []
            run.append((packet, arrived))
            at = (at + 1) % 2**16
            if packet.marker or not self._video:
                self._hand_out(run, at)
                run = []
        if self._next != before or not self._waiting:
            self._stuck_since = None

    def _hand_out(self, run: list[tuple[RtpPacket, float]], end: int) -> None:
        for packet, _ in run:
            self._waiting.pop(packet.sequence_number, None)
        self._next = end
        data = b"".join(packet._data for packet, _ in run)  # type: ignore[attr-defined]
        first = run[0][0]
        if data and first.timestamp != self._broken:
            after_gap, self._after_gap = self._after_gap, False
            self._deliver(
                EncodedFrame(
                    data=data,
                    timestamp=first.timestamp,
                    payload_type=first.payload_type,
                    arrived_at=max(arrived for _, arrived in run),
                    after_gap=after_gap,
                )
            )

    def _lose_patience(self, now: float) -> None:
        """Skips what is missing once it is late; a picture then starts at the next frame."""
        if not self._missing():
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = now
        patience = PATIENCE if self._video else PATIENCE / 4
        if now - self._stuck_since < patience and len(self._waiting) < WAITING:
            return
        self._skip()
        self._gap()
        self._drain()

    def _missing(self) -> bool:
        """Whether something that came later waits for something that has not come."""
        assert self._next is not None
        at = self._next
        for _ in range(len(self._waiting)):
            if at not in self._waiting:
                return True
            at = (at + 1) % 2**16
        return False

    def _skip(self) -> None:
        """To what comes after the first gap; of the frame there the beginning may be lost."""
        assert self._next is not None
        start = self._next
        order = sorted(self._waiting, key=lambda number: (number - start) % 2**16)
        gap = next(at for at, number in enumerate(order) if (number - start) % 2**16 != at)
        for number in order[:gap]:
            del self._waiting[number]
        later = order[gap:]
        self._broken = self._waiting[later[0]][0].timestamp if self._video else None
        self._next = later[0]

    def _gap(self) -> None:
        self.gaps += 1
        self._stuck_since = None
        self._after_gap = self._picture_lost = True


def is_key_frame(codec: str, data: bytes) -> bool:
    """Whether a decoder can start here: VP8 by its first bit (RFC 6386, 9.1), H.264 by its IDR.

    Sound always can.
    """
    if codec == "VP8":
        return bool(data) and data[0] & 1 == 0
    if codec == "H264":
        return any(unit & 0x1F == 5 for unit in _nal_headers(data))
    return True


def _nal_headers(data: bytes) -> list[int]:
    headers, at = [], data.find(b"\x00\x00\x01")
    while at >= 0 and at + 3 < len(data):
        headers.append(data[at + 3])
        at = data.find(b"\x00\x00\x01", at + 3)
    return headers
