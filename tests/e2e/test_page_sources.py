"""Camera, file and recording on the preview page: what is sent arrives, what was recorded comes."""

import json
import re

import pytest
from playwright.sync_api import FilePayload, Route, expect

from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PATIENCE = 60_000
"""Milliseconds of a hopeless wait."""
SCENE = "/#prompt=a+red+ball+over+the+sea&seed=7"
CAMERA = """() => {
  const canvas = document.createElement("canvas");
  const draw = () => canvas.getContext("2d").fillRect(0, 0, 9, 9);
  setInterval(draw, 50);
  draw();
  navigator.mediaDevices.getUserMedia = async () => canvas.captureStream();
}"""
DENIED = """() => {
  navigator.mediaDevices.getUserMedia = async () => {
    throw new DOMException("no", "NotAllowedError");
  };
}"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def live(open_page: OpenPage) -> Watched:
    watched = open_page(SCENE)
    watched.wait_state("Live", 60)
    return watched


def mode(watched: Watched, server: ServerProcess) -> str:
    """Of the only session; empty while there is none, or two."""
    found = server.get("/v1/sessions")["data"]
    return found[0]["mode"] if len(found) == 1 else ""


def test_camera_and_file_are_sent_and_let_go(open_page: OpenPage, server: ServerProcess) -> None:
    watched = live(open_page)
    page = watched.page
    page.evaluate(CAMERA)
    page.check("input[name=source][value=camera]")
    until(lambda: mode(watched, server) == "video-to-video", 60, "a session with a camera")
    arriving = re.compile(r"\d+ pictures a second arrive")
    expect(page.locator("#source-state")).to_have_text(arriving, timeout=PATIENCE)
    expect(page.locator("#n-glass-name")).to_have_text("Glass to glass")
    page.locator("#strength").fill("0.9")
    expect(page.locator("#strength-value")).to_have_text("0.90")
    session = server.get("/v1/sessions")["data"][0]["id"]
    until(lambda: server.get(f"/v1/sessions/{session}")["strength"] == 0.9, 60, "the strength")
    page.check("input[name=source][value=file]")
    page.set_input_files("#source-file", {"name": "a.png", "mimeType": "image/png", "buffer": PNG})
    expect(page.locator("#source-label")).to_have_text("a.png")
    expect(page.locator("#source-error")).to_be_hidden()
    assert server.get("/v1/sessions")["data"][0]["id"] == session, "the same connection"
    page.check("input[name=source][value=words]")
    until(lambda: mode(watched, server) == "text-to-video", 60, "a session of words")
    expect(page.locator("#source-live")).to_be_hidden()


def test_a_session_that_waits_is_asked_for_no_more_once_it_is_left(open_page: OpenPage) -> None:
    """Who takes a camera while the words wait for room needs another session."""
    watched = open_page("/dashboard")
    page = watched.page
    words = {"prompt": "a ball", "seed": 7, "fps": 20, "recognised": None}
    waiting = json.dumps({"id": "session_w", "status": "queued", **words})
    full = json.dumps({"error": {"message": "All streams run.", "code": "capacity"}})
    modes: list[str | None] = []
    asked: list[str] = []

    def made(route: Route) -> None:
        modes.append((route.request.post_data_json or {}).get("mode"))
        body, status = (full, 503) if modes[-1] else (waiting, 201)
        route.fulfill(status=status, body=body, content_type="application/json")

    def known(route: Route) -> None:
        gone = "DELETE" in asked
        asked.append(route.request.method)
        route.fulfill(status=404 if gone else 200, body=waiting)

    page.route("**/v1/sessions", made)
    page.route("**/v1/sessions/session_w", known)
    page.click("text=Preview")
    watched.wait_state("Waiting for a place", 60)
    page.evaluate(CAMERA)
    page.check("input[name=source][value=camera]")
    page.wait_for_timeout(100)
    while len(modes) < 3:
        page.wait_for_timeout(50)
    assert modes[1:3] == ["video-to-video"] * 2
    assert asked[-1] == "DELETE", asked


def test_camera_that_is_not_allowed_is_said(open_page: OpenPage) -> None:
    watched = live(open_page)
    watched.page.evaluate(DENIED)
    watched.page.click("input[name=source][value=camera]")  # it goes back to words
    expect(watched.page.locator("#source-error")).to_contain_text("was not allowed. Allow it at")
    expect(watched.page.locator("input[name=source][value=words]")).to_be_checked()
    text: FilePayload = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"}
    watched.page.check("input[name=source][value=file]")
    watched.page.set_input_files("#source-file", text)
    expect(watched.page.locator("#source-error")).to_contain_text("cannot be shown")
    watched.complaints.clear()  # the browser's own line about the file


OTHER_STREAM = """() => {
  onbeat.live.session.id = "session_other";
  onbeat.live.dispatchEvent(new CustomEvent("session"));
}"""


def test_recording_runs_is_listed_saved_and_removed(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = live(open_page)
    page = watched.page
    page.keyboard.press("r")
    expect(page.locator("#rec")).to_be_visible(timeout=PATIENCE)

    def frames() -> int:
        return int(server.get("/v1/recordings")["data"][0]["frames"])

    until(lambda: frames() > 10, 60, "ten recorded pictures")
    page.click("#record")
    called = r"the recording of \d\d:\d\d:\d\d: a red ball over the sea"
    link = page.get_by_role("link", name=re.compile(f"Download {called}"))
    expect(link).to_be_visible(timeout=PATIENCE)
    facts = page.locator("#recordings small")
    expect(facts).to_have_text(re.compile(r"^\d\d:\d\d:\d\d, \d+ s, \d+\.\d MB, (MP4|WEBM)$"))
    page.evaluate(OTHER_STREAM)
    expect(facts).to_have_text(re.compile(", another stream$"), timeout=PATIENCE)
    with page.expect_download() as download:
        link.click()
    assert re.search(r"\.(mp4|webm)$", download.value.suggested_filename)
    assert len(download.value.path().read_bytes()) > 1000
    page.get_by_role("button", name=re.compile(f"Remove {called}")).click()
    expect(page.locator("#record-none")).to_be_visible(timeout=PATIENCE)
    assert server.get("/v1/recordings")["data"] == []
