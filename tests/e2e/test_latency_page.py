"""The latency page in a real browser beside a running preview: its numbers are the server's."""

import re

import pytest

from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess

pytestmark = pytest.mark.browser


def test_says_no_data_before_there_is_any(open_page: OpenPage) -> None:
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    assert watched.page.inner_text("#t-on-time") == "–"
    assert "no data" in watched.page.inner_text("#t-on-time-sub")
    assert "no data" in watched.page.inner_text("#stages")
    assert watched.page.is_visible("#sessions-none")


def test_shows_live_numbers(open_page: OpenPage, server: ServerProcess) -> None:
    preview = open_page("/#prompt=a+red+ball+over+the+sea&seed=7", width=500, height=600)
    preview.wait_state("Live")
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    watched.page.wait_for_timeout(5000)
    overview = server.get("/v1/overview")
    page = watched.page
    assert re.fullmatch(r"\d+(\.\d)? %", page.inner_text("#t-on-time"))
    assert page.inner_text("#t-engine").lower() == "ready"
    assert "1 of" in page.inner_text("#t-fps-sub") and "1 viewers" in page.inner_text("#t-fps-sub")
    assert overview["engine"]["model"] in page.inner_text("#t-engine-sub")
    assert f"of {overview['engine']['pages_total']:,}" in page.inner_text("#t-pages")
    assert re.search(r"p50[\s\S]+denois|\d+ ms", page.inner_text("#stages"))
    assert page.locator("#charts canvas").count() == 4


def test_session_opens_to_its_last_chunks(open_page: OpenPage) -> None:
    preview = open_page("/#prompt=a+red+ball+over+the+sea&seed=7", width=500, height=600)
    preview.wait_state("Live")
    watched = open_page("/dashboard")
    watched.wait_state("Live")
    row = watched.page.get_by_role("button", name="a red ball over the sea")
    row.wait_for()
    watched.page.wait_for_timeout(3000)
    row.click()
    assert row.get_attribute("aria-expanded") == "true"
    caption = watched.page.locator("#sessions figcaption")
    assert re.search(r"\d+ chunks, \d+ late", caption.inner_text())
    watched.page.locator("#sessions .lane canvas").focus()
    watched.page.keyboard.press("ArrowLeft")
    assert re.match(r"Chunk \d+: (on time|late), \d steps?, waiting", caption.inner_text())


def test_lines_start_with_the_history(open_page: OpenPage) -> None:
    first = open_page("/dashboard")
    first.wait_state("Live")
    first.page.wait_for_timeout(3000)
    again = open_page("/dashboard")
    again.wait_state("Live")
    again.page.wait_for_timeout(800)
    assert again.page.evaluate("onbeat.charts.points.length") >= 3
    assert again.page.is_hidden("#history-none")
