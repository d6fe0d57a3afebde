"""A broadcast under a clock that the test turns: due frames, drops, repeats, counts."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.made import Packet
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.viewer import Viewer

Make = Callable[..., MediaChunk]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """A broadcast with one viewer whose tracks are read by hand."""

    def __init__(self, pool: EncoderPool) -> None:
        self.clock = Clock()
        self.broadcast = Broadcast(
            width=64, height=64, fps=20, sample_rate=24_000, encoders=pool, clock=self.clock
        )
        self.video: list[Packet] = []
        self.audio: list[Packet] = []
        self._tasks: list[asyncio.Task[None]] = []

    def watch(self, codec: str | None = "VP8") -> Viewer:
        viewer = self.broadcast.add_viewer(video_codec=codec, audio=True)
        for track, packets in ((viewer.video, self.video), (viewer.audio, self.audio)):
            if track is not None:
                self._tasks.append(asyncio.create_task(self._read(track, packets)))
        return viewer

    @staticmethod
    async def _read(track: Any, packets: list[Packet]) -> None:
        while True:
            packets.append(await track.recv())

    async def at(self, instant: float) -> None:
        """Turn the clock to `instant`, send what is due and let it be encoded and read."""
        self.clock.now = instant
        self.broadcast._disarm()
        self.broadcast.advance()
        await self.rest()
        self.broadcast._disarm()

    async def rest(self) -> None:
        """Until nothing is being encoded and all that is made has been read."""
        while self._encoding():
            await asyncio.sleep(0.0005)
        for _ in range(3):
            await asyncio.sleep(0)

    def _encoding(self) -> bool:
        lanes = [lane for video in self.broadcast._video.values() for lane in video.lanes()]
        shared = [*lanes, self.broadcast._sound]
        return any(each is not None and each._lane._busy for each in shared)

    async def play(self, start: float, stop: float, step: float = 0.01) -> None:
        for number in range(round((stop - start) / step)):
            await self.at(start + number * step)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.broadcast.close()


@pytest.fixture
async def stage(pool: EncoderPool) -> Any:
    stage = Stage(pool)
    yield stage
    stage.close()


async def test_every_frame_on_time_with_one_origin(stage: Stage, chunk: Make) -> None:
    stage.watch()
    await stage.rest()
    for index in range(2):
        stage.broadcast.push(chunk(index, 1000.1 + 0.2 * index))
    await stage.play(1000.1, 1000.5)
    assert [packet.pts for packet in stage.video] == [4500 * n for n in range(8)]
    assert [packet.is_keyframe for packet in stage.video] == [True] + [False] * 7
    assert {packet.pts for packet in stage.audio} <= {960 * n for n in range(21)}
    stats = stage.broadcast.stats()
    assert (stats.frames_due, stats.frames_sent, stats.frames_on_time) == (8, 8, 8)
    assert stats.on_time_ratio == 1 and stats.first_frame_at == pytest.approx(1000.1)
    assert stats.fps_sent == 8 and stats.viewers == 1 and stats.keyframes == 1
    assert stats.encode_ms.count == 8 and sum(stats.frames_dropped.values()) == 0


async def test_nothing_is_due_while_nobody_watches(stage: Stage, chunk: Make) -> None:
    for index in range(20):
        stage.clock.now = 1000.0 + 0.2 * index
        stage.broadcast.push(chunk(index, stage.clock.now + 0.1))
    stats = stage.broadcast.stats()
    assert stats.frames_due == 0 and stats.encode_ms.count == 0
    assert len(stage.broadcast._timeline._frames) <= 8, "media nobody sees piles up"
    stage.watch()
    await stage.rest()
    await stage.at(stage.clock.now + 0.101)
    assert stage.broadcast.stats().frames_due <= 3
    assert stage.video[0].is_keyframe


async def test_each_frame_is_counted_once_whatever_becomes_of_it(stage: Stage, chunk: Make) -> None:
    stage.watch()
    await stage.rest()
    stage.broadcast.push(chunk(0, 1000.0))
    stage.broadcast.push(chunk(2, 1000.4))  # 1 is missing
    await stage.play(1000.0, 1000.42, 0.02)
    stamps = [packet.pts or 0 for packet in stage.audio]
    assert set(np.diff(stamps)) == {960}, "silence stands in for missing sound"
    await stage.at(1000.57)  # a stall: of the frames due at .45, .50 and .55 one is sent
    stats = stage.broadcast.stats()
    dropped = stats.frames_dropped
    assert stats.frames_due == 12 == stats.frames_sent + sum(dropped.values())
    assert dropped == {"late": 2, "skipped": 4, "encoder": 0}
    assert stats.audio_underrun_s == pytest.approx(0.2)


async def test_a_busy_encoder_costs_the_older_picture(
    stage: Stage, chunk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.watch()
    await stage.rest()
    stage.broadcast.push(chunk(0, 1000.0))
    lane = stage.broadcast._video["VP8"].lanes()[0]._lane
    lane._busy = True
    for number in range(4):
        stage.clock.now = 1000.0 + 0.05 * number
        stage.broadcast.advance()
    assert stage.broadcast.stats().frames_dropped["encoder"] == 3
    lane._busy = False
    lane._next()
    await stage.rest()
    assert [packet.pts for packet in stage.video] == [13_500]


async def test_when_nothing_new_comes_the_last_picture_is_repeated_rarely(
    stage: Stage, chunk: Make
) -> None:
    stage.watch()
    await stage.rest()
    stage.broadcast.push(chunk(0, 1000.0))
    await stage.play(1000.0, 1001.5, 0.02)
    assert len(stage.video) == 6, [packet.pts for packet in stage.video]
    assert [packet.is_keyframe for packet in stage.video] == [True] + [False] * 5
    stats = stage.broadcast.stats()
    assert stats.frames_repeated == 2 and stats.frames_due == stats.frames_sent == 4
    assert (stage.audio[-1].pts or 0) > 1.4 * 48_000, "the sound does not wait for the picture"


async def test_a_picture_after_a_stall_keeps_media_time(stage: Stage, chunk: Make) -> None:
    stage.watch()
    await stage.rest()
    stage.broadcast.push(chunk(0, 1000.0))
    await stage.play(1000.0, 1001.0, 0.02)
    stage.broadcast.push(chunk(1, 1001.1))
    await stage.play(1001.1, 1001.2, 0.02)
    assert stage.video[-1].pts == round(1.15 * 90_000)
    gaps = np.diff([packet.pts for packet in stage.audio])
    assert gaps.max() <= 6 * 960


async def test_sound_waits_for_the_first_picture(stage: Stage, chunk: Make) -> None:
    stage.watch()
    await stage.rest()
    for index in range(3):
        stage.broadcast.push(chunk(index, 1000.0 + 0.2 * index))
    await stage.play(1000.0, 1000.1, 0.02)
    lane = stage.broadcast._video["VP8"].lanes()[0]
    lane._group.clear()
    lane.gate.made(1000.1)  # so that the next keyframe may come at 1000.6 only
    stage.video, stage.audio = [], []
    stage.watch()
    await stage.play(1000.1, 1000.3, 0.02)
    assert not stage.video and not stage.audio
    lane.gate.made(999.0)
    lane.gate.request()
    await stage.play(1000.3, 1000.5, 0.02)
    first_picture, first_sound = stage.video[0].pts or 0, stage.audio[0].pts or 0
    assert stage.video[0].is_keyframe
    assert abs(first_picture / 90_000 - first_sound / 48_000) <= 0.021


@pytest.fixture
def bad_chunks(chunk: Make) -> Iterator[list[MediaChunk]]:
    good = chunk(0, 1000.0)
    yield [
        MediaChunk(
            index=0,
            frames=frames,
            audio=good.audio,
            fps=20,
            sample_rate=rate,
            playout_at=1000.0,
        )
        for frames, rate in [
            (good.frames[:, :90], 24_000),
            (good.frames[0], 24_000),
            (good.frames, 48_000),
        ]
    ]


async def test_chunks_of_another_shape_are_refused(
    stage: Stage, bad_chunks: list[MediaChunk]
) -> None:
    for bad in bad_chunks:
        with pytest.raises(ValueError, match="frames|sample_rate"):
            stage.broadcast.push(bad)


async def test_sizes_must_be_even(pool: EncoderPool) -> None:
    with pytest.raises(ValueError, match="width 63"):
        Broadcast(width=63, height=64, fps=20, sample_rate=24_000, encoders=pool)


async def test_after_close_nothing_happens(stage: Stage, chunk: Make) -> None:
    viewer = stage.watch()
    await stage.rest()
    stage.broadcast.close()
    stage.broadcast.push(chunk(0, 1000.0))
    assert viewer.ended.is_set() and stage.broadcast.stats().viewers == 0


async def test_who_joins_while_nothing_new_comes_gets_the_last_picture_soon(
    stage: Stage, chunk: Make
) -> None:
    stage.watch()
    await stage.rest()
    stage.broadcast.push(chunk(0, 1000.0))
    await stage.play(1000.0, 1002.02, 0.02)
    first = len(stage.video)
    stage.watch()
    await stage.rest()
    await stage.play(1002.02, 1002.16, 0.02)
    late = stage.video[first:]
    assert late and late[0].is_keyframe
