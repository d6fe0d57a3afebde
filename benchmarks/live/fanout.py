"""What one more viewer of a session costs, against stock aiortc in the same run. JSON line last.

`python -m benchmarks.live.fanout [--size 512] [--fps 30] [--seconds 8] [--viewers 5] [--joins 20]`

Processor time of the sending process for 1 and for `--viewers` viewers, the receivers being in
another process; the difference is the price of a viewer, by turns ours, stock, stock, ours. Then
twenty viewers of one session: how many encodes; and viewers that join a running one: how long from
connected to the keyframe in their queue. VP8; a busy machine makes the wall-clock figures longer.
"""

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from benchmarks.live.audience import Audience
from benchmarks.live.encode import pictures, push
from benchmarks.live.figures import quantile
from benchmarks.live.stock import StockPeer
from onbeat.server.cli.flags import number, whole
from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings

SETTINGS = PeerSettings(video_codecs=("VP8",), silence_deadline=600)
"""The receivers drop everything, and so report nothing."""
MANY = 20


class Ours:
    """One broadcast with its viewers."""

    def __init__(self, size: int, fps: int) -> None:
        self.pool = EncoderPool()
        self.broadcast = Broadcast(
            width=size, height=size, fps=fps, sample_rate=24_000, encoders=self.pool
        )
        self.audience, self.peers = Audience(), list[Peer]()
        self._source = asyncio.create_task(push(self.broadcast, size, fps))

    async def join(self) -> int:
        async def answer(offer: str) -> str:
            self.peers.append(await answer_offer(offer, self.broadcast, settings=SETTINGS))
            return self.peers[-1].answer

        member = await self.audience.add(answer)
        async with asyncio.timeout(30):
            while self.peers[-1].state != "connected" or not self.peers[-1]._viewer.first_frame_at:
                await asyncio.sleep(0.005)
        return member

    async def pictures_sent(self) -> int:
        return self.broadcast.stats().frames_sent

    async def close(self) -> None:
        self._source.cancel()
        self.broadcast.close()
        await asyncio.gather(*(peer.close() for peer in self.peers))
        await self.audience.close()
        self.pool.close()


class Stock:
    """A peer connection with its own encoders for each viewer."""

    def __init__(self, size: int, fps: int) -> None:
        self._fps, self._pictures = fps, pictures(size, 160)
        self.audience, self.peers = Audience(), list[StockPeer]()

    async def join(self) -> int:
        self.peers.append(StockPeer(self._pictures, self._fps))
        member = await self.audience.add(self.peers[-1].answer)
        async with asyncio.timeout(30):
            while not self.peers[-1].video.sent:
                await asyncio.sleep(0.005)
        return member

    async def pictures_sent(self) -> int:
        return min(peer.video.sent for peer in self.peers)

    async def close(self) -> None:
        await asyncio.gather(*(peer.pc.close() for peer in self.peers))
        await self.audience.close()


async def cost(side: Ours | Stock, viewers: int, fps: int, seconds: float) -> float:
    """Milliseconds of processor time a second of stream, for so many viewers."""
    while len(side.peers) < viewers:
        await side.join()
    await asyncio.sleep(1.0)
    before, used = await side.pictures_sent(), time.process_time()
    await asyncio.sleep(seconds)
    used, sent = time.process_time() - used, await side.pictures_sent() - before
    return 1e3 * used / (sent / fps)


async def per_viewer(side: Ours | Stock, args: argparse.Namespace) -> dict[str, float]:
    one = await cost(side, 1, args.fps, args.seconds)
    more = await cost(side, args.viewers, args.fps, args.seconds)
    await side.close()
    return {"one": one, "per_more": (more - one) / (args.viewers - 1)}


async def many(args: argparse.Namespace) -> dict[str, Any]:
    """Twenty viewers, and joiners beside a few."""
    ours = Ours(args.size, args.fps)
    for _ in range(3):
        await ours.join()
    waits = []
    for turn in range(args.joins):
        await asyncio.sleep(0.13 + 0.037 * (turn % 7))
        member = await ours.join()
        viewer = ours.peers[-1]._viewer
        assert viewer.first_frame_at is not None and viewer.started_at is not None
        waits.append(1e3 * (viewer.first_frame_at - viewer.started_at))
        await ours.audience.leave(member)
        await ours.peers.pop().close()
    while len(ours.peers) < MANY:
        await ours.join()
    before = ours.broadcast.stats()
    made = len(ours.broadcast._video["VP8"].lanes())
    await asyncio.sleep(3)
    after = ours.broadcast.stats()
    await ours.close()
    return {
        "viewers": MANY,
        "encoders": made,
        "frames_sent": after.frames_sent - before.frames_sent,
        "keyframe_wait_ms": {"p95": quantile(waits, 0.95), "max": round(max(waits), 1)},
    }


async def run(args: argparse.Namespace) -> dict[str, Any]:
    sides: dict[str, list[dict[str, float]]] = {"ours": [], "stock": []}
    for name in ("ours", "stock", "stock", "ours"):
        side = Ours(args.size, args.fps) if name == "ours" else Stock(args.size, args.fps)
        sides[name].append(await per_viewer(side, args))
        print(name, sides[name][-1], flush=True)
    prices = {
        name: statistics.mean(each["per_more"] for each in found) for name, found in sides.items()
    }
    return {
        "benchmark": "live/fanout",
        "size": args.size,
        "fps": args.fps,
        "cpu_ms_per_s_per_more_viewer": {name: round(price, 2) for name, price in prices.items()},
        "cpu_ms_per_s_of_one": {
            name: round(statistics.mean(each["one"] for each in found), 2)
            for name, found in sides.items()
        },
        "ratio": round(prices["ours"] / prices["stock"], 3),
        "many": await many(args),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=whole(16), default=512)
    parser.add_argument("--fps", type=whole(), default=30)
    parser.add_argument("--seconds", type=number, default=8.0)
    parser.add_argument("--viewers", type=whole(2), default=5)
    parser.add_argument("--joins", type=whole(), default=20)
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
