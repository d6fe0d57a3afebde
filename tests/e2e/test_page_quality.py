"""What holds for the pages as a whole: accessible, light, self-contained, typed, small modules."""

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from onbeat.server.api.pages import STATIC
from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage, missing
from tests.e2e.npm_files import AXE, TYPESCRIPT, fetch
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

BUDGET_BYTES = 300_000
SCENE = "/#prompt=a+red+ball+over+the+sea&seed=7"
PATIENCE = 60_000
"""Milliseconds of a hopeless wait."""
PHONE = {"width": 390, "height": 844}
MODULES = sorted((STATIC / "js").rglob("*.js"))


@pytest.fixture(scope="module")
def cache(request: pytest.FixtureRequest) -> Path:
    folder = request.config.cache
    assert folder is not None
    return folder.mkdir("onbeat-npm")


@pytest.fixture(scope="module")
def axe(cache: Path) -> str:
    """The source of axe-core."""
    try:
        return (fetch(AXE, cache) / "axe.min.js").read_text()
    except OSError as error:
        missing(f"{AXE}: {error}")
        raise


def faults(watched: Watched, axe: str) -> list[tuple[str, Any]]:
    """(rule, where) of everything that axe finds."""
    watched.page.evaluate(axe)
    report = watched.page.evaluate("axe.run(document)")
    assert len(report["passes"]) > 15, "axe looked at too little"
    return [(v["id"], [n["target"] for n in v["nodes"]]) for v in report["violations"]]


@pytest.mark.parametrize("scheme, size", [("dark", {}), ("light", PHONE)])
def test_preview_is_accessible(
    open_page: OpenPage, axe: str, scheme: str, size: dict[str, int]
) -> None:
    watched = open_page(SCENE, **size)
    page = watched.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    watched.wait_state("Live", 60)
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    page.keyboard.press("o")
    page.click("#save-scene")
    assert faults(watched, axe) == []
    for key in ("?", "l"):
        page.keyboard.press(key)
        assert faults(watched, axe) == []
        page.keyboard.press("Escape")
    page.fill("#prompt", " ")
    page.press("#prompt", "Control+Enter")
    expect(page.locator("#prompt-error")).to_be_visible()
    assert faults(watched, axe) == []


def test_latency_page_is_accessible(open_page: OpenPage, axe: str) -> None:
    watched = open_page("/dashboard")
    watched.wait_state("Live", 60)
    assert faults(watched, axe) == []


FITS = "(width) => document.documentElement.scrollWidth <= width"
CUT = """() => [...document.querySelectorAll(".segments span, #state-text")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth).map((e) => e.textContent)"""
OUT_OF_SIGHT = """() => [...document.querySelectorAll(".deck button, .deck input")]
  .filter((e) => e.checkVisibility()).map((e) => [e.id, e.getBoundingClientRect()])
  .filter(([, box]) => box.left < 4 || box.right > innerWidth - 4 || box.bottom > innerHeight)
  .map(([id]) => id)"""

DECK_ROWS = """() => {
  const shown = [...document.querySelectorAll(".deck > :not(.gap)")]
    .filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect());
  const rows = shown.map((box) => Math.round((box.top + box.bottom) / 40));
  return [...new Set(rows)].map((row) => rows.filter((other) => other === row).length);
}"""
VEILS = """async () => {
  const { PHASES } = await import("/static/js/preview/wording.js");
  const { live } = onbeat;
  const [veil, pill] = ["veil", "state-text"].map((id) => document.getElementById(id));
  const show = (phase) => {
    live.phase = phase;
    live.dispatchEvent(new CustomEvent("phase"));
  };
  const reason = "One more stream would make chunks late: 6 of 6 run, and other programs " +
    "take most of the processor";
  const was = live.phase;
  const bad = [];
  for (const [name, words] of Object.entries(PHASES)) {
    show({ name, position: 12, until: Date.now() + 8e3, ...(words.text ? {} : { reason }) });
    if (pill.scrollWidth > pill.clientWidth) bad.push(["cut", words.pill]);
    if (!words.title) continue;
    const box = veil.getBoundingClientRect();
    const out = [...veil.children].filter((e) => e.checkVisibility()).filter((e) => {
      const { top, bottom, left, right } = e.getBoundingClientRect();
      return top < box.top || bottom > box.bottom || left < box.left || right > box.right;
    });
    if (out.length) bad.push([name, ...out.map((e) => e.id || e.className)]);
  }
  show(was);
  return bad;
}"""
"""What does not fit into the picture, and which pill is cut, whatever is to be said."""
OPENED = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const id of ["save-scene", "mix-add"]) document.getElementById(id)?.click();
  return matchMedia("(pointer: coarse)").matches;
}"""
SMALL = """() => [...document.querySelectorAll("button, a, summary, input, select, .u-legend th")]
  .filter((e) => e.checkVisibility() && !e.closest(".hint, .skip, .u-series:first-child"))
  .map((e) => (["radio", "checkbox"].includes(e.type) ? e.closest("label") : e))
  .map((e) => [e.id || e.textContent || e.ariaLabel, e.getBoundingClientRect()])
  .filter(([, box]) => box.width < 44 || box.height < 44)
  .map(([name, box]) => [name.trim(), Math.round(box.width), Math.round(box.height)])"""
"""Links in running text are as high as the text."""


def test_no_page_is_wider_than_its_window(open_page: OpenPage) -> None:
    pages = [open_page(path) for path in (SCENE, "/dashboard")]
    for watched in pages:
        watched.wait_state("Live", 60)
    for width, height in ((320, 568), (844, 390), (1280, 800), (1280, 757), (390, 844)):
        for watched in pages:
            watched.page.set_viewport_size({"width": width, "height": height})
            page, where = watched.page, f"{watched.page.url} fits {width} x {height}"
            until(partial(page.evaluate, FITS, width), 60, where)  # charts follow a moment later
            assert page.evaluate(CUT) == [], where
        page = pages[0].page
        assert page.evaluate(OUT_OF_SIGHT) == [], (width, height)
        rows = page.evaluate(DECK_ROWS)
        assert len(rows) == 1 or min(rows) > 1, f"a button is alone at {width} x {height}: {rows}"
        assert page.evaluate(VEILS) == [], (width, height)
    for watched in pages:  # and now by fingers
        devtools = watched.page.context.new_cdp_session(watched.page)
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        assert watched.page.evaluate(OPENED), "no coarse pointer"
        assert watched.page.evaluate(SMALL) == [], watched.page.url


def luminance(colour: str) -> float:
    """Of `#rrggbb`, as WCAG 2 has it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_stage_can_be_read_on_its_colour() -> None:
    """axe sees only those that happen to be long enough for words."""
    stages = re.findall(r"^  (\w+): \"", (STATIC / "js/shared/stages.js").read_text(), re.MULTILINE)
    ink = re.search(
        r"\.stage-bar i \{.*color: (#\w{6})", (STATIC / "css/dashboard.css").read_text()
    )
    css = (STATIC / "css/base.css").read_text()
    assert ink and len(stages) > 8
    for name in stages:
        found = re.findall(rf"--{name}: (#\w{{6}})", css)
        assert len(found) == 2, name
        for colour in found:
            assert (luminance(colour) + 0.05) / (luminance(ink[1]) + 0.05) >= 4.5, (name, colour)


def test_everything_has_a_label_and_can_be_reached_by_tab(open_page: OpenPage) -> None:
    watched = open_page(SCENE)
    watched.wait_state("Live", 60)
    names = watched.page.evaluate("""() => [...document.querySelectorAll("button, input, textarea")]
        .filter((e) => e.checkVisibility() && !e.disabled)
        .map((e) => [e.tabIndex, e.ariaLabel ?? e.labels?.[0]?.innerText ?? e.innerText])""")
    assert len(names) > 20
    assert all(tab >= 0 and name.strip() for tab, name in names), names


def test_page_is_light_and_asks_nobody_else(open_page: OpenPage, server: ServerProcess) -> None:
    """`open_page` fails on outside requests and on complaints of the console."""
    watched = open_page("/dashboard")
    sizes: dict[str, int] = {}

    def arrived(response: Any) -> None:
        if response.url.startswith((f"{server.url}/static/", f"{server.url}/?")):
            sizes[response.url] = len(response.body())

    watched.page.on("response", arrived)
    watched.page.goto(f"{server.url}/?{SCENE[1:]}")
    watched.wait_state("Live", 60)
    assert len(sizes) > 10
    assert sum(sizes.values()) < BUDGET_BYTES, sizes


def test_nothing_moves_under_reduced_motion(open_page: OpenPage) -> None:
    watched = open_page("/dashboard")
    watched.page.emulate_media(reduced_motion="reduce")
    watched.page.click("text=Preview")
    watched.wait_state("Live", 60)
    moving = watched.page.evaluate("document.getAnimations().length")
    assert moving == 0


def test_policy_of_the_page_is_strict(open_page: OpenPage) -> None:
    watched = open_page("/dashboard")
    response = watched.page.request.get(f"{watched.origin}/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    html = response.text()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://(?!www\.w3\.org)", html)


def test_types_hold(cache: Path, tmp_path: Path) -> None:
    """Every module is checked by TypeScript's strict rules, by its JSDoc."""
    node = shutil.which("node")
    try:
        compiler = fetch(TYPESCRIPT, cache) / "lib" / "tsc.js"
    except OSError as error:
        missing(f"{TYPESCRIPT}: {error}")
        return
    if node is None:
        missing("node is not installed")
        return
    vendored = tmp_path / "uPlot.d.ts"
    vendored.write_text("declare const uPlot: any;\nexport default uPlot;\n")
    options = {
        "allowJs": True,
        "checkJs": True,
        "noEmit": True,
        "strict": True,
        "target": "ES2022",
        "module": "ES2022",
        "moduleResolution": "bundler",
        "lib": ["ES2023", "DOM", "DOM.Iterable"],
        "types": [],
        "paths": {"/static/vendor/uPlot.esm.js": [str(vendored)]},
    }
    config = tmp_path / "tsconfig.json"
    files = [str(path) for path in MODULES]
    config.write_text(json.dumps({"compilerOptions": options, "files": files}))
    command = [node, str(compiler), "-p", str(config)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stdout


def test_modules_are_small_and_say_what_they_are() -> None:
    for path in MODULES:
        lines = path.read_text().splitlines()
        assert len(lines) <= 400, path
        assert any(line.startswith(("/**", "/*")) for line in lines[:2]), path
        assert lines[0] == "// @ts-check" or path.name == "theme.js", path
