"""Viewers in Chromium and recordings of all sessions, for minutes. One JSON line last.

`python benchmarks/live/soak.py [--minutes 10] [--viewers 8] [--sessions 4] [--folder DIR]`

A server of its own on loopback; sessions by turns with VP8 and H.264 viewers, so that recordings
become WebM and MP4 at no second encode. Freezes are what the browser counts (webrtc-stats). Each
recording is decoded by FFmpeg, played by Chromium to its end after a seek, and measured: its length
against its pictures' time stamps and against its sound. It needs Chromium on the path.
"""

import argparse
import io
import json
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import av
from playwright.sync_api import Page, sync_playwright

from tests.e2e.chromium import launch
from tests.e2e.server_process import ServerProcess

PROMPTS = ("a red ball on white", "two blue squares", "a green ring bouncing", "a white star")
CODECS = ("VP8", "H264")

WATCH = """async ([url, codec]) => {
  const pc = new RTCPeerConnection();
  const codecs = RTCRtpReceiver.getCapabilities("video").codecs;
  const names = [`video/${codec}`, "video/rtx"];
  const wanted = codecs.filter((c) => names.includes(c.mimeType));
  const picture = pc.addTransceiver("video", { direction: "recvonly" });
  picture.setCodecPreferences(wanted);
  pc.addTransceiver("audio", { direction: "recvonly" });
  const video = document.createElement("video");
  Object.assign(video, { muted: true, autoplay: true, playsInline: true, width: 128 });
  document.body.append(video);
  pc.ontrack = (event) => { video.srcObject = event.streams[0]; };
  await pc.setLocalDescription();
  const headers = { "content-type": "application/sdp" };
  const answer = await fetch(url, { method: "POST", headers, body: pc.localDescription.sdp });
  if (!answer.ok) throw new Error(await answer.text());
  await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  (globalThis.viewers ??= []).push(pc);
}"""
STATS = """() => Promise.all(globalThis.viewers.map(async (pc) => {
  const found = { state: pc.connectionState };
  for (const s of (await pc.getStats()).values()) {
    if (s.type === "inbound-rtp") found[s.kind] = s;
  }
  return found;
}))"""
PLAY = """async (url) => {
  for (const pc of globalThis.viewers ?? []) pc.close();
  globalThis.viewers = [];
  const video = document.createElement("video");
  Object.assign(video, { muted: true, src: url, playsInline: true });
  document.body.append(video);
  const heard = (name) => new Promise((done, fail) => {
    video.addEventListener(name, done, { once: true });
    video.addEventListener("error", () => fail(new Error(video.error.message)), { once: true });
    setTimeout(() => fail(new Error(`no ${name} within 60 s`)), 60000);
  });
  if (video.readyState < 1) await heard("loadedmetadata");
  const over = heard("ended");
  video.currentTime = Math.max(0, video.duration - 2);
  await video.play();
  await over;
  const shown = video.getVideoPlaybackQuality().totalVideoFrames;
  video.remove();
  return { duration: video.duration, shown, width: video.videoWidth };
}"""


def measured(data: bytes) -> dict[str, float]:
    """What FFmpeg finds in a recording. Seconds."""
    with av.open(io.BytesIO(data), "r") as given:
        duration = (given.duration or 0) / 1e6
        times = [float(frame.time or 0) for frame in given.decode(video=0)]
    with av.open(io.BytesIO(data), "r") as given:
        sounds = [(float(f.time or 0), f.samples / f.sample_rate) for f in given.decode(audio=0)]
    return {
        "frames": len(times),
        "duration": duration,
        "video_from": times[0],
        "video_to": times[-1],
        "longest_gap": max(b - a for a, b in zip(times, times[1:], strict=False)),
        "audio_from": sounds[0][0],
        "audio_to": sounds[-1][0] + sounds[-1][1],
        "audio_length": sum(length for _, length in sounds),
    }


def judged(told: dict[str, Any], found: dict[str, float], played: dict[str, float]) -> Any:
    """One recording's line; errors in frames of its rate."""
    fps = told["fps"]
    end = found["video_to"] + 1 / fps
    return {
        "format": told["format"],
        "seconds": told["seconds"],
        "frames_missing": told["frames"] - found["frames"],
        "length_error_frames": round(abs(found["duration"] - end) * fps, 2),
        "told_error_frames": round(abs(told["seconds"] - end) * fps, 2),
        "browser_error_frames": round(abs(played["duration"] - end) * fps, 2),
        "audio_start_ms": round(1e3 * (found["audio_from"] - found["video_from"]), 1),
        "audio_end_ms": round(1e3 * (found["audio_to"] - end), 1),
        "audio_holes_ms": round(
            1e3 * (found["audio_to"] - found["audio_from"] - found["audio_length"]), 1
        ),
        "longest_gap_ms": round(1e3 * found["longest_gap"], 1),
        "kilobytes": round(told["bytes"] / 1e3),
    }


def run(server: ServerProcess, page: Page, minutes: float, viewers: int, sessions: int) -> Any:
    server.wait_ready()
    page.goto(server.url + "/health")
    made = [
        server.post("/v1/sessions", {"prompt": PROMPTS[n % len(PROMPTS)], "seed": n, "wait": True})
        for n in range(sessions)
    ]
    for n in range(viewers):
        session = n % sessions
        page.evaluate(WATCH, [made[session]["whep_url"], CODECS[session % 2]])
    time.sleep(5)
    before = page.evaluate(STATS)
    recordings = [server.post(each["recordings_url"], {}) for each in made]
    began = time.monotonic()
    time.sleep(60 * minutes)
    after, overview = page.evaluate(STATS), server.get("/v1/overview")
    done = [server.post(f"{each['url']}/stop", {}) for each in recordings]
    seconds = time.monotonic() - began
    lines = []
    for each in done:
        with urllib.request.urlopen(server.url + each["content_url"], timeout=60) as answer:
            found = measured(answer.read())
        lines.append(judged(each, found, page.evaluate(PLAY, each["content_url"])))
    return {
        "benchmark": "soak",
        "minutes": minutes,
        "viewers": viewers,
        "sessions": sessions,
        "recorded_s": round(seconds, 1),
        "freezes": sum(_grown(before, after, "freezeCount")),
        "frames_decoded": sum(_grown(before, after, "framesDecoded")),
        "connected": sum(each["state"] == "connected" for each in after),
        "on_time_ratio": overview["live"]["on_time_ratio"],
        "frames_missed": overview["live"]["frames_missed"],
        "recordings": lines,
    }


def _grown(before: list[Any], after: list[Any], name: str) -> list[int]:
    pairs = zip(before, after, strict=True)
    return [int(b["video"].get(name, 0) - a["video"].get(name, 0)) for a, b in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--viewers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where the server keeps its state and its log")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="onbeat-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    server = ServerProcess(folder)
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            if browser is None:
                raise SystemExit("soak: there is no chromium on the path")
            page = browser.new_page()
            print(json.dumps(run(server, page, given.minutes, given.viewers, given.sessions)))
            browser.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
