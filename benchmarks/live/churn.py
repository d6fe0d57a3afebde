"""Clients that come and go badly: is everything given back? One JSON line last.

`python -m benchmarks.live.churn [--offers 500] [--vanish 200] [--cycles 600]`

A real server with one session that a good viewer in Chromium watches all the while, beside a good
client that joins again and again. Offers that nobody finishes; clients killed with -9, ten a
process; and a page that starts and stops. After each part the server is left alone until its
sockets, threads and tasks are back where they began, at most `--patience` seconds, and then until
it has given its memory back. Figures are of the second half of each part, so that what is only made
once does not count; memory is the growth a cycle.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import psutil
from aiortc import RTCSessionDescription
from playwright.sync_api import Error as PlaywrightError

from benchmarks.live.browser import Players, served_players
from benchmarks.live.figures import quantile
from onbeat.server.api.memory import EVERY
from onbeat.server.cli.flags import number, whole
from tests.e2e.server_process import ServerProcess
from tests.e2e.whep_clients import post
from tests.webrtc.conftest import Receiver

AT_ONCE = 10
COLLECT_EVERY = 50
"""Cycles of one page: Chromium lets a page have 500 connections, the ended ones among them until
they are collected."""
RETURN = ("descriptors", "threads", "viewers", "tasks")
"""What has to be back; pages rise and fall with the stream itself, up to its window."""


Meanwhile = Callable[[], None]
"""What the good client does while others misbehave; returns within a second or two."""


async def _offers(url: str, count: int) -> None:
    """Offers whose sender goes away at once."""
    for _ in range(count):
        receiver = Receiver(("audio", "video"), "VP8", None)
        offer = await receiver.offer()
        await receiver.pc.close()
        while True:
            try:
                await asyncio.to_thread(post, url, offer, 1)
                break
            except HTTPError as error:
                if error.code != 503:
                    raise
                await asyncio.sleep(1.0)  # full of unfinished ones that are too new to be given up


async def _play(url: str, count: int) -> None:
    receivers = [Receiver(("audio", "video"), "VP8", None) for _ in range(count)]
    for receiver in receivers:
        answer, _ = await asyncio.to_thread(post, url, await receiver.offer())
        await receiver.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    for receiver in receivers:
        await receiver.until(receiver.packets["video"].__len__, 30)
    os.kill(os.getpid(), signal.SIGKILL)


def offers_process(url: str, count: int) -> None:
    asyncio.run(_offers(url, count))


def vanishing_process(url: str, count: int) -> None:
    asyncio.run(_play(url, count))


def unfinished(url: str, count: int, meanwhile: Meanwhile) -> None:
    _in_process(offers_process, url, count, meanwhile)


def vanish(url: str, count: int, meanwhile: Meanwhile) -> None:
    for start in range(0, count, AT_ONCE):
        _in_process(vanishing_process, url, min(AT_ONCE, count - start), meanwhile)


def _in_process(
    work: Callable[[str, int], None], url: str, count: int, meanwhile: Meanwhile
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(url, count))
    process.start()
    while process.is_alive():
        meanwhile()
    process.join()


def start_stop(players: Players, url: str, count: int) -> None:
    """In one page; every other one says goodbye."""
    for turn in range(count):
        player = players.join(url)
        players.first_frame_ms(player, 40)
        players.leave(player, say=bool(turn % 2))
        players.page.evaluate("n => { players[n] = null; }", player)
        if turn % COLLECT_EVERY == 0:
            players.page.request_gc()


class Good:
    """A client that joins, sees a picture and leaves properly, again and again."""

    def __init__(self, players: Players, url: str) -> None:
        self._players, self._url = players, url
        self.waits: list[float] = []
        self.failed = 0

    def join(self) -> None:
        try:
            player = self._players.join(self._url)
            self.waits.append(self._players.first_frame_ms(player))
            self._players.leave(player)
        except PlaywrightError:
            self.failed += 1
        self._players.wait(0.5)

    def take(self) -> dict[str, Any]:
        """Figures since the last time."""
        found: dict[str, Any] = {"joins": len(self.waits), "failed": self.failed}
        if self.waits:
            found |= {"p50_ms": quantile(self.waits, 0.5), "max_ms": quantile(self.waits, 1)}
        self.waits, self.failed = [], 0
        return found


class Census:
    """What the server's front process holds."""

    def __init__(self, server: ServerProcess) -> None:
        self._server, self._process = server, psutil.Process(server.process.pid)

    def read(self) -> dict[str, int]:
        overview = self._server.get("/v1/overview")
        return {
            "tasks": self._tasks(),
            "descriptors": self._process.num_fds(),
            "threads": self._process.num_threads(),
            "viewers": overview["live"]["viewers"],
            "pages": overview["engine"]["pages_used"],
        }

    def _tasks(self) -> int:
        """Of the event loop, as counted within the last second."""
        with urllib.request.urlopen(f"{self._server.url}/metrics", timeout=10) as answer:
            (found,) = re.findall(rb"^onbeat_event_loop_tasks (\S+)", answer.read(), re.M)
        return round(float(found))

    def rss(self) -> int:
        return int(self._process.memory_info().rss)

    def settle(self, like: dict[str, int], patience: float) -> dict[str, int]:
        """Once nothing is above `like`, or what it is after `patience` seconds."""
        began = time.monotonic()
        while True:
            now = self.read()
            back = all(now[name] <= like[name] for name in RETURN)
            if back or time.monotonic() - began > patience:
                return now
            time.sleep(0.5)


def part(
    name: str, work: Callable[[int], None], count: int, census: Census, patience: float
) -> dict[str, Any]:
    before = census.read()
    work(first := max(1, count // 2))
    census.settle(before, patience)
    time.sleep(EVERY + 2.0)
    rss, began = census.rss(), time.monotonic()
    work(max(1, count - first))
    seconds = time.monotonic() - began
    after = census.settle(before, patience)
    time.sleep(EVERY + 2.0)
    found = {
        "count": count,
        "seconds": round(seconds, 1),
        "before": before,
        "after": after,
        "kib_a_cycle": round((census.rss() - rss) / 1024 / max(1, count - first), 2),
    }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--offers", type=whole(), default=500)
    parser.add_argument("--vanish", type=whole(), default=200)
    parser.add_argument("--cycles", type=whole(), default=600)
    parser.add_argument("--patience", type=number, default=40.0)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    with served_players(parser) as (server, good):
        session = server.post("/v1/sessions", {"prompt": "a red ball over the sea", "wait": True})
        url = server.url + session["whep_url"]
        page, other = good.beside(), Good(good.beside(), url)
        watcher = good.join(url)
        good.first_frame_ms(watcher)
        census = Census(server)
        parts: dict[str, tuple[Callable[[int], None], int]] = {
            "unfinished": (lambda n: unfinished(url, n, other.join), args.offers),
            "vanished": (lambda n: vanish(url, n, other.join), args.vanish),
            "start_stop": (lambda n: start_stop(page, url, n), args.cycles),
        }
        for name, (work, count) in parts.items():
            shown = len(good.times(watcher))
            found[name] = part(name, work, count, census, args.patience)
            found[name]["good_viewer_frames"] = len(good.times(watcher)) - shown
            found[name]["good_joins"] = other.take()
            print(name, json.dumps(found[name]), flush=True)
    print(json.dumps({"benchmark": "live/churn", **found}))


if __name__ == "__main__":
    main()
