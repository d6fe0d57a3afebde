"""A server on a real loopback port, in a thread, with a synthetic engine and without WebRTC."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia


@contextmanager
def served(engine: FakeEngine, **settings: Any) -> Iterator[str]:
    """Its address, `http://127.0.0.1:PORT`."""
    app = create_app(load_settings(**settings), engine, FakeMedia)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
