"""Headless Chromium by Playwright: how it starts, and pages that tell what went wrong in them."""

import base64
import shutil
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Browser, Page, Playwright, expect

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
INBOUND = """async () => {
  const { pc } = globalThis.onbeat.live.peer;
  const found = {};
  for (const s of (await pc.getStats()).values()) if (s.type === "inbound-rtp") found[s.kind] = s;
  return found;
}"""
RECORD = """() => {
  const video = document.getElementById("video");
  const canvas = new OffscreenCanvas(128, 128);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const seen = (globalThis.recorded = { times: [], frames: [], on: true });
  const grab = (now) => {
    context.drawImage(video, 0, 0, 128, 128);
    seen.times.push(now);
    seen.frames.push(context.getImageData(0, 0, 128, 128).data);
    if (seen.on) video.requestVideoFrameCallback(grab);
  };
  video.requestVideoFrameCallback(grab);
}"""
RECORDED = """() => {
  const seen = globalThis.recorded;
  seen.on = false;
  const frames = seen.frames.map((rgba) => {
    let text = "";
    for (let i = 0; i < rgba.length; i += 4096) {
      text += String.fromCharCode(...rgba.subarray(i, i + 4096));
    }
    return btoa(text);
  });
  return { times: seen.times, frames };
}"""


def launch(playwright: Playwright) -> Browser | None:
    """The Chromium of the system, or None if there is none."""
    path = shutil.which("chromium")
    if path is None:
        return None
    return playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))


@dataclass(kw_only=True)
class Watched:
    """A page, and what its console and its requests said."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        """A refused session is no fault of the page: it says so, waits and asks again."""
        refused = "503" in message.text and "/v1/sessions" in str(message.location)
        if message.type in ("error", "warning") and not refused:
            self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "blob:", "data:")):
            self.complaints.append(f"outside request: {request.url}")

    def wait_state(self, text: str, seconds: float = 120) -> None:
        """Until the pill in the header says `text`."""
        expect(self.page.locator("#state-text")).to_have_text(text, timeout=1000 * seconds)

    def inbound(self) -> dict[str, Any]:
        """getStats of the two inbound streams: {"video": ..., "audio": ...}."""
        found: dict[str, Any] = self.page.evaluate(INBOUND)
        return found

    def record(self) -> None:
        """Keeps every shown frame from now on, until `recorded`."""
        self.page.evaluate(RECORD)

    def recorded(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
        """Times [f] in ms of the page's clock and RGB frames [f, 128, 128, 3]."""
        seen = self.page.evaluate(RECORDED)
        raw = b"".join(base64.b64decode(frame) for frame in seen["frames"])
        rgba = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 128, 128, 4)
        return np.array(seen["times"]), rgba[..., :3].copy()
