"""Mixed prompts, the microphone and relays on the preview page."""

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PATIENCE = 60_000
"""Milliseconds of a hopeless wait."""
MIXTURE = "/#prompt=a+red+ball+(0.7)+%2B+a+blue+ring+(0.3)&seed=7"
SCENE = "/#prompt=a+red+ball+over+the+sea&seed=7"
CAMERA_AND_SOUND = """() => {
  const canvas = document.createElement("canvas");
  const draw = () => canvas.getContext("2d").fillRect(0, 0, 9, 9);
  setInterval(draw, 50);
  draw();
  const context = new AudioContext();
  const tone = context.createOscillator();
  tone.start();
  globalThis.given = [];
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    if (!wanted.audio) return canvas.captureStream();
    const ear = context.createMediaStreamDestination();
    tone.connect(ear);
    given.push(ear.stream);
    return ear.stream;
  };
}"""
NO_MICROPHONE = """() => {
  navigator.mediaDevices.getUserMedia = async () => {
    throw new DOMException("no", "NotFoundError");
  };
}"""
RELAYS = "onbeat.live.peer.pc.getConfiguration().iceServers"


def live(open_page: OpenPage, path: str) -> Watched:
    watched = open_page(path)
    watched.wait_state("Live", 60)
    return watched


def prompt_of(server: ServerProcess) -> str:
    """Of the only session."""
    found = server.get("/v1/sessions")["data"]
    return str(found[0]["prompt"]) if len(found) == 1 else ""


def test_a_mixture_is_moved_added_to_and_taken_apart(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = live(open_page, MIXTURE)
    page = watched.page
    assert prompt_of(server) == "a red ball (0.7) + a blue ring (0.3)"
    expect(page.locator("#understood")).to_contain_text("red, ball, blue, ring")
    page.get_by_label("Weight of words 2").fill("0.8")
    until(lambda: prompt_of(server).endswith("a blue ring (0.8)"), 60, "the weight")
    page.get_by_label("Words 1", exact=True).fill("a green star")
    page.get_by_label("Words 1", exact=True).press("Tab")
    until(lambda: prompt_of(server).startswith("a green star (0.7)"), 60, "the words")
    expect(page.locator("#prompt")).to_have_value("a green star (0.7) + a blue ring (0.8)")
    page.click("#mix-add")
    expect(page.get_by_label("Words 3", exact=True)).to_be_focused()
    until(lambda: prompt_of(server).count("(") == 3, 60, "a third part")
    for _ in range(2):
        page.get_by_role("button", name="Take words 2 out").click()
    until(lambda: prompt_of(server) == "a green star", 60, "one prompt again")
    expect(page.locator(".mix-row")).to_have_count(0)
    page.fill("#seconds", "1")
    page.fill("#prompt", "a red ball (0.5) + a star (0.5)")
    page.press("#prompt", "Control+Enter")
    page.click("#render")
    expect(page.locator("#render-error")).to_contain_text("Take the mixture apart")


def test_a_microphone_is_heard_and_let_go(open_page: OpenPage, server: ServerProcess) -> None:
    watched = live(open_page, SCENE)
    page = watched.page
    page.evaluate(CAMERA_AND_SOUND)
    page.check("input[name=source][value=camera]")
    arriving = re.compile(r"\d+ pictures a second arrive$")
    expect(page.locator("#source-state")).to_have_text(arriving, timeout=PATIENCE)
    page.check("#microphone")
    heard = re.compile("arrive, and sound")
    expect(page.locator("#source-state")).to_have_text(heard, timeout=PATIENCE)
    page.uncheck("#microphone")
    expect(page.locator("#source-state")).to_have_text(arriving, timeout=PATIENCE)
    assert page.evaluate("given[0].getTracks()[0].readyState") == "ended"
    page.evaluate(NO_MICROPHONE)
    page.click("#microphone")
    expect(page.locator("#source-error")).to_contain_text("No microphone was found")
    expect(page.locator("#microphone")).not_to_be_checked()


@pytest.fixture
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that knows a relay, at which nobody is."""
    flags = ("--turn-urls", "turn:127.0.0.1:9?transport=udp", "--turn-secret", "between us")
    with closing(ServerProcess(tmp_path_factory.mktemp("relayed"), *flags)) as process:
        process.wait_ready()
        yield process


def test_the_page_knows_the_relay_and_plays_without_it_too(
    relayed: ServerProcess, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(relayed.url + SCENE)
    expect(page.locator("#state-text")).to_have_text("Live", timeout=PATIENCE)
    (relay,) = page.evaluate(RELAYS)
    assert relay["urls"] == ["turn:127.0.0.1:9?transport=udp"]
    assert re.fullmatch(r"\d+:client_[0-9a-f]{32}", relay["username"]) and relay["credential"]
    page.close()
