"""Takes the pictures of the two pages for docs/: preview.png and dashboard.png, and for phones.

    python tests/e2e/screenshots.py [--url http://127.0.0.1:8000] [--out docs] [--phone]

Without --url it starts a server of its own. The files have 256 colours.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.e2e.chromium import launch  # noqa: E402
from tests.e2e.server_process import ServerProcess  # noqa: E402

PROMPTS = (
    "a red ball bouncing over the sea",
    "a blue ring floating at sunset",
    "a yellow heart rolling through the desert",
)
WARM_SECONDS = 12


def shoot(page: Page, path: Path, *, full_page: bool = False) -> None:
    """A picture with a palette, which takes a third of the bytes. Small coloured signs keep their
    colours, as this way counts no pixels."""
    page.screenshot(path=path, full_page=full_page)
    with Image.open(path) as taken:
        palette = taken.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3)
    palette.save(path, optimize=True)


def open_live(browser: Browser, url: str, prompt: str, *, width: int, height: int) -> Page:
    """A preview that plays."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark", device_scale_factor=1
    )
    page = context.new_page()
    page.goto(f"{url}/#prompt={prompt.replace(' ', '+')}&seed=7")
    expect(page.locator("#state-text")).to_have_text("Live", timeout=60_000)
    return page


def open_dashboard(browser: Browser, url: str, *, width: int, height: int) -> Page:
    """The latency page with one session opened, after some seconds."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark", device_scale_factor=1
    )
    page = context.new_page()
    page.goto(url + "/dashboard")
    page.locator(".open").first.click()
    page.click("[data-range='120']")
    time.sleep(5)
    page.evaluate("scrollTo(0, 0)")
    return page


def take(browser: Browser, url: str, out: Path) -> None:
    first = open_live(browser, url, PROMPTS[0], width=1160, height=940)
    others = [open_live(browser, url, p, width=420, height=420) for p in PROMPTS[1:]]
    time.sleep(WARM_SECONDS)
    first.fill("#prompt", PROMPTS[0].replace("red", "green"))
    first.press("#prompt", "Control+Enter")
    time.sleep(6)
    shoot(first, out / "preview.png")
    page = open_dashboard(browser, url, width=1280, height=900)
    shoot(page, out / "dashboard.png", full_page=True)
    for done in (page, first, *others):
        done.goto("about:blank")
    time.sleep(2)


def take_phone(browser: Browser, url: str, out: Path) -> None:
    page = open_live(browser, url, PROMPTS[0], width=390, height=844)
    time.sleep(5)
    shoot(page, out / "preview-phone.png")
    dashboard = open_dashboard(browser, url, width=390, height=844)
    shoot(dashboard, out / "dashboard-phone.png")
    page.goto("about:blank")


def main() -> None:
    parser = argparse.ArgumentParser(description="pictures of the pages for the README")
    parser.add_argument("--url", help="a running server; without it one is started")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--phone", action="store_true", help="the phone layout too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is None:
            sys.exit("there is no chromium in the PATH")
        server = None if given.url else ServerProcess(Path(folder))
        try:
            if server is not None:
                server.wait_ready()
            url = given.url or (server.url if server else "")
            take(browser, url.rstrip("/"), given.out)
            if given.phone:
                take_phone(browser, url.rstrip("/"), given.out)
        finally:
            browser.close()
            if server is not None:
                server.close()


if __name__ == "__main__":
    main()
