"""A stall in each stage of a frame's way: how soon the latency page names it. One JSON line last.

`python -m benchmarks.live.stalls [--model toybox] [--viewers 2] [--stages decode,encode]`

The real engine, the real sender and headless Chromium: one page watches a session, another shows
/dashboard, `--viewers` more come over WHEP (`onbeat bench serve` in a process of its own). Server
and engine are threads of this process, so that each stage can be held up where its work is done:
the planner (queue), a forward with steps or with commits, decoder, conversion, the reader of the
ring, each for 250 ms once a second; encoder and sender for 200 ms a frame; the network by a relay,
the jitter buffer in the browser, for good. Seconds are from the beginning to the words on the page,
with at least half of what was added. Browsers tell of their frames twice a second. Nothing from
outside holds up a browser's display (`shown`).
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, sync_playwright

import onbeat.server.engine.decode
from benchmarks.live.relay import Relay
from onbeat.models.registry import load_model, model_names
from onbeat.server.cli.flags import whole
from onbeat.server.engine.local import LocalEngine
from onbeat.webrtc.encoders import H264Encoder, Vp8Encoder
from onbeat.webrtc.viewer import PacketTrack
from tests.e2e.chromium import launch
from tests.e2e.stage_words import stage_words
from tests.server.api.local_server import LocalServer

NOT_HELD = ("pace", "shown")
WORDS = {name: words for name, words in stage_words().items() if name not in NOT_HELD}
HOLD, EVERY = 0.25, 1.0
"""Seconds that a stage is held up for, and from one time to the next."""
EACH = {"encode": 0.2, "send": 0.2}
"""Seconds for stages of single frames, each time: one frame of sixty is no tail."""
WAY, BUFFER = 0.15, 0.5
"""Seconds that the network takes longer each way, and that the jitter buffer waits."""
SEEN = {"buffer": BUFFER, "network": WAY, "commit": HOLD / 2}
"""Seconds that the stage grows by, where it is not HOLD. A commit may begin before it is waited
for."""
LIMIT = 2.0
PATIENCE, SETTLE = 30.0, 4.0
PROMPT = "a red ball bouncing over the sea"


class Stalls:
    """Holds up one stage at a time, now and then; None: nothing."""

    def __init__(self) -> None:
        self.stage: str | None = None
        self._next = 0.0

    def begin(self, stage: str | None) -> None:
        self.stage, self._next = stage, 0.0

    def seconds(self, stage: str) -> float:
        """To hold up this call of the stage for."""
        now = time.monotonic()
        if self.stage != stage or now < self._next:
            return 0.0
        if stage in EACH:
            return EACH[stage]
        self._next = now + EVERY
        return HOLD

    def hold(self, stage: str) -> None:
        if seconds := self.seconds(stage):
            time.sleep(seconds)

    def before(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, held up first."""

        def held(*given: Any, **named: Any) -> Any:
            self.hold(stage)
            return call(*given, **named)

        return held


@contextmanager
def held_up(client: LocalEngine, stalls: Stalls) -> Iterator[None]:
    """Puts the stalls into a warm engine and into the sender's classes, until left."""
    engine = client.engine
    assert engine is not None, "not warm yet"
    model, launched = client._model, engine._executor.launch
    encoders = (Vp8Encoder, H264Encoder)
    kept = [encoder.encode for encoder in encoders]
    received, convert = PacketTrack.recv, vars(onbeat.server.engine.decode)["rgb_to_i420"]

    def launch(steps: Any, commits: Any) -> Callable[[], Any]:
        done = launched(steps, commits)

        def outcome() -> Any:
            found = done()
            if commits and not steps:
                stalls.hold("commit")
            if steps:
                stalls.hold("denoise")
            return found

        return outcome

    async def recv(track: PacketTrack) -> Any:
        packet = await received(track)
        if track.kind == "video":
            await asyncio.sleep(stalls.seconds("send"))
        return packet

    put: list[tuple[Any, str, Any]] = [
        (engine.planner, "plan", stalls.before("queue", engine.planner.plan)),
        (engine._executor, "launch", launch),
        (model, "decode", stalls.before("decode", model.decode)),
        (onbeat.server.engine.decode, "rgb_to_i420", stalls.before("convert", convert)),
        (client, "take", stalls.before("handover", client.take)),
        (PacketTrack, "recv", recv),
    ]
    put += [
        (encoder, "encode", stalls.before("encode", call))
        for encoder, call in zip(encoders, kept, strict=True)
    ]
    for owner, name, value in put:
        setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(onbeat.server.engine.decode, "rgb_to_i420", convert)  # noqa: B010
        setattr(PacketTrack, "recv", received)  # noqa: B010
        for encoder, call in zip(encoders, kept, strict=True):
            setattr(encoder, "encode", call)  # noqa: B010


class Between:
    """A relay on a loop of its own between the watching page and the server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.relay = Relay()

    def pass_on(self, route: Route) -> None:
        """The server's answer, with the relay's address in it."""
        answer = route.fetch()
        if answer.status != 201:
            route.fulfill(response=answer)
            return
        opening = asyncio.run_coroutine_threadsafe(self.relay.open(answer.text()), self._loop)
        route.fulfill(response=answer, body=opening.result(20))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self.relay.close()
        await asyncio.sleep(0)  # its sockets close on the loop


class Bench:
    """A server with a real engine, a page that watches it and the latency page."""

    def __init__(self, model: str, folder: Path, browser: Browser) -> None:
        self.stalls = Stalls()
        self.client = LocalEngine(load_model(model))
        self.server = LocalServer(self.client, data_dir=folder, max_sessions=16)
        self.between = Between()
        self._browser = browser
        self.dashboard = self._page()
        self._until(self._ready, "a server that is ready")
        self.watcher = self._page()
        self.watcher.route("**/duplex", self.between.pass_on)
        self.watcher.goto(f"{self.server.url}/#prompt={PROMPT.replace(' ', '+')}&seed=7")
        self._state(self.watcher)
        self.dashboard.goto(f"{self.server.url}/dashboard")
        self._state(self.dashboard)

    def _page(self) -> Page:
        return self._browser.new_context(viewport={"width": 900, "height": 700}).new_page()

    def _ready(self) -> bool:
        front = getattr(self.server.app.state, "front", None)
        return front is not None and front.hub.state == "ready"

    def _state(self, page: Page) -> None:
        script = "() => document.getElementById('state-text').textContent === 'Live'"
        page.wait_for_function(script, timeout=1000 * PATIENCE)

    def _until(self, found: Callable[[], bool], what: str) -> float:
        """Seconds until it is so. Raises TimeoutError."""
        began = time.monotonic()
        while not found():
            if time.monotonic() - began > PATIENCE:
                raise TimeoutError(f"{what}: not in {PATIENCE:.0f} s")
            self.dashboard.wait_for_timeout(50)
        return time.monotonic() - began

    def said(self) -> str:
        """What is slow now, in the page's words."""
        return self.dashboard.inner_text("#slowest")

    def named_after(self, stage: str) -> float:
        """Seconds from the beginning of a stall to its name on the page; it is over then."""
        with held_up(self.client, self.stalls), self._held(stage):
            return self._until(lambda: self._named(stage), stage)

    @contextmanager
    def _held(self, stage: str) -> Iterator[None]:
        self.stalls.begin(stage)
        self.between.relay.delay = WAY if stage == "network" else 0.0
        self._wait_in_browser(BUFFER if stage == "buffer" else 0.0)
        try:
            yield
        finally:
            self.stalls.begin(None)
            self.between.relay.delay = 0.0
            self._wait_in_browser(0.0)

    def _wait_in_browser(self, seconds: float) -> None:
        """Its jitter buffers keep every frame so long."""
        script = """(ms) => { for (const r of onbeat.live.peer.pc.getReceivers())
            r.jitterBufferTarget = ms || null; }"""
        self.watcher.evaluate(script, 1000 * seconds)

    def settle(self, stage: str) -> None:
        """Until the frames of the last stall are out of the page's window, and the page does not
        name this stage by itself."""
        self.dashboard.wait_for_timeout(1000 * SETTLE)
        self._until(lambda: not self._named(stage), f"another stage than {stage}")

    def _named(self, stage: str) -> bool:
        """With at least half of what it was held up for: it may be the slowest by nature."""
        found = re.search(rf"goes to {WORDS[stage]}: (\d+)", self.said())
        return found is not None and int(found[1]) >= 500 * SEEN.get(stage, HOLD)

    def close(self) -> None:
        for page in (self.watcher, self.dashboard):
            page.context.close()
        self.server.close()
        self.between.close()


@contextmanager
def viewers(url: str, count: int, folder: Path) -> Iterator[None]:
    """So many more, in a process of their own, until left."""
    if not count:
        yield
        return
    arrivals = folder / "arrivals.csv"
    rows = "".join(f"{n / 5},3600,live\n" for n in range(count))
    arrivals.write_text("start,seconds,class\n" + rows)
    command = [sys.executable, "-m", "onbeat.server", "bench", "serve", "--url", url]
    command += ["--arrivals", str(arrivals), "--seconds", "3600", "--warm", "0", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.kill()
        child.wait()


def measure(bench: Bench, stages: list[str]) -> dict[str, float | None]:
    """Seconds by stage; None for one that was not named in PATIENCE."""
    took: dict[str, float | None] = {}
    for stage in stages:
        try:
            bench.settle(stage)
            took[stage] = round(bench.named_after(stage), 2)
        except TimeoutError as error:
            print(f"{error}; {bench.said()}", file=sys.stderr)
            took[stage] = None
        print(f"{stage:10} {took[stage]}", file=sys.stderr)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=model_names(), default="toybox")
    parser.add_argument("--viewers", type=whole(0), default=2, help="beside the page")
    parser.add_argument("--stages", default=",".join(WORDS))
    given = parser.parse_args()
    stages = given.stages.split(",")
    if unknown := set(stages) - set(WORDS):
        parser.error(f"stages: {', '.join(unknown)}; allowed: {', '.join(WORDS)}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is None:
            sys.exit("there is no chromium in the PATH")
        with closing(Bench(given.model, Path(folder), browser)) as bench:
            with viewers(bench.server.url, given.viewers, Path(folder)):
                took = measure(bench, stages)
        browser.close()
    slow = [stage for stage, seconds in took.items() if seconds is None or seconds > LIMIT]
    found = {"benchmark": "live/stalls", "model": given.model, "viewers": 1 + given.viewers}
    print(json.dumps(found | {"seconds": took, "limit": LIMIT, "over_limit": slow}))


if __name__ == "__main__":
    main()
