"""The outermost layer: hosts, origins, ids, headers."""

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from onbeat.server.api.guard import Guard
from tests.server.api.conftest import Server, StartServer
from tests.server.api.test_sessions import error_of


@pytest.fixture
def server(one_server: Server) -> Server:
    return one_server


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "localhost:1", "[::1]:8000"])
def test_loopback_names_are_served(server: Server, host: str) -> None:
    assert server.http.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "a b"])
def test_other_names_are_not_on_a_loopback_bind(server: Server, host: str) -> None:
    answer = server.http.get("/v1/sessions", headers={"host": host})
    assert answer.status_code == 403 and error_of(answer)["code"] == "host_not_allowed"


def test_a_public_bind_takes_any_name(start_server: StartServer) -> None:
    server = start_server(host="0.0.0.0")
    assert server.http.get("/health", headers={"host": "video.example"}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1.evil.example", "http://[", "http://[::x]"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_other_origins_are_refused(server: Server, origin: str, method: str) -> None:
    answer = server.http.request(method, "/v1/sessions", headers={"origin": origin})
    assert answer.status_code == 403 and error_of(answer)["code"] == "origin_not_allowed"
    assert "access-control-allow-origin" not in answer.headers


def test_players_on_other_local_ports_may_watch(server: Server) -> None:
    origin = {"origin": "http://localhost:3000"}
    ask = origin | {"access-control-request-method": "POST"}
    preflight = server.http.options("/whep", headers=ask)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    assert "If-Match" in preflight.headers["access-control-allow-headers"]
    answer = server.http.get("/v1/sessions", headers=origin)
    assert "Location" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in answer.headers["vary"]


def test_request_ids(server: Server) -> None:
    given = server.http.get("/health", headers={"x-request-id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    made = server.http.get("/health", headers={"x-request-id": "no good\t"})
    assert made.headers["x-request-id"].startswith("req_")


def test_security_headers(server: Server) -> None:
    for path in ("/health", "/v1/nothing", "/"):
        headers = server.http.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "connect-src 'self'" in policy
        assert "media-src 'self' blob:" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_failure_is_answered_and_logged(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(server.front.sessions, "all", broken)
    answer = server.http.get("/v1/sessions")
    monkeypatch.undo()
    assert answer.status_code == 500 and error_of(answer)["code"] == "internal_error"
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] in caplog.text and "secret detail" in caplog.text


def test_no_page_needs_the_internet(server: Server) -> None:
    assert server.http.get("/docs").status_code == 404
    described = server.http.get("/openapi.json").json()
    assert {"/v1/sessions", "/v1/videos", "/whep", "/health"} <= set(described["paths"])
    ids = [
        operation["operationId"]
        for path in described["paths"].values()
        for operation in path.values()
    ]
    assert len(ids) == len(set(ids))


async def test_a_client_that_leaves_in_the_middle_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def left(scope: Scope, receive: Receive, send: Send) -> None:
        raise ClientDisconnect

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(f"nobody is there to get {message}")

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/videos",
        "headers": [(b"host", b"localhost")],
    }
    await Guard(left, host="127.0.0.1")(scope, receive, send)
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
