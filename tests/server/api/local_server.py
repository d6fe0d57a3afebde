"""A server in a thread of this process that listens on a port of its own."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from onbeat.server.api.app import create_app
from onbeat.server.api.media import Media
from onbeat.server.config import load_settings
from onbeat.server.engine.client import EngineClient


class LocalServer:
    """Keyword arguments are settings; without `media` it is real WebRTC."""

    def __init__(
        self, engine: EngineClient, media: Callable[[], Media] | None = None, **settings: Any
    ) -> None:
        self.app = create_app(load_settings(**settings), engine, media)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        config = uvicorn.Config(self.app, log_level="warning", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listener.close()
