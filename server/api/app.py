"""Puts the HTTP server together: settings and an engine client in, an ASGI application out.

Nothing runs until the application's lifespan starts. What it is not: the process (CLI).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI

import onbeat
from onbeat.server.api import (
    document,
    errors,
    ice_routes,
    pages,
    peers,
    pictures_routes,
    recordings_routes,
    sessions_routes,
    status_routes,
    video_events,
    video_more,
    videos,
    whep,
    whep_events,
    whip,
)
from onbeat.server.api.front import Front
from onbeat.server.api.guard import Guard
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.media import Media
from onbeat.server.api.media_setup import webrtc_media
from onbeat.server.api.query import check_query
from onbeat.server.api.system_metrics import Counted
from onbeat.server.config import Settings
from onbeat.server.engine.client import EngineClient

ROUTERS = (
    pictures_routes.router,
    recordings_routes.router,
    sessions_routes.router,
    videos.router,
    video_more.router,
    video_events.router,
    whep.router,
    whip.router,
    peers.router,
    whep_events.router,
    ice_routes.router,
    status_routes.router,
    pages.router,
)


def create_app(
    settings: Settings, engine: EngineClient, media: Callable[[], Media] | None = None
) -> FastAPI:
    """The application. It owns `engine`: starts it, and closes it at the end.

    media: makes a stand-in for WebRTC on the event loop.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        front = Front(settings, EngineHub(engine), media() if media else webrtc_media(settings))
        app.state.front = front
        await front.start()
        try:
            yield
        finally:
            await front.close()

    app = FastAPI(
        title="onbeat",
        version=onbeat.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    errors.install(app)
    app.add_middleware(Guard, host=settings.host, key=settings.api_key, origins=settings.origins)
    app.add_middleware(Counted)
    _route(app)
    app.mount("/static", pages.assets(), name="static")
    return app


def documented() -> dict[str, Any]:
    """The OpenAPI document of every route; nothing is started."""
    app = FastAPI(title="onbeat")
    _route(app)
    return app.openapi()


def _route(app: FastAPI) -> None:
    for router in ROUTERS:
        strict = [] if router is pages.router else [Depends(check_query)]
        app.include_router(router, dependencies=strict)
    document.install(app)
