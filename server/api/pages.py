"""The preview page, the latency page and their assets: plain files of this package."""

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

STATIC = Path(str(files("onbeat.server.api").joinpath("static")))
NO_CACHE = {"cache-control": "no-cache"}
POPUPS = {"cross-origin-opener-policy": "same-origin-allow-popups"}
"""The latency page hands a trace to the window that it opens."""

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def preview() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers=NO_CACHE)


@router.api_route("/dashboard", methods=["GET", "HEAD"])
async def dashboard() -> FileResponse:
    return FileResponse(STATIC / "dashboard.html", headers=NO_CACHE | POPUPS)


def assets() -> StaticFiles:
    """The files below /static."""
    return StaticFiles(directory=STATIC, check_dir=False)
