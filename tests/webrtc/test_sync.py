"""Sound and picture on one line of NTP time, over simulated hours and with a clock that is set."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from aiortc import RTCRtpSender
from aiortc.rtp import RtcpSenderInfo, RtcpSrPacket

from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.rtcp import NtpClock, SenderReports
from onbeat.webrtc.timeline import Timeline

START = 5_000.0
RATES = {"video": 90_000, "audio": 48_000}
HOURS = 14
"""More than the 13.3 hours after which the picture's time stamps begin anew."""


class Sent:
    """One sender: the packets it sent, and the reports that leave it."""

    def __init__(self, rate: int, media_time: Callable[[], float], ntp: NtpClock) -> None:
        self.rate, self.last, self.origin = rate, 0, 123_456_789
        self.reports: list[RtcpSrPacket] = []
        hidden = cast(RTCRtpSender, self)
        SenderReports(hidden, lambda: round(media_time() * rate) - self.last, ntp)

    async def _send_rtcp(self, packets: list[Any]) -> None:
        self.reports += packets

    def report(self) -> float:
        """Sends one; the NTP instant of media time 0 that it tells, seconds."""
        info = RtcpSenderInfo(
            ntp_timestamp=1,
            rtp_timestamp=(self.origin + self.last) % 2**32,
            packet_count=1,
            octet_count=1,
        )
        asyncio.run(self._send_rtcp([RtcpSrPacket(ssrc=1, sender_info=info)]))
        told = self.reports.pop().sender_info
        wraps = round((self.last - (told.rtp_timestamp - self.origin)) / 2**32)
        ticks = told.rtp_timestamp - self.origin + wraps * 2**32
        return told.ntp_timestamp / 2**32 - ticks / self.rate


class Hours:
    """A session in fake time: chunks of 0.2 s with mishaps, and a wall clock that is wrong."""

    def __init__(self) -> None:
        self.now = START
        self.timeline = Timeline(24_000)
        ntp = NtpClock(lambda: self.now, self.wall)
        self.senders = {kind: Sent(rate, self.media_time, ntp) for kind, rate in RATES.items()}

    def wall(self) -> float:
        """Slewed by 500 parts in a million, and set back by 2 s after an hour."""
        return 1.7e9 + self.now * 1.0005 - (2.0 if self.now > START + 3600 else 0.0)

    def media_time(self) -> float:
        assert self.timeline.origin is not None
        return self.now - self.timeline.origin

    def chunk(self, index: int, late: float) -> None:
        """Play one; `late`: how long after its time it comes, seconds."""
        due = START + 0.2 * index
        self.now = max(self.now, due - 0.05 + late)
        frames = np.zeros((4, 12, 8), np.uint8)
        audio = np.zeros(4_800, np.int16)
        chunk = MediaChunk(
            index=index,
            frames=frames,
            audio=audio,
            fps=20,
            sample_rate=24_000,
            playout_at=due,
            revision=0,
        )
        self.timeline.push(chunk, self.now)
        while self.now < due + 0.2:
            self.now += 0.013
            frame = self.timeline.take(self.now).frame
            if frame is not None:
                self.senders["video"].last = frame.pts
            for sound in self.timeline.take_sound(self.now)[0]:
                self.senders["audio"].last = sound.pts


def test_reports_of_both_tell_one_line_for_hours() -> None:
    hours, apart, told = Hours(), 0.0, list[float]()
    per_hour = 18_000
    for index in range(0, HOURS * per_hour, 90):  # one chunk in 18 s, the others dropped
        mishap = (0.0, 0.0, 0.3, 1.5)[index // 90 % 4]  # in time, all late, stalled
        hours.chunk(index, mishap)
        picture = hours.senders["video"].report()
        hours.now += 0.7  # reports leave at other instants
        sound = hours.senders["audio"].report()
        apart = max(apart, abs(picture - sound))
        told.append(picture)
    assert apart < 1e-4
    assert max(told) - min(told) < 1e-4, "no drift either"


def test_a_packet_sent_late_does_not_move_the_line() -> None:
    hours = Hours()
    hours.chunk(0, 0.0)
    before = hours.senders["video"].report()
    hours.now += 0.31  # nothing was sent meanwhile
    assert hours.senders["video"].report() == pytest.approx(before, abs=1e-4)
