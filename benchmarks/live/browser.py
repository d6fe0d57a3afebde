"""Chromium as a WHEP player for the benchmarks: a page without a page of ours, and what it saw.

`Players` join by POST, count frames as they are presented, and read getStats; `served_players` has
them on a server of their own.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.chromium import launch
from tests.e2e.server_process import ServerProcess

SCRIPT = """
globalThis.players = [];
globalThis.post = async (url, sdp) => {
  const headers = {"content-type": "application/sdp"};
  const answer = await fetch(url, {method: "POST", body: sdp, headers});
  if (answer.status !== 201) throw new Error(`${answer.status} ${await answer.text()}`);
  return [await answer.text(), answer.headers.get("location")];
};
globalThis.join = async (url, relayed) => {
  const pc = new RTCPeerConnection({iceServers: []});
  const video = document.createElement("video");
  const player = {pc, video, times: [], location: null, first: null};
  players.push(player);
  video.muted = true; video.autoplay = true; document.body.append(video);
  video.srcObject = new MediaStream();
  pc.ontrack = (event) => video.srcObject.addTrack(event.track);
  for (const kind of ["video", "audio"]) pc.addTransceiver(kind, {direction: "recvonly"});
  await pc.setLocalDescription(await pc.createOffer());
  await new Promise((done) => {
    if (pc.iceGatheringState === "complete") done();
    pc.onicegatheringstatechange = () => pc.iceGatheringState === "complete" && done();
    setTimeout(done, 250);
  });
  const began = performance.now();
  const shown = (now) => {
    player.times.push(now);
    player.first ??= performance.now() - began;
    video.requestVideoFrameCallback(shown);
  };
  video.requestVideoFrameCallback(shown);
  const [sdp, location] = relayed
    ? [await globalThis.answer(pc.localDescription.sdp, relayed), null]
    : await post(url, pc.localDescription.sdp);
  player.location = location;
  await pc.setRemoteDescription({type: "answer", sdp});
  return players.length - 1;
};
globalThis.leave = async (number, say) => {
  const {pc, video, location} = players[number];
  pc.close(); video.srcObject = null; video.remove();
  if (say && location) await fetch(location, {method: "DELETE"});
};
globalThis.inbound = async (number) => {
  const found = {};
  for (const s of (await players[number].pc.getStats()).values())
    if (s.type === "inbound-rtp") found[s.kind] = s;
  return found;
};
"""


class Players:
    """WHEP players in one page, which lies at `url` for the sake of its origin."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self.context = browser.new_context()
        self.page: Page = self.context.new_page()
        self.page.goto(url)
        self.page.evaluate("() => {" + SCRIPT + "}")

    def beside(self) -> "Players":
        """Another page like this one, in a context of its own."""
        return Players(self._browser, self._url)

    def join(self, url: str, relayed: str | None = None) -> int:
        """The player's number, once its answer is set. Raises playwright's Error."""
        return int(self.page.evaluate("([u, r]) => join(u, r)", [url, relayed]))

    def first_frame_ms(self, number: int, timeout: float = 20.0) -> float:
        """From the POST to the first presented frame."""
        self.page.wait_for_function(
            "n => players[n].first !== null", arg=number, timeout=1e3 * timeout, polling=10
        )
        return float(self.page.evaluate("n => players[n].first", number))

    def times(self, number: int) -> list[float]:
        """Instants, ms of the page's clock, at which frames were presented."""
        return list(self.page.evaluate("n => players[n].times", number))

    def now(self) -> float:
        return float(self.page.evaluate("performance.now()"))

    def inbound(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("n => inbound(n)", number)
        return found

    def leave(self, number: int, *, say: bool = True) -> None:
        """Closes the connection; `say`: with a DELETE."""
        self.page.evaluate("([n, s]) => leave(n, s)", [number, say])

    def wait(self, seconds: float) -> None:
        self.page.wait_for_timeout(1e3 * seconds)


@contextmanager
def served_players(parser: argparse.ArgumentParser) -> Iterator[tuple[ServerProcess, Players]]:
    """A server of its own that is ready, and a page of players on it; without a browser the
    program ends."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        closing(ServerProcess(Path(folder))) as server,
    ):
        browser = launch(playwright)
        if browser is None:
            parser.exit(1, "there is no chromium in the PATH\n")
        server.wait_ready()
        yield server, Players(browser, server.url + "/v1/models")
        browser.close()
