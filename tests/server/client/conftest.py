"""A server with a synthetic engine on a real socket of this machine."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.conftest import until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia

StartServer = Callable[..., str]


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Its address, until the end."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers; keyword arguments are settings, `engine` one of one's own."""
    with ExitStack() as stack:

        def start(engine: FakeEngine | None = None, **settings: Any) -> str:
            folder = tmp_path / "server"
            loaded = load_settings(**({"data_dir": folder} | settings))
            media = FakeMedia()
            app = create_app(loaded, engine or FakeEngine(), lambda: media)
            return stack.enter_context(listening(app))

        yield start


@pytest.fixture
def address(start_server: StartServer) -> str:
    return start_server()
