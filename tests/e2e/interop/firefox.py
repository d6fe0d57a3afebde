"""Headless Firefox without a driver: it opens an address, and the page there reports by itself."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.e2e.interop.hosting import Pages

PREFERENCES = {
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "media.block-autoplay-until-in-foreground": False,
    "dom.min_background_timeout_value": 4,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "app.update.auto": False,
    "app.normandy.enabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "security.sandbox.content.level": 0,
}


def executable() -> str | None:
    return shutil.which("firefox-esr") or shutil.which("firefox")


def visit(path: str, url: str, pages: Pages, folder: Path, seconds: float) -> dict[str, Any] | None:
    """What the page at `url` reports; None if Firefox ended or nothing came in time."""
    profile = folder / "profile"
    profile.mkdir(parents=True, exist_ok=True)
    lines = [f'user_pref("{name}", {_text(value)});' for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    command = [path, "--headless", "--no-remote", "--profile", str(profile), url]
    environment = os.environ | {"HOME": str(folder), "MOZ_DISABLE_CONTENT_SANDBOX": "1"}
    with (folder / "firefox.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    try:
        return _result(process, pages, seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its content processes too
        process.wait(20)


def _result(
    process: "subprocess.Popen[bytes]", pages: Pages, seconds: float
) -> dict[str, Any] | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(queue.Empty):
            return pages.results.get(timeout=0.5)
    return None


def _text(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
