"""The latency page against the server's own numbers, with an engine that stalls on command.

The server runs in a thread of this process, so that a test can hold up one stage of a frame's way.
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onbeat.server.api.gpu import GpuFigures
from tests.e2e.stage_words import stage_words
from tests.server.api.fake_engine import CHUNK_FRAMES, FPS, FakeEngine
from tests.server.api.fake_media import OFFER, FakeMedia
from tests.server.api.local_server import LocalServer
from tests.server.api.test_metrics import samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PATIENCE = 60.0
WORDS = {name: words for name, words in stage_words().items() if name not in ("pace", "handover")}
VIEWER = ("network", "buffer", "shown")
PERFETTO = """<script>
addEventListener("message", (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else globalThis.given = new TextDecoder().decode(event.data.perfetto.buffer);
});
</script>"""


class Local(LocalServer):
    """With doubles of engine and media."""

    def __init__(self, engine: FakeEngine, media: FakeMedia, folder: Path) -> None:
        super().__init__(engine, lambda: media, data_dir=folder, max_sessions=2)
        self.engine, self.media = engine, media


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    local = Local(FakeEngine(), FakeMedia(), tmp_path_factory.mktemp("local"))
    yield local
    local.close()


@pytest.fixture(scope="module")
def page(local: Local, browser: "Browser") -> Iterator["Page"]:
    """The latency page while one session is watched; one more is refused, one job has failed."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    until(lambda: page.request.get(f"{local.url}/ready").ok)
    made = page.request.post(f"{local.url}/v1/sessions", data={"prompt": "a red ball"}).json()
    headers = {"content-type": "application/sdp"}
    page.request.post(local.url + made["duplex_url"], data=OFFER, headers=headers)
    for prompt in ("a square", "one too many"):
        page.request.post(f"{local.url}/v1/sessions", data={"prompt": prompt})
    page.request.post(f"{local.url}/v1/videos", data={"prompt": "boom", "seconds": "2"})
    page.goto(f"{local.url}/dashboard")
    page.wait_for_function("() => document.getElementById('state-text').textContent === 'Live'")
    yield page
    context.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def number(text: str) -> float:
    found = re.search(r"-?\d[\d,]*(\.\d+)?", text)
    return float(found[0].replace(",", "")) if found else float("nan")


def test_the_page_says_what_the_metrics_say(local: Local, page: "Page") -> None:
    """Compared while nothing new is made, so that both are of one state."""

    def same() -> bool:
        found = samples(page.request.get(f"{local.url}/metrics").text())
        shown = {
            name: page.inner_text(f"#{name}")
            for name in (
                "t-pages t-fps-sub t-busy t-jobs-sub t-rejected t-errors t-on-time-sub t-waiting"
            ).split()
        }
        due = re.search(r"of ([\d,]+) so far", shown["t-on-time-sub"])
        sessions = re.search(r"([\d,]+) of ([\d,]+) streams, (\d+) viewers?", shown["t-fps-sub"])
        jobs = re.search(r"(\d+) failed", shown["t-jobs-sub"])
        errors = (
            found["onbeat_http_responses_total{5xx}"]
            + found["onbeat_log_records_total{error}"]
            + found["onbeat_engine_restarts_total"]
            + found["onbeat_jobs_total{failed}"]
        )
        return bool(
            due
            and sessions
            and jobs
            and number(shown["t-pages"]) == found["onbeat_kv_pages_used"]
            and f"of {found['onbeat_kv_pages']:.0f}" in shown["t-pages"]
            and number(shown["t-busy"]) == round(100 * found["onbeat_engine_busy_ratio"])
            and number(sessions[1]) == found["onbeat_sessions_active"]
            and number(sessions[2]) == found["onbeat_engine_streams_capacity"]
            and number(sessions[3]) == found["onbeat_viewers_active"]
            and number(due[1]) == found["onbeat_frames_due_total"]
            and number(jobs[1]) == found["onbeat_jobs_total{failed}"]
            and number(shown["t-rejected"]) == found["onbeat_admission_rejected_total{capacity}"]
            and number(shown["t-waiting"]) == found["onbeat_streams_waiting"]
            and number(shown["t-errors"]) == errors
        )

    until(lambda: page.inner_text("#t-on-time") != "–")
    local.engine.silent.set()
    until(same)
    local.engine.silent.clear()


@pytest.mark.parametrize("stage", list(WORDS))
def test_a_stall_in_a_stage_is_shown_as_that_stages(local: Local, page: "Page", stage: str) -> None:
    local.engine.stall = {stage: 1.0}
    for broadcast in local.media.broadcasts:
        broadcast.stall = {stage: 1.0}

    def named() -> bool:
        if stage in VIEWER:
            tell(local, stage)
        return f"goes to {WORDS[stage]}:" in page.inner_text("#slowest")

    until(named)
    local.engine.stall = {}
    for broadcast in local.media.broadcasts:
        broadcast.stall = {}


def test_a_gpu_is_shown_only_where_there_is_one(local: Local, page: "Page") -> None:
    assert page.is_hidden("#gpu")
    front = local.app.state.front
    kept, front._gpu = front._gpu, OneGpu()
    until(lambda: page.is_visible("#gpu"))
    assert page.inner_text("#t-gpu") == "40 % busy"
    assert "3.0 of 80.0 GiB" in page.inner_text("#t-gpu-sub")
    assert "250 W" in page.inner_text("#t-gpu-sub")
    front._gpu = kept
    until(lambda: page.is_hidden("#gpu"))


class OneGpu:
    def look(self) -> GpuFigures:
        return GpuFigures(name="Card", busy=0.4, memory=3 << 30, memory_total=80 << 30, power=250.4)


def tell(local: Local, stage: str) -> None:
    """What the viewer's page would say: its newest frames, with a stall on its side."""
    newest = local.media.broadcasts[0].chunks[-1].index * CHUNK_FRAMES
    buffer, shown = (2000 if stage == name else 5 for name in ("buffer", "shown"))
    stamps = [90_000 // FPS * n for n in range(max(0, newest - 30), newest)]
    message = {
        "type": "stats",
        "rtt_ms": 4000 if stage == "network" else 2,
        "frames": [[stamp, buffer, shown] for stamp in stamps],
    }
    peer = local.media.peers[0]
    assert peer.on_message is not None
    local.app.state.front._loop.call_soon_threadsafe(peer.on_message, message)
    time.sleep(0.1)


def test_a_trace_opens_in_perfetto(page: "Page") -> None:
    def stand_in(route: "Route") -> None:
        route.fulfill(body=PERFETTO, content_type="text/html")

    page.context.route("https://ui.perfetto.dev/**", stand_in)
    with page.expect_popup() as opened:
        page.click("#perfetto")
    other = opened.value
    other.wait_for_function("() => globalThis.given", timeout=1000 * PATIENCE)
    assert '"traceEvents"' in other.evaluate("() => globalThis.given")
    other.close()


def test_a_trace_is_saved(page: "Page") -> None:
    with page.expect_download() as saved:
        page.click("#trace")
    assert saved.value.suggested_filename == "onbeat-trace.json"
    assert '"traceEvents"' in Path(saved.value.path()).read_text()


def test_nothing_is_wider_than_a_phone(local: Local, browser: "Browser") -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto(f"{local.url}/dashboard")
    page.wait_for_function("() => document.getElementById('state-text').textContent === 'Live'")
    page.locator(".open").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()
