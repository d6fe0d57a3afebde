"""Which renditions there are, who is moved between them, and how: by a keyframe, stamps rising."""

import asyncio
from typing import Any

import numpy as np
import pytest

from onbeat.webrtc.codec_video import CodecVideo
from onbeat.webrtc.encoders import EncoderPool, shrunk
from onbeat.webrtc.made import Made
from onbeat.webrtc.renditions import encode_rate, level_for, renditions
from onbeat.webrtc.shared import Shot
from onbeat.webrtc.viewer import Viewer

BIG = renditions(512, 512, 30, 3)


def test_bands_touch_and_end_at_the_least_rate() -> None:
    assert [r.level for r in BIG] == [0, 1, 2]
    assert [r.floor for r in BIG[:-1]] == [r.nominal for r in BIG[1:]]
    assert BIG[-1].floor == 150_000 and BIG[-1].width == 256 and BIG[1].width == 512


def test_small_pictures_have_fewer_and_are_not_halved() -> None:
    small = renditions(128, 128, 20, 3)
    assert [(r.nominal, r.width) for r in small] == [(400_000, 128), (200_000, 128)]
    assert len(renditions(512, 512, 30, 1)) == 1


@pytest.mark.parametrize(("target", "level"), [(1.0, 0), (0.5, 0), (0.49, 1), (0.19, 2), (0.01, 2)])
def test_a_link_gets_the_best_that_it_carries(target: float, level: int) -> None:
    assert level_for(BIG, int(target * BIG[0].nominal), 0) == level


def test_moving_up_needs_more_than_staying() -> None:
    floor = BIG[0].floor
    assert level_for(BIG, int(1.1 * floor), 1) == 1
    assert level_for(BIG, int(1.3 * floor), 1) == 0
    assert level_for(BIG, BIG[0].nominal, 2) == 0


def test_a_rate_follows_the_lowest_within_the_band_and_leaves_small_moves_out() -> None:
    top = BIG[0]
    assert encode_rate(top, [10**9, 1], top.nominal) == top.floor
    assert encode_rate(top, [int(0.8 * top.nominal)], top.nominal) == top.nominal
    assert encode_rate(top, [top.nominal], top.floor) == top.nominal


def test_shrinking_keeps_the_planes_apart() -> None:
    picture = np.concatenate([np.full((16, 8), 100), np.full((4, 8), 50), np.full((4, 8), 200)])
    small = shrunk(picture.astype(np.uint8), 2)
    assert small.shape == (12, 4)
    assert (small[:8] == 100).all() and (small[8:10] == 50).all() and (small[10:] == 200).all()
    assert shrunk(small, 1) is small


class Watching:
    """One codec's renditions with viewers whose packets are read by hand; time stands still."""

    def __init__(self, pool: EncoderPool) -> None:
        self.now, self.made = 100.0, list[Made]()
        self.video = CodecVideo("VP8", BIG, 30, pool, self._delivered, lambda: self.now)
        self.got: dict[str, list[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0

    def _delivered(self, made: Made, ticket: object, reached: bool) -> None:
        self.made.append(made)

    async def join(self) -> Viewer:
        viewer = Viewer(
            video_codec="VP8",
            audio=False,
            on_started=self.video.start,
            on_keyframe_wanted=self.video.request_keyframe,
        )
        self.video.add(viewer)
        packets = self.got[viewer.id] = []

        async def read() -> None:
            while True:
                assert viewer.video is not None
                packets.append(await viewer.video.recv())

        self._tasks.append(asyncio.create_task(read()))
        await asyncio.sleep(0)
        return viewer

    async def show(self, count: int) -> None:
        """Pictures a thirtieth of a second apart, each encoded by all that are needed."""
        rows, columns = np.indices((768, 512))
        for _ in range(count):
            picture = ((rows + columns + 9 * self._number) % 200 + 20).astype(np.uint8)
            lanes = self.video.lanes()
            for lane in lanes:
                lane.offer(
                    Shot(picture=picture, pts=3000 * self._number, fps=30, revision=0, ticket=None)
                )
            while any(lane._lane._busy for lane in lanes):
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            self._number += 1
            self.now += 1 / 30

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.video.close()


@pytest.fixture
async def watching(pool: EncoderPool) -> Any:
    watching = Watching(pool)
    yield watching
    watching.close()


async def weaken(watching: Watching, viewer: Viewer) -> None:
    """Its receiver says, past the first seconds, that its link carries next to nothing any more: an
    estimate that never fell is no limit."""
    watching.video.estimate(viewer, 5_000_000)
    watching.now += 5
    await watching.show(70)
    for _ in range(3):
        watching.video.estimate(viewer, 1)


async def test_a_weak_viewer_is_moved_at_a_keyframe_and_the_others_are_not(
    watching: Watching,
) -> None:
    strong, weak = await watching.join(), await watching.join()
    await weaken(watching, weak)
    assert (weak.wanted, weak.level, strong.wanted) == (2, 0, 0)
    seen = len(watching.got[weak.id])
    await watching.show(10)
    assert weak.level == 2
    after = watching.got[weak.id][seen:]
    assert sum(packet.is_keyframe for packet in after) == 1, "one switch, one keyframe"
    for packets in watching.got.values():
        stamps = [packet.pts for packet in packets]
        assert all(b > a for a, b in zip(stamps, stamps[1:], strict=False))
        assert packets[0].is_keyframe
    assert not any(packet.is_keyframe for packet in watching.got[strong.id][1:])
    assert set(watching.video.bitrates()) == {"VP8", "VP8/2"}
    assert watching.video.bitrates()["VP8"] == BIG[0].nominal, "a weak link lowers no other's rate"


async def test_encoders_that_nobody_needs_are_closed(watching: Watching) -> None:
    only = await watching.join()
    await weaken(watching, only)
    await watching.show(10)
    assert set(watching.video.bitrates()) == {"VP8/2"}
    assert {made.level for made in watching.made[-3:]} == {2}
    watching.video.remove(only)
    assert not watching.video.bitrates()


async def test_who_recovers_moves_up_again(watching: Watching) -> None:
    only = await watching.join()
    await weaken(watching, only)
    await watching.show(5)
    for _ in range(9):
        watching.now += 13
        watching.video.estimate(only, 10**8)
    await watching.show(5)
    assert only.level == only.wanted == 0 and watching.made[-1].width == 512


async def test_one_encode_for_twenty_viewers(watching: Watching) -> None:
    viewers = [await watching.join() for _ in range(20)]
    await watching.show(6)
    assert len(watching.made) == 6
    last = [watching.got[viewer.id][-1].pts for viewer in viewers]
    assert last == [last[0]] * 20


async def test_whoever_joins_gets_a_keyframe_with_the_next_picture(watching: Watching) -> None:
    await watching.join()
    for gap in (1, 4, 9, 14, 16, 31):
        await watching.show(gap)
        viewer = await watching.join()
        await watching.show(1)
        assert watching.got[viewer.id] and watching.got[viewer.id][0].is_keyframe, gap
