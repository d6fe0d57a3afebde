"""The second browser engine: Firefox with the drafts' clients, watching and publishing."""

import json
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.interop.conftest import KEY
from tests.e2e.interop.firefox import executable, visit
from tests.e2e.interop.hosting import Pages, Stage
from tests.e2e.interop.test_browser_clients import arrived, rising

pytestmark = pytest.mark.timeout(180)
SECONDS = 120.0
FAKE_HERTZ = 1000.0
"""Of the tone that Firefox makes up."""


def run(stage: Stage, pages: Pages, folder: Path, **options: Any) -> dict[str, Any]:
    path = executable()
    if path is None:
        pytest.skip("there is no firefox in the PATH")
    options = {"stage": stage.url, "key": KEY, "frames": 12, "client": "whip-whep"} | options
    url = f"{pages.url}/clients.html#{urllib.parse.quote(json.dumps(options))}"
    found = visit(path, url, pages, folder, SECONDS)
    if found is None:
        log = (folder / "firefox.log").read_text(errors="replace")[-2000:]
        pytest.fail(f"Firefox reported nothing in {SECONDS} s:\n{log}")
    assert "error" not in found, found
    return found


@pytest.mark.usefixtures("npm_clients")
def test_firefox_plays(stage: Stage, pages: Pages, session: dict[str, Any], tmp_path: Path) -> None:
    found = run(stage, pages, tmp_path, what="watch", url=stage.url + session["whep_url"])
    rising(found["numbers"])
    assert found["codec"] == "video/VP8" and found["packets"] > 20
    assert all(status < 300 for _, status in found["requests"]), found["requests"]


@pytest.mark.usefixtures("npm_clients")
def test_firefox_publishes(
    stage: Stage, pages: Pages, session: dict[str, Any], tmp_path: Path
) -> None:
    url = stage.url + session["whip_url"]
    found = run(stage, pages, tmp_path, what="publish", url=url, sound=True, fake=True)
    arrived(found["seen"], FAKE_HERTZ)
    assert found["codec"] == "video/VP8"
    assert all(status < 300 for _, status in found["requests"]), found["requests"]
