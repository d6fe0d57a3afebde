"""Frames from packets: in order at once, across loss, reordering, repeats and wrapping numbers."""

import itertools
from typing import Any

import pytest
from aiortc.rtp import RtpPacket

from onbeat.webrtc.assembly import (
    ASK_PERIOD,
    FAR,
    PATIENCE,
    EncodedFrame,
    FrameAssembler,
    is_key_frame,
)


class Stream:
    """An assembler with its own clock, and what it hands out."""

    def __init__(self, kind: Any = "video") -> None:
        self.now = 0.0
        self.frames: list[EncodedFrame] = []
        self.assembler = FrameAssembler(
            kind=kind, deliver=self.frames.append, clock=lambda: self.now
        )

    def add(self, number: int, frame: int, last: bool, data: bytes | None = None) -> bool:
        packet = RtpPacket(
            payload_type=96, marker=int(last), sequence_number=number % 2**16, timestamp=frame
        )
        packet._data = f"{number},".encode() if data is None else data  # type: ignore[attr-defined]
        return self.assembler.add(packet)[0]

    @property
    def got(self) -> list[str]:
        return [frame.data.decode() for frame in self.frames]


def test_a_frame_is_whole_with_its_last_packet() -> None:
    stream = Stream()
    stream.add(10, 0, False)
    assert stream.got == []
    stream.now = 0.02
    stream.add(11, 0, True)
    assert stream.got == ["10,11,"] and stream.frames[0].arrived_at == 0.02
    stream.add(12, 3000, True)
    assert stream.got == ["10,11,", "12,"]


def test_senders_without_markers_are_understood() -> None:
    stream = Stream()
    for number, frame in ((1, 0), (2, 0), (3, 7), (4, 9)):
        stream.add(number, frame, False)
    assert stream.got == ["1,2,", "3,"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(101, 105))))
def test_any_order_gives_the_same_frames(order: tuple[int, ...]) -> None:
    stream = Stream()
    stream.add(100, 0, True)
    for number in order:
        stream.add(number, number // 2, number % 2 == 1)
    stream.add(105, 52, True)
    assert stream.got == ["100,", "101,", "102,103,", "104,105,"]
    assert stream.assembler.gaps == 0


def test_numbers_wrap() -> None:
    stream = Stream()
    for at in range(6):
        stream.add(65533 + at, at, True)
    assert len(stream.got) == 6


def test_repeats_and_late_packets_change_nothing() -> None:
    stream = Stream()
    for number in (5, 6, 6, 5, 4, 7):
        stream.add(number, number, True)
    assert stream.got == ["5,", "6,", "7,"]


def test_what_stays_missing_is_skipped_and_a_key_frame_asked_for() -> None:
    stream = Stream()
    stream.add(1, 1, True)
    assert not stream.add(3, 3, True)  # 2 is lost
    stream.now = PATIENCE / 2
    assert not stream.add(4, 4, True) and stream.got == ["1,"]
    stream.now = PATIENCE + 0.01
    assert stream.add(5, 5, True), "a key frame is to be asked for"
    assert stream.got == ["1,", "4,", "5,"], "the first frame after a gap may lack its beginning"
    assert [frame.after_gap for frame in stream.frames] == [False, True, False]
    assert stream.assembler.gaps == 1


def test_a_packet_that_comes_in_time_fills_its_gap() -> None:
    stream = Stream()
    stream.add(1, 1, True)
    stream.add(3, 3, True)
    stream.now = PATIENCE / 2
    assert not stream.add(2, 2, True)
    assert stream.got == ["1,", "2,", "3,"] and stream.assembler.gaps == 0


def test_the_rest_of_a_broken_frame_is_no_frame() -> None:
    stream = Stream()
    stream.add(1, 1, True)
    stream.add(3, 9, False)  # 2, the beginning of frame 9, is lost
    stream.now = 1.0
    stream.add(4, 9, True)
    stream.add(5, 10, True)
    assert stream.got == ["1,", "5,"]


def test_requests_for_key_frames_are_apart() -> None:
    stream = Stream()
    stream.assembler.lose_picture()
    assert stream.add(1, 1, True)
    stream.assembler.lose_picture()
    assert not stream.add(2, 2, True)
    stream.now = ASK_PERIOD
    assert stream.add(3, 3, True) and not stream.add(4, 4, True)


def test_a_sender_that_starts_anew_is_followed() -> None:
    stream = Stream()
    stream.add(1, 1, True)
    stream.add(40_000, 2, True)
    stream.add(40_001, 3, True)
    assert stream.got == ["1,", "40000,", "40001,"] and stream.frames[1].after_gap


def test_memory_is_bounded() -> None:
    stream = Stream()
    stream.add(0, 0, True)
    for number in range(2, 2900):
        stream.add(number, 1, False)  # one frame without an end, and with a gap
        assert len(stream.assembler._waiting) <= FAR
    stream.add(2900, 1, True)
    stream.add(2901, 2, True)
    assert stream.got == ["0,", "2901,"] and not stream.assembler._waiting


def test_sound_waits_less_and_loses_only_what_is_lost() -> None:
    stream = Stream("audio")
    for number in (1, 2, 4, 5):
        assert not stream.add(number, 960 * number, False)
    stream.now = PATIENCE / 2
    assert not stream.add(6, 960 * 6, False), "no key frames in sound"
    assert stream.got == ["1,", "2,", "4,", "5,", "6,"]


def test_key_frames_are_told() -> None:
    assert is_key_frame("VP8", b"\x10\x02") and not is_key_frame("VP8", b"\x11\x02")
    idr, slice_ = b"\0\0\0\1\x67\1\0\0\1\x68\1\0\0\1\x65\1", b"\0\0\0\1\x41\1"
    assert is_key_frame("H264", idr) and not is_key_frame("H264", slice_)
    assert is_key_frame("opus", b"") and not is_key_frame("VP8", b"")
