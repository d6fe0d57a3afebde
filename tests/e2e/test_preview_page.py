"""The live preview in a real browser: it plays, sounds, obeys, explains, and comes back."""

import json
import os
import re
import signal
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pytest
from playwright.sync_api import expect

from onbeat.models.toybox.concepts import BACKGROUNDS
from onbeat.models.toybox.detector import find_blob
from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SILENCE = 0.001
"""Root mean square of full scale, -60 dB."""
FLOWING = 5
"""Frames in a second that say that the picture goes on; how smoothly is a test of its own."""
RED = "a red ball bouncing over the sea"
STATES = """() => {
  globalThis.states = [];
  new MutationObserver((all) => {
    for (const each of all) for (const node of each.addedNodes) states.push(node.textContent);
  }).observe(document.getElementById("state-text"), { childList: true });
}"""
"""Keeps what the pill in the header says, however short."""


def scene(prompt: str, seed: int = 7) -> str:
    return f"/#prompt={quote(prompt)}&seed={seed}"


def loudness(before: dict[str, Any], after: dict[str, Any]) -> float:
    """Root mean square of the sound between two reports of getStats."""
    energy = after["totalAudioEnergy"] - before["totalAudioEnergy"]
    return float((energy / (after["totalSamplesDuration"] - before["totalSamplesDuration"])) ** 0.5)


WINDOWS = 3
"""Wall-clock figures count if one of so many windows shows them: the machine may be shared."""


def test_plays_and_sounds(open_page: OpenPage) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.click("#unmute")
    seen = []
    for _ in range(WINDOWS):
        before = watched.inbound()
        watched.page.wait_for_timeout(6_000)
        after = watched.inbound()
        assert loudness(before["audio"], after["audio"]) > SILENCE
        decoded, freezes = (
            after["video"][name] - before["video"][name]
            for name in ("framesDecoded", "freezeCount")
        )
        seen.append((decoded, freezes))
        if decoded >= 6 * FLOWING:
            break
    else:
        pytest.fail(f"(frames decoded, freezes) in 6 s: {seen}; wanted {6 * FLOWING} frames")
    assert watched.page.inner_text("#n-sent").split()[0] != "–"


def type_prompt(watched: Watched, prompt: str) -> None:
    """Types and applies."""
    watched.page.fill("#prompt", prompt)
    watched.page.press("#prompt", "Control+Enter")


def colours(frames: npt.NDArray[np.uint8]) -> list[str | None]:
    """The colour of the largest object of each frame over the sea."""
    found = [find_blob(frame, BACKGROUNDS.index("sea")) for frame in frames]
    return [blob[0] if blob else None for blob in found]


COLOURS = ("green", "yellow", "blue", "red")
TRIES = 4
"""Of 3 s each, in which a colour may come; how soon it does is the benchmarks' to say."""


def becomes(watched: Watched, wanted: str) -> bool:
    """Whether most of what is shown gets that colour."""
    for _ in range(TRIES):
        watched.record()
        watched.page.wait_for_timeout(3000)
        _, frames = watched.recorded()
        late = colours(frames[len(frames) // 2 :])
        if late.count(wanted) >= 0.6 * max(1, len(late)):
            return True
    return False


def test_typed_prompts_change_the_colour(open_page: OpenPage) -> None:
    """The model is small and now and then paints another colour: most of the changes count."""
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.wait_for_timeout(3000)
    seen: list[str] = []
    for wanted in COLOURS:
        type_prompt(watched, RED.replace("red", wanted))
        seen += [wanted] if becomes(watched, wanted) else []
        expect(watched.page.locator("#understood")).to_contain_text(wanted)
    assert len(seen) >= 3, f"colours that came: {seen}"
    assert watched.page.inner_text("#n-photon") != "–"


def test_says_what_it_did_not_understand(open_page: OpenPage) -> None:
    watched = open_page(scene("qwertz asdf"))
    watched.wait_state("Live")
    expect(watched.page.locator("#understood")).to_contain_text("knows none of these words")
    watched.page.fill("#prompt", "   ")
    watched.page.press("#prompt", "Control+Enter")
    assert watched.page.is_visible("#prompt-error")
    watched.page.fill("#seed", "abc")
    watched.page.press("#seed", "Tab")
    assert "whole number" in watched.page.inner_text("#seed-error")


def frames_shown(watched: Watched) -> int:
    """In a second. A resting picture is repeated about twice a second, a live one has 20 fps."""
    before = watched.inbound()["video"]["framesDecoded"]
    watched.page.wait_for_timeout(1000)
    return int(watched.inbound()["video"]["framesDecoded"] - before)


def wait_picture(watched: Watched, *, flows: bool, tries: int = 20) -> None:
    """Until the picture goes on, or rests."""
    seen: list[int] = []
    while len(seen) < tries:
        seen.append(frames_shown(watched))
        if (seen[-1] >= FLOWING) is flows:
            return
    pytest.fail(f"frames in each second: {seen}; wanted flows={flows}, {FLOWING} and more")


def test_pause_rests_and_goes_on(open_page: OpenPage) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.keyboard.press("k")
    watched.wait_state("Paused")
    wait_picture(watched, flows=False)
    watched.page.keyboard.press("k")
    watched.wait_state("Live")
    wait_picture(watched, flows=True)


def test_controls_reach_the_server(open_page: OpenPage, server: ServerProcess) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.keyboard.press("1")
    watched.page.click("#dice")
    seed = watched.page.input_value("#seed")
    address = f"/v1/sessions/{watched.page.evaluate('onbeat.live.session.id')}"

    def arrived() -> bool:
        session = server.get(address)
        return session["num_inference_steps"] == 1 and str(session["seed"]) == seed

    until(arrived, 60, "the steps and the seed of the page")
    expect(watched.page).to_have_url(re.compile(f"seed={seed}&steps=1"), timeout=60_000)
    with watched.page.expect_download() as download:
        watched.page.keyboard.press("s")
    assert download.value.suggested_filename.endswith(".png")
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_leaving_ends_the_session(open_page: OpenPage, server: ServerProcess) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    until(lambda: server.get("/v1/overview")["live"]["sessions"] == 1, 60, "the session")
    watched.page.click("text=Latency")
    until(lambda: server.get("/v1/overview")["live"]["sessions"] == 0, 60, "the end of the session")


WAITS = """async () => {
  const { reckoned } = await import("/static/js/preview/phases.js");
  const { sentence } = await import("/static/js/preview/wording.js");
  let phase = { name: "starting" };
  return [[0, 2], [19.5, 2], [45, 2], [46, 1]].map(([second, position]) => {
    phase = reckoned({ name: "queued", position, estimate: 30 }, phase, 1000 * second);
    return sentence(phase, 1000 * second).split(". ")[1];
  });
}"""
"""What is said of an estimate that the server tells anew each time, and after a step forward."""


BUSY = """async () => {
  const { ApiError } = await import("/static/js/shared/api.js");
  const { afterFailure } = await import("/static/js/preview/phases.js");
  const { PHASES } = await import("/static/js/preview/wording.js");
  const error = Object.create(ApiError.prototype);
  Object.assign(error, { status: 503, code: "engine_busy" });
  return PHASES[afterFailure(error, 0, false, false).phase.name].title;
}"""


def test_refusal_shows_the_place_in_line_and_tries_again(open_page: OpenPage) -> None:
    watched = open_page("/dashboard")
    refusal = {"error": {"message": "All 6 streams run.", "code": "capacity", "param": None}}
    body = json.dumps({**refusal, "queue_position": 2, "retry_after": 2})
    kind = "application/problem+json"
    watched.page.route(
        "**/v1/sessions", lambda route: route.fulfill(status=503, body=body, content_type=kind)
    )
    watched.page.click("text=Preview")
    watched.wait_state("Waiting for a place")
    assert "1 stream before you." in watched.page.inner_text("#veil-text")
    watched.page.dispatch_event("#compare-keep", "click")
    expect(watched.page.locator("#compare-error")).to_have_text(re.compile("no running picture"))
    queued = {"id": "session_line", "status": "queued", "prompt": RED, "seed": 7}
    line = json.dumps(queued | {"queue_position": 1, "estimated_wait_s": 30, "recognised": None})
    watched.page.route(
        re.compile("/v1/sessions(/session_line)?$"),
        lambda route: route.fulfill(status=201, body=line, content_type="application/json"),
    )
    counts = re.compile(r"You are next\. (About (?!30)\d+ s to go|It takes longer)")
    expect(watched.page.locator("#veil-text")).to_have_text(counts, timeout=30_000)
    assert watched.page.evaluate(WAITS) == [
        "About 30 s to go",
        "About 11 s to go",
        "It takes longer than estimated: 45 s so far",
        "About 30 s to go",
    ]
    watched.page.unroute_all()
    watched.wait_state("Live")
    expect(watched.page.locator("#compare-error")).to_be_hidden(timeout=30_000)
    assert watched.page.evaluate(BUSY) == "The engine takes long to answer"
    watched.complaints.clear()  # the browser's own line about the session that never was


def test_killed_engine_comes_back_without_reload(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.evaluate("globalThis.sameDocument = true")
    watched.page.evaluate(STATES)
    os.kill(server.get("/v1/overview")["engine"]["pid"], signal.SIGKILL)
    watched.page.wait_for_function("() => states.includes('Restarting')")
    watched.wait_state("Live", 60)
    assert watched.page.evaluate("globalThis.sameDocument") is True
    wait_picture(watched, flows=True)
    assert server.get("/v1/overview")["engine"]["restarts"] >= 1


def test_renders_a_file(open_page: OpenPage) -> None:
    watched = open_page(scene(RED))
    watched.wait_state("Live")
    watched.page.fill("#seconds", "1")
    watched.page.click("#render")
    link = watched.page.locator(".job a")
    link.first.wait_for(timeout=60_000)
    with watched.page.expect_download() as download:
        link.first.click()
    assert download.value.suggested_filename.endswith(".mp4")
    assert b"ftyp" in download.value.path().read_bytes()[:16]


FULL = json.dumps(
    {"error": {"message": "1 viewer is connected.", "code": "capacity"}, "retry_after": 1}
)


def test_watch_link_shows_the_same_stream(open_page: OpenPage) -> None:
    steering = open_page(scene(RED), width=500, height=700)
    steering.wait_state("Live")
    steering.page.keyboard.press("l")
    address = steering.page.input_value("#link-watch")
    watching = open_page("/dashboard", width=500, height=700)
    refused: list[str] = []

    def refuse(route: Any) -> None:
        refused.append(route.request.url)
        route.fulfill(status=503, body=FULL, content_type="application/problem+json")

    watching.page.route(re.compile("/whep"), refuse)
    watching.page.goto(address)
    watching.wait_state("Waiting for a place")
    watching.page.evaluate(STATES)
    tries = len(refused)
    while len(refused) < tries + 2:
        watching.page.wait_for_timeout(50)
    assert watching.page.evaluate("states.every((s) => s === 'Waiting for a place')")
    watching.page.unroute_all()
    watching.wait_state("Live")
    wait_picture(watching, flows=True)
    assert not watching.page.is_visible("#prompt")
    assert all("503" in complaint for complaint in watching.complaints)
    watching.complaints.clear()


def test_a_link_to_no_stream_says_so(open_page: OpenPage) -> None:
    watched = open_page("/#watch=session_nope")
    watched.wait_state("Not there")
    assert "There is no such stream" in watched.page.inner_text("#veil-title")
    assert all("404" in complaint for complaint in watched.complaints)
    watched.complaints.clear()
