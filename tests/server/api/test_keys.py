"""A key that requests have to bear, and pages of other origins that may use the server."""

from typing import Any

import pytest

from tests.server.api.conftest import Server, StartServer
from tests.server.api.fake_media import OFFER
from tests.server.api.test_peers import is_problem
from tests.server.api.test_whep import SDP

KEY = "correct-horse"
BEARER = {"authorization": f"Bearer {KEY}"}


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server(api_key=KEY, allowed_origins="https://video.example, https://b.example")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/sessions"),
        ("GET", "/v1/sessions"),
        ("POST", "/whep?prompt=a+ball"),
        ("POST", "/whip"),
        ("OPTIONS", "/whep"),
        ("POST", "/v1/sessions/session_0/whip"),
        ("PATCH", "/v1/sessions/session_0/whep/viewer_0"),
        ("DELETE", "/v1/sessions/session_0/whep/viewer_0"),
        ("GET", "/v1/overview"),
        ("GET", "/v1/videos"),
    ],
)
@pytest.mark.parametrize("given", [None, "Bearer wrong", "Basic x", KEY[:-1], "Bearer"])
def test_without_the_key_nothing_is_done(
    server: Server, method: str, path: str, given: str | None
) -> None:
    headers = {} if given is None else {"authorization": given}
    answer = server.http.request(method, path, headers=headers)
    is_problem(answer, 401, "invalid_api_key")
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("authorization", [f"Bearer {KEY}", f"bearer {KEY}", KEY])
def test_with_the_key_all_is_as_before(server: Server, authorization: str) -> None:
    """Some players send the key without a scheme."""
    headers = SDP | {"authorization": authorization}
    answer = server.http.post("/whep?prompt=a+ball", content=OFFER, headers=headers)
    assert answer.status_code == 201
    where = answer.headers["location"]
    events = server.http.post(f"{where}/events", headers={"authorization": authorization})
    assert events.status_code == 201
    assert server.http.delete(where, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics", "/dashboard"])
def test_pages_and_health_are_open(server: Server, path: str) -> None:
    assert server.http.get(path).status_code == 200


def test_a_preflight_needs_no_key(server: Server) -> None:
    ask = {"origin": "https://video.example", "access-control-request-method": "POST"}
    for path in ("/whip", "/v1/sessions/session_0/whep"):
        answer = server.http.options(path, headers=ask)
        assert answer.status_code == 204
        assert answer.headers["accept-post"] == "application/sdp"
        allowed = answer.headers["access-control-allow-headers"]
        assert all(name in allowed for name in ("Authorization", "If-Match", "ETag"))
        assert "link" not in answer.headers


def test_the_address_of_an_event_stream_is_its_proof(server: Server) -> None:
    answer = server.http.get("/v1/sessions/session_0/whep/viewer_0/events/events_0")
    is_problem(answer, 404, "session_not_found")


def test_a_short_key_is_no_setting(start_server: StartServer) -> None:
    with pytest.raises(ValueError, match="api_key"):
        start_server(api_key="short")


@pytest.mark.parametrize("origin", ["https://video.example", "https://b.example"])
def test_configured_origins_may_use_the_server(server: Server, origin: str) -> None:
    answer: Any = server.http.get("/v1/sessions", headers=BEARER | {"origin": origin})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    exposed = answer.headers["access-control-expose-headers"]
    assert all(name in exposed for name in ("Location", "ETag", "Link", "Accept-Patch"))


def test_a_refused_page_can_read_why(server: Server) -> None:
    answer = server.http.get("/v1/sessions", headers={"origin": "https://video.example"})
    is_problem(answer, 401, "invalid_api_key")
    assert answer.headers["access-control-allow-origin"] == "https://video.example"


def test_other_origins_are_still_refused(server: Server) -> None:
    answer = server.http.get("/v1/sessions", headers=BEARER | {"origin": "https://evil.example"})
    is_problem(answer, 403, "origin_not_allowed")
