"""A server with a synthetic engine and without WebRTC, driven through its HTTP."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from onbeat.server.api.app import create_app
from onbeat.server.api.front import Front
from onbeat.server.config import load_settings
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the server waits for its engine is for people; a busy machine takes longer."""
    monkeypatch.setattr("onbeat.server.api.sessions.APPLY_SECONDS", 60.0)
    monkeypatch.setattr("onbeat.server.api.sessions.OPEN_SECONDS", 60.0)
    monkeypatch.setattr("onbeat.server.api.traces.ANSWER_SECONDS", 60.0)


class Server:
    """A started application and its doubles."""

    def __init__(self, client: TestClient, engine: FakeEngine, media: FakeMedia) -> None:
        self.http = client
        self.engine = engine
        self.media = media

    @property
    def front(self) -> Front:
        front: Front = self.http.app.state.front  # type: ignore[attr-defined]
        return front

    def video(self, **body: Any) -> dict[str, Any]:
        """A new job."""
        body = {"prompt": "a red ball", "seconds": "0.5"} | body
        answer = self.http.post("/v1/videos", json=body)
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def ended(self, video_id: str) -> dict[str, Any]:
        """The job once it has ended."""

        def look() -> dict[str, Any] | None:
            body: dict[str, Any] = self.http.get(f"/v1/videos/{video_id}").json()
            return None if body["status"] in ("queued", "in_progress") else body

        found: dict[str, Any] = until(look, seconds=120)
        return found

    def now(self, **settings: Any) -> None:
        """Other settings of sessions from now on: a short life that would end before a slow test
        has begun."""
        sessions = self.front.sessions
        sessions._settings = sessions._settings.model_copy(update=settings)

    def session(self, **body: Any) -> dict[str, Any]:
        """A new session."""
        answer = self.http.post("/v1/sessions", json={"prompt": "a red ball"} | body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


def application(engine: FakeEngine, media: FakeMedia | None = None, **settings: Any) -> TestClient:
    """A server that is not started yet."""
    doubled = media or FakeMedia()
    app = create_app(load_settings(**settings), engine, lambda: doubled)
    return TestClient(app, base_url="http://127.0.0.1:8000")


def started(
    stack: ExitStack,
    *,
    engine: FakeEngine | None = None,
    media: FakeMedia | None = None,
    **settings: Any,
) -> Server:
    """A server that is ready, until the stack ends."""
    engine, media = engine or FakeEngine(), media or FakeMedia()
    client = application(engine, media, **settings)
    server = Server(stack.enter_context(client), engine, media)
    until(lambda: client.get("/ready").status_code == 200)
    return server


StartServer = Callable[..., Server]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers; keyword arguments are settings."""
    with ExitStack() as stack:
        yield functools.partial(started, stack, data_dir=tmp_path)


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a file that leave nothing behind."""
    with ExitStack() as stack:
        yield started(stack, data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server()


def until(condition: Callable[[], Any], seconds: float = 100.0) -> Any:
    """Waits for something to become true; what it became."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s")
