"""A bad network between the server and one viewer: freezes, rates, and the others. JSON line last.

`python -m benchmarks.live.loss [--bad 10] [--after 16] [--scenarios none,loss1,...,cut]`

Headless Chromium plays 512x512 at 30 from a broadcast in this process through a relay that loses,
delays or cuts for `--bad` seconds (a cut lasts 2), and then behaves for `--after`. Beside it a
second session has a viewer on a clean path. Freezes are gaps between presented frames.
"""

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Coroutine
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.live.browser import Players
from benchmarks.live.encode import push
from benchmarks.live.relay import Relay
from onbeat.server.cli.flags import number, one_of, several
from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.peer import Peer, answer_offer
from tests.e2e.chromium import launch

SCENARIOS: dict[str, dict[str, float]] = {
    "none": {},
    "loss1": {"loss": 0.01},
    "loss5": {"loss": 0.05},
    "loss10": {"loss": 0.10},
    "delay": {"delay": 0.1},
    "cut": {"cut": True},
}
"""What the relay does; the delay is 100 ms each way."""
CUT_SECONDS = 2.0


class Sender:
    """Two broadcasts on an event loop in a thread, the first of which is reached by relays."""

    def __init__(self, size: int, fps: int) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.relays: list[Relay] = []
        self.peers: list[Peer] = []
        self.errors: list[str] = []
        self._loop.set_exception_handler(lambda _, context: self.errors.append(str(context)))
        self.do(self._start(size, fps))

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self, size: int, fps: int) -> None:
        pool = EncoderPool()
        self.worn, self.clean = (
            Broadcast(width=side, height=side, fps=fps, sample_rate=24_000, encoders=pool)
            for side in (size, 128)
        )
        self._tasks = [
            asyncio.create_task(push(self.worn, size, fps)),
            asyncio.create_task(push(self.clean, 128, fps)),
        ]

    def answer(self, offer: str, which: str) -> str:
        """Called by the page; "worn" goes through a relay."""
        return str(self.do(self._answer(offer, which)))

    async def _answer(self, offer: str, which: str) -> str:
        peer = await answer_offer(offer, self.worn if which == "worn" else self.clean)
        self.peers.append(peer)
        if which != "worn":
            return peer.answer
        self.relays.append(Relay(seed=len(self.relays)))
        return await self.relays[-1].open(peer.answer)

    def snapshot(self) -> dict[str, Any]:
        """Of the clean session's frames and the worn one's asked rate."""

        async def read() -> dict[str, Any]:
            clean, worn = self.clean.stats(), self.worn.stats()
            rates = list(worn.bitrate.values())
            return {
                "due": clean.frames_due,
                "on_time": clean.frames_on_time,
                "rate": min(rates) if rates else 0,
            }

        return dict(self.do(read()))


def gap_after(times: list[float], since: float, until: float) -> float:
    """The longest stretch without a new frame between two instants, ms."""
    inside = [since, *(t for t in times if since < t < until), until]
    return max(b - a for a, b in zip(inside, inside[1:], strict=False))


def scenario(
    name: str, sender: Sender, players: Players, args: argparse.Namespace
) -> dict[str, Any]:
    player = players.join("", "worn")
    players.first_frame_ms(player)
    players.wait(6)
    relay, before, told = sender.relays[-1], sender.snapshot(), SCENARIOS[name]
    lowest = before["rate"]
    for key, value in told.items():
        setattr(relay, key, value)
    started, seconds = time.monotonic(), CUT_SECONDS if name == "cut" else args.bad
    bad_from = players.now()
    while time.monotonic() - started < seconds:
        players.wait(0.25)
        lowest = min(lowest, sender.snapshot()["rate"])
    relay.loss, relay.delay, relay.cut = 0.0, 0.0, False
    ended = players.now()
    for _ in range(int(args.after / 0.25)):
        players.wait(0.25)
        lowest = min(lowest, sender.snapshot()["rate"])
    after, now, times = sender.snapshot(), players.now(), players.times(player)
    video = players.inbound(player)["video"]
    players.leave(player)
    due = after["due"] - before["due"]
    return {
        "longest_gap_ms": {
            "while_bad": round(gap_after(times, bad_from, ended)),
            "after": round(gap_after(times, ended, now)),
        },
        "rate_kbit_s": [round(r / 1e3) for r in (before["rate"], lowest, after["rate"])],
        "others_on_time": round((after["on_time"] - before["on_time"]) / max(1, due), 4),
        "lost": video["packetsLost"],
        "repaired": video.get("retransmittedPacketsReceived"),
        "plis": video["pliCount"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--bad", type=number, default=10.0)
    parser.add_argument("--after", type=number, default=16.0)
    names = list(SCENARIOS)
    parser.add_argument("--scenarios", type=several(one_of(names)), default=names)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is None:
            parser.exit(1, "there is no chromium in the PATH\n")
        sender = Sender(args.size, args.fps)
        players = Players(browser, "about:blank")
        players.page.expose_function("answer", sender.answer)
        players.first_frame_ms(players.join("", "clean"))
        for name in args.scenarios:
            found[name] = scenario(name, sender, players, args)
            print(name, json.dumps(found[name]), flush=True)
        browser.close()
    print(json.dumps({"benchmark": "live/loss", **found, "exceptions": sender.errors}))


if __name__ == "__main__":
    main()
