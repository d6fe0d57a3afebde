"""The latency page in a real browser beside a running preview: its numbers are the server's."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = pytest.mark.browser

PATIENCE = 60_000
"""Milliseconds of a hopeless wait."""


def test_says_no_data_before_there_is_any(open_page: OpenPage) -> None:
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    assert watched.page.inner_text("#t-on-time") == "–"
    assert "no data" in watched.page.inner_text("#t-on-time-sub")
    assert "no data" in watched.page.inner_text("#stages")
    assert watched.page.is_visible("#sessions-none")


LOWER = """async () => {
  const { showTiles } = await import("/static/js/dashboard/tiles.js");
  const overview = await (await fetch("/v1/overview")).json();
  showTiles({ ...overview, ladder: { "1 of 2 steps": 1, full: 3 } });
  return ["t-ladder", "t-ladder-sub"].map((id) => document.getElementById(id).textContent);
}"""


def test_shows_live_numbers(open_page: OpenPage, server: ServerProcess) -> None:
    preview = open_page("/#prompt=a+red+ball+over+the+sea&seed=7", width=500, height=600)
    preview.wait_state("Live")
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    page = watched.page
    expect(page.locator("#t-on-time")).to_have_text(re.compile(r"\d+(\.\d)? %"), timeout=PATIENCE)
    expect(page.locator("#t-fps-sub")).to_contain_text("1 of", timeout=PATIENCE)
    overview = server.get("/v1/overview")
    assert page.inner_text("#t-engine").lower() == "ready"
    assert page.inner_text("#t-fps-sub").endswith("streams, 1 viewer")
    assert overview["engine"]["model"] in page.inner_text("#t-engine-sub")
    assert f"of {overview['engine']['pages_total']:,}" in page.inner_text("#t-pages")
    expect(page.locator("#stages")).to_have_text(
        re.compile(r"p50[\s\S]+denois|\d+ ms"), timeout=PATIENCE
    )
    assert page.locator("#charts canvas").count() == 6
    said = page.evaluate(LOWER)
    assert said == ["1 of 4 lower", "1 stream: 1 of 2 steps; 3 streams: full"]


def test_the_viewers_half_of_a_frame_is_known(open_page: OpenPage, server: ServerProcess) -> None:
    preview = open_page("/#prompt=a+red+ball+over+the+sea&seed=7", width=500, height=600)
    preview.wait_state("Live")
    preview.page.wait_for_timeout(100)
    until(
        lambda: server.get("/v1/overview")["latency"]["shown"]["p50"] is not None,
        PATIENCE / 1000,
        "frames that a page saw",
    )
    latency = server.get("/v1/overview")["latency"]
    row = latency["shown"]["p50"]
    assert row["network"] >= 0 and row["buffer"] >= 0 and row["shown"] > 0
    assert sum(v for k, v in row.items() if k != "total") == pytest.approx(row["total"], abs=2)
    watched = open_page("/dashboard")
    expect(watched.page.locator("#stages-hint")).to_contain_text("screen", timeout=PATIENCE)


def test_session_opens_to_its_last_chunks(open_page: OpenPage) -> None:
    preview = open_page("/#prompt=a+red+ball+over+the+sea&seed=7", width=500, height=600)
    preview.wait_state("Live")
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    row = watched.page.get_by_role("button", name="a red ball over the sea")
    row.wait_for()
    row.click()
    assert row.get_attribute("aria-expanded") == "true"
    caption = watched.page.locator("#sessions figcaption")
    expect(caption).to_have_text(re.compile(r"[1-9]\d* chunks, \d+ late"), timeout=PATIENCE)
    watched.page.locator("#sessions .lane canvas").focus()
    watched.page.keyboard.press("ArrowLeft")
    expect(caption).to_have_text(re.compile(r"^Chunk \d+: (on time|late), \d steps?, waiting"))


def test_lines_start_with_the_history(open_page: OpenPage) -> None:
    first = open_page("/dashboard")
    first.wait_state("Live")
    first.page.wait_for_function("() => onbeat.charts.points.length >= 3", timeout=PATIENCE)
    again = open_page("/dashboard")
    again.wait_state("Live")
    again.page.wait_for_function("() => onbeat.charts.points.length >= 3", timeout=PATIENCE)
    assert again.page.is_hidden("#history-none")
