"""The stage, the page, and the clients of others; a test skips and says why if one is missing."""

import urllib.error
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.interop.hosting import FOLDER, Pages, Stage, one_address

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KEY = "stage-key-of-tests"
RunPage = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def npm_clients() -> None:
    """Skips unless `npm ci` has been done here (the set-up of the tests does it)."""
    if not (FOLDER / "node_modules" / "whip-whep").is_dir():
        pytest.skip("the npm clients are not installed: npm ci in tests/e2e/interop does it")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    settings = {"webrtc_addresses": one_address(), "api_key": KEY}
    with closing(Stage(folder, **settings)) as process:
        yield process


@pytest.fixture
def session(stage: Stage) -> Iterator[dict[str, Any]]:
    """A session that takes video, until the test ends."""
    made = stage.session()
    yield made
    with suppress(urllib.error.HTTPError):
        stage.request(f"/v1/sessions/{made['id']}", method="DELETE")


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with closing(Pages()) as served:
        yield served


@pytest.fixture
def in_chromium(
    npm_clients: None, browser: "Browser", pages: Pages, stage: Stage
) -> Iterator[RunPage]:
    """Runs a scenario of clients.js in headless Chromium."""
    context = browser.new_context()
    page = context.new_page()

    def run(**options: Any) -> dict[str, Any]:
        page.goto(f"{pages.url}/clients.html")
        page.wait_for_function("() => globalThis.ready")
        options = {"stage": stage.url, "frames": 12} | options
        page.set_default_timeout(120_000)
        found: dict[str, Any] = page.evaluate("(options) => run(options)", options)
        assert "error" not in found, found
        return found

    yield run
    context.close()
