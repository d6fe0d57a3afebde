"""Applications on a real loopback port, in a thread; also one with a synthetic engine and without
WebRTC."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from onbeat.server.api.app import create_app
from onbeat.server.api.no_http import problem_protocol
from onbeat.server.config import load_settings
from tests.server.api.conftest import until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia


@contextmanager
def listening(app: ASGIApp, **config: Any) -> Iterator[str]:
    """Its address, `http://127.0.0.1:PORT`, until the end."""
    made = uvicorn.Config(app, http=problem_protocol(), port=0, log_level="warning", **config)
    server = uvicorn.Server(made)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(engine: FakeEngine, **settings: Any) -> Iterator[str]:
    """The address of a server with this engine."""
    with listening(create_app(load_settings(**settings), engine, FakeMedia)) as address:
        yield address
