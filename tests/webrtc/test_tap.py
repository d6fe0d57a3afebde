"""What a tap gets: encoded packets from a keyframe on, without viewers, and at no second encode."""

from collections.abc import Callable
from typing import Any

import pytest

from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.tap import EncodedSound, EncodedVideo
from tests.webrtc.test_broadcast import Stage

Make = Callable[..., MediaChunk]


class Kept:
    def __init__(self) -> None:
        self.pictures: list[EncodedVideo] = []
        self.sounds: list[EncodedSound] = []
        self.ends: list[str] = []

    def video(self, picture: EncodedVideo) -> None:
        self.pictures.append(picture)

    def sound(self, sound: EncodedSound) -> None:
        self.sounds.append(sound)

    def ended(self, reason: str) -> None:
        self.ends.append(reason)


@pytest.fixture
async def stage(pool: Any) -> Any:
    stage = Stage(pool)
    yield stage
    stage.close()


@pytest.mark.parametrize("codec", ["VP8", "H264"])
async def test_media_flow_for_a_tap_alone(stage: Stage, chunk: Make, codec: str) -> None:
    kept = Kept()
    tap = stage.broadcast.tap(kept, video_codec=codec)
    for index in range(3):
        stage.broadcast.push(chunk(index, 1000.1 + 0.2 * index))
    await stage.play(1000.1, 1000.7)
    assert [picture.pts for picture in kept.pictures] == [4500 * n for n in range(12)]
    assert [picture.keyframe for picture in kept.pictures] == [True] + [False] * 11
    first = kept.pictures[0]
    assert (first.codec, first.width, first.height, first.fps) == (codec, 64, 64, 20)
    assert {picture.revision for picture in kept.pictures} == {0, 1, 2}
    steps = [b.pts - a.pts for a, b in zip(kept.sounds, kept.sounds[1:], strict=False)]
    assert set(steps) == {960} and kept.sounds[0].pts <= 960
    assert stage.broadcast.stats().viewers == 0 and stage.broadcast.stats().frames_sent == 12
    tap.close()
    assert not stage.broadcast.stats().bitrate, "nobody needs an encoder any more"


async def test_a_tap_beside_a_viewer_costs_no_encode(stage: Stage, chunk: Make) -> None:
    kept = Kept()
    stage.watch("H264")
    stage.broadcast.tap(kept, video_codec=None)
    for index in range(3):
        stage.broadcast.push(chunk(index, 1000.1 + 0.2 * index))
    await stage.play(1000.1, 1000.7)
    assert len(kept.pictures) == 12 == stage.broadcast.stats().encode_ms.count
    assert {picture.codec for picture in kept.pictures} == {"H264"}
    assert kept.pictures[0].data.startswith(b"\0\0\0\1"), "Annex B"


async def test_a_keyframe_when_asked_and_an_end_once(stage: Stage, chunk: Make) -> None:
    kept, other = Kept(), Kept()
    tap = stage.broadcast.tap(kept, video_codec="VP8")
    closed = stage.broadcast.tap(other, video_codec="VP8", audio=False)
    for index in range(4):
        stage.broadcast.push(chunk(index, 1000.1 + 0.2 * index))
    await stage.play(1000.1, 1000.7)
    tap.request_keyframe()
    await stage.play(1000.7, 1000.8)
    assert [n for n, picture in enumerate(kept.pictures) if picture.keyframe] == [0, 12]
    closed.close()
    closed.close()
    stage.broadcast.close()
    stage.broadcast.close()
    assert kept.ends == ["broadcast ended"] and not other.ends and not other.sounds
    with pytest.raises(RuntimeError, match="closed"):
        stage.broadcast.tap(kept, video_codec="VP8")
