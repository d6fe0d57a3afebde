"""A server with a synthetic engine on a real socket of this machine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia
from tests.server.served import listening

StartServer = Callable[..., str]


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
