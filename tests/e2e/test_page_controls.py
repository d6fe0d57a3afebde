"""Every control of the preview page does what it says, and what goes wrong is said in words."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PATIENCE = 60_000
"""Milliseconds of a hopeless wait."""
RED = "a red ball over the sea"
SCENE = "/#prompt=a+red+ball+over+the+sea&seed=7"


def live(open_page: OpenPage, path: str = SCENE, **size: int) -> Watched:
    watched = open_page(path, **size)
    watched.wait_state("Live", 60)
    return watched


def session(watched: Watched, server: ServerProcess) -> Any:
    """The page's session as the server has it."""
    return server.get(f"/v1/sessions/{watched.page.evaluate('onbeat.live.session.id')}")


def reaches(watched: Watched, server: ServerProcess, field: str, wanted: Any) -> None:
    until(lambda: session(watched, server)[field] == wanted, 60, f"{field} = {wanted}")


def heard(watched: Watched) -> None:
    """Keeps what the page sends by its data channel in `sent`."""
    watched.page.evaluate("""() => {
        globalThis.sent = [];
        const peer = onbeat.live.peer;
        const send = peer.send.bind(peer);
        peer.send = (message) => (message.type === "control" && sent.push(message), send(message));
    }""")


def keep_a(watched: Watched) -> None:
    """Until there is room for A: a machine that is busy elsewhere has less of it for a while."""

    def kept() -> bool:
        watched.page.keyboard.press("c")
        either = watched.page.locator("#compare, #compare-error").locator("visible=true")
        expect(either.first).to_be_visible(timeout=PATIENCE)
        return watched.page.is_visible("#compare")

    until(kept, 60, "room for A")
    watched.complaints.clear()  # of refusals


def test_words_apply_by_themselves_when_wanted(open_page: OpenPage, server: ServerProcess) -> None:
    watched = live(open_page)
    watched.page.check("#as-you-type")
    watched.page.locator("#prompt").press_sequentially(" blue", delay=5)
    wanted = f"{RED} blue"
    reaches(watched, server, "prompt", wanted)
    expect(watched.page.locator("#understood")).to_contain_text("blue", timeout=PATIENCE)
    expect(watched.page).to_have_url(re.compile("blue"), timeout=PATIENCE)
    watched.page.reload()
    watched.wait_state("Live")
    expect(watched.page.locator("#prompt")).to_have_value(wanted)
    expect(watched.page.locator("#as-you-type")).to_be_checked()


def test_seed_is_kept_or_drawn_anew_with_new_words(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = live(open_page)
    page = watched.page
    page.get_by_role("button", name="Blue ring, sunset").click()
    reaches(watched, server, "prompt", "a blue ring floating at sunset")
    assert session(watched, server)["seed"] == 7
    page.click("#lock")
    expect(page.locator("#seed-hint")).to_have_text("Drawn anew when the words change")
    page.get_by_role("button", name="Green star, snow").click()
    until(lambda: session(watched, server)["seed"] != 7, 60, "another seed")
    page.fill("#seed", "5000000000")
    page.press("#seed", "Tab")
    expect(page.locator("#seed-error")).to_contain_text("A whole number from 0 to 4294967295")


def test_change_of_words_can_cut_or_morph(open_page: OpenPage) -> None:
    watched = live(open_page)
    heard(watched)
    page = watched.page
    page.check("input[value=recache]")
    page.fill("#prompt", "a blue ball over the sea")
    page.click("#apply")
    page.wait_for_function("() => sent.length > 0")
    assert page.evaluate("sent") == [
        {"type": "control", "prompt": "a blue ball over the sea", "transition": "recache"}
    ]
    expect(page).to_have_url(re.compile("transition=recache"), timeout=PATIENCE)
    expect(page.locator("#prompt-error")).to_be_hidden()


def test_pictures_a_second_are_asked_for_by_keyboard_and_acknowledged(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = live(open_page)
    page = watched.page
    state = page.locator("#fps-state")
    expect(state).to_have_text("Now 20.")
    group = page.get_by_role("radiogroup", name="Pictures a second")
    group.get_by_role("radio", name="20").focus()
    page.keyboard.press("ArrowRight")
    expect(state).to_have_text(re.compile(r"Now 10, from chunk \d+ on\."), timeout=PATIENCE)
    reaches(watched, server, "fps", 10)
    assert group.get_by_role("radio", name="10").is_checked()
    page.route("**/v1/sessions/*", answer(422, "invalid_value", "fps: 5 is not allowed", "fps"))
    page.evaluate("() => { onbeat.live.peer.send = () => false; }")
    group.get_by_role("radio", name="5").evaluate("(radio) => radio.click()")
    expect(page.locator("#fps-error")).to_contain_text("not allowed", timeout=PATIENCE)
    expect(group.get_by_role("radio", name="10")).to_be_checked()
    watched.complaints.clear()  # the browser's own line about the refusal


def test_own_scenes_are_kept_and_used(open_page: OpenPage, server: ServerProcess) -> None:
    watched = live(open_page, SCENE + "&steps=3")
    page = watched.page
    page.click("#save-scene")
    page.get_by_role("button", name="Blue ring, sunset").click()
    page.reload()
    watched.wait_state("Live")
    page.keyboard.press("1")
    page.keyboard.press("d")
    page.get_by_role("button", name=f"{RED} #7", exact=True).click()
    for field, wanted in (("prompt", RED), ("seed", 7), ("num_inference_steps", 3)):
        reaches(watched, server, field, wanted)
    page.get_by_role("button", name=f"Remove {RED}").click()
    expect(page.locator("#own-scenes")).to_be_hidden()


def test_a_is_kept_shown_while_held_and_taken_back(
    open_page: OpenPage, server: ServerProcess
) -> None:
    watched = live(open_page)
    page = watched.page
    first = session(watched, server)["id"]
    keep_a(watched)
    page.get_by_role("button", name="Blue ring, sunset").click()
    reaches(watched, server, "prompt", "a blue ring floating at sunset")
    a_picture = page.locator("#video-a")
    page.keyboard.down("a")
    expect(a_picture).to_be_visible()
    page.keyboard.up("a")
    expect(a_picture).to_be_hidden()
    page.locator("#compare-hold").dispatch_event("click")  # as a screen reader does it
    expect(page.locator("#compare-hold")).to_have_attribute("aria-pressed", "true")
    assert a_picture.evaluate("(video) => !video.paused && video.videoWidth > 0")
    page.click("#compare-adopt")
    expect(page.locator("#compare")).to_be_hidden(timeout=PATIENCE)
    watched.wait_state("Live")
    assert session(watched, server)["prompt"] == RED
    assert session(watched, server)["id"] != first
    expect(page.locator("#prompt")).to_have_value(RED)
    until(lambda: len(server.get("/v1/sessions")["data"]) == 1, 60, "the end of the other one")


def test_a_is_let_go_with_its_stream(open_page: OpenPage, server: ServerProcess) -> None:
    watched = live(open_page)
    keep_a(watched)
    watched.page.click("#compare-drop")
    expect(watched.page.locator("#compare")).to_be_hidden()
    until(lambda: len(server.get("/v1/sessions")["data"]) == 1, 60, "the end of A")
    watched.page.click("text=Latency")
    until(lambda: not server.get("/v1/sessions")["data"], 60, "the end of B")


def test_numbers_and_watchers_are_shown(open_page: OpenPage) -> None:
    watched = live(open_page)
    watched.page.keyboard.press("o")
    watched.page.keyboard.press("l")
    link = watched.page.input_value("#link-watch")
    assert watched.page.input_value("#link-whep").endswith("/whep")
    watched.page.keyboard.press("Escape")
    guest = live(open_page, link.removeprefix(watched.origin), width=390, height=844)
    expect(watched.page.locator("#n-viewers")).to_have_text("2", timeout=PATIENCE)
    expect(guest.page.locator("#why")).to_contain_text("2 watch", timeout=PATIENCE)
    figures = ("generated", "sent", "shown", "on-time", "rtt", "slack", "glass", "quality")
    for name in figures:
        expect(watched.page.locator(f"#n-{name}")).to_have_text(re.compile(r"\w"), timeout=PATIENCE)
        expect(guest.page.locator(f"#n-{name}")).to_have_text(re.compile(r"\w"), timeout=PATIENCE)
    expect(watched.page.locator("#hud-fps")).to_have_text(
        re.compile(r"\d+ / \d+ / \d+"), timeout=PATIENCE
    )
    watched.page.get_by_role("button", name="Blue ring, sunset").click()
    expect(guest.page.locator("#why")).to_contain_text("blue ring", timeout=PATIENCE)
    assert guest.page.locator("#compare-keep, #pause, #prompt").evaluate_all(
        "(all) => all.every((e) => !e.checkVisibility())"
    )
    watched.page.keyboard.press("k")
    guest.wait_state("Paused")
    watched.page.click("text=Latency")
    guest.wait_state("Ended")


def test_window_modes_call_the_browser(open_page: OpenPage) -> None:
    """The calls themselves; a headless browser has no windows to show."""
    watched = live(open_page)
    page = watched.page
    page.evaluate("""() => {
        globalThis.asked = [];
        HTMLVideoElement.prototype.requestPictureInPicture = async () => asked.push("pip");
        Element.prototype.requestFullscreen = async function () { asked.push(this.id); };
    }""")
    page.click("#pip")
    page.click("#fullscreen")
    page.keyboard.press("i")
    page.keyboard.press("f")
    assert page.evaluate("asked") == ["pip", "stage", "pip", "stage"]
    page.keyboard.press("p")
    expect(page.locator("#stage")).to_have_class(re.compile("pixelated"))
    page.click("#theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_phone_has_every_control_in_sight(open_page: OpenPage) -> None:
    watched = live(open_page, SCENE, width=390, height=844)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate("""() => [...document.querySelectorAll(".deck button, .primary")]
        .filter((e) => e.checkVisibility()).map((e) => [e.id, e.getBoundingClientRect()])
        .filter(([, box]) => box.width < 44 || box.height < 44 || box.right > 390).map(([id]) => id)
    """)
    assert small == []


def answer(
    status: int, code: str, message: str, param: str | None = None
) -> Callable[[Route], None]:
    error = {"message": message, "code": code, "type": "server_error", "param": param}
    body = json.dumps({"error": error})
    return lambda route: route.fulfill(
        status=status, body=body, content_type="application/problem+json"
    )


FAILURES = (
    (503, "engine_starting", "Warming up", "by itself|Trying again"),
    (503, "engine_failed", "Not running", "log"),
    (422, "invalid_value", "Not accepted", "Change it and apply again"),
    (0, "", "Server not reached", "onbeat serve"),
)


@pytest.mark.parametrize("status, code, pill, words", FAILURES)
def test_failures_say_what_to_do(
    open_page: OpenPage, status: int, code: str, pill: str, words: str
) -> None:
    watched = open_page("/dashboard")
    refuse = answer(status, code, "prompt: 'x' is not allowed")
    watched.page.route(
        "**/v1/sessions", refuse if status else lambda route: route.abort("connectionrefused")
    )
    watched.page.click("text=Preview")
    watched.wait_state(pill)
    expect(watched.page.locator("#veil-text")).to_have_text(re.compile(words))
    if code == "invalid_value":
        expect(watched.page.locator("#prompt-error")).to_contain_text("is not allowed")
        watched.page.unroute("**/v1/sessions")
        watched.page.press("#prompt", "Control+Enter")
        watched.wait_state("Live")
    watched.page.goto("about:blank")  # it would try again, and fail, after what is cleared here
    watched.complaints.clear()  # the browser's own lines about the failed requests


NOWHERE = """
const Real = RTCPeerConnection;
globalThis.RTCPeerConnection = class extends Real {
  constructor(settings) { super({ ...settings, iceTransportPolicy: "relay" }); }
};
"""


def test_a_browser_without_an_address_says_so(open_page: OpenPage) -> None:
    """As one has none on a machine with loopback alone; it would wait for ever."""
    watched = open_page("/dashboard")
    watched.page.add_init_script(NOWHERE)
    watched.page.click("text=Preview")
    watched.wait_state("No network path", 60)
    expect(watched.page.locator("#veil-title")).to_contain_text("No network path to the server")
    expect(watched.page.locator("#veil-text")).to_contain_text("no address to send from")
    expect(watched.page.get_by_role("button", name="Try now")).to_be_visible()


def test_no_room_for_a_is_said_and_the_stream_goes_on(open_page: OpenPage) -> None:
    watched = live(open_page)
    watched.page.route("**/fork", answer(503, "capacity", "All 6 streams run."))
    watched.page.click("#compare-keep")
    expect(watched.page.locator("#compare-error")).to_contain_text("no room to keep A")
    expect(watched.page.locator("#compare")).to_be_hidden()
    watched.wait_state("Live")
    watched.complaints.clear()
