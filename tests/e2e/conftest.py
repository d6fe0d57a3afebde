"""A real server and a real browser. Both live as long as one module of tests.

The browser is not kept longer: Playwright holds an event loop that other tests would stumble over.
"""

import os
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from tests.e2e.server_process import ServerProcess

try:
    from playwright.sync_api import Browser, expect, sync_playwright

    from tests.e2e.chromium import Watched, launch

    expect.set_options(timeout=60_000)  # what a hopeless wait is, on a busy machine too
except ImportError:  # the fixture below says so
    sync_playwright = None  # type: ignore[assignment]

OpenPage = Callable[..., "Watched"]


def missing(reason: str) -> None:
    """Skips, or fails where a browser is demanded."""
    if os.environ.get("ONBEAT_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with closing(ServerProcess(tmp_path_factory.mktemp("server"))) as process:
        process.wait_ready()
        yield process


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    if sync_playwright is None:
        missing("the Python package playwright is not installed")
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        if chromium is None:
            missing("there is no chromium in the PATH")
            return
        yield chromium
        chromium.close()


def end_sessions(server: ServerProcess) -> None:
    """A page says goodbye when it is left, but not when its browser is closed or too busy."""
    for session in server.get("/v1/overview")["sessions"]:
        with suppress(urllib.error.HTTPError):  # gone since
            server.delete(f"/v1/sessions/{session['id']}")


@pytest.fixture
def open_page(server: ServerProcess, browser: "Browser") -> Iterator[OpenPage]:
    """Opens pages of the server, each in a context of its own; they must not complain."""
    opened: list[Watched] = []

    def open_one(path: str = "/", *, width: int = 1000, height: int = 760) -> Watched:
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(60_000)
        watched = Watched(page=context.new_page(), origin=server.url)
        opened.append(watched)
        watched.page.goto(server.url + path)
        return watched

    yield open_one
    for watched in opened:
        watched.page.context.close()
    end_sessions(server)
    complaints = [complaint for watched in opened for complaint in watched.complaints]
    assert not complaints, complaints
