"""The server-sent events of a WHEP player."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.conftest import Server, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import OFFER, FakeMedia
from tests.server.api.test_peers import is_problem
from tests.server.api.test_whep import SDP, join
from tests.server.served import listening

REL = 'rel="urn:ietf:params:whep:ext:core:server-sent-events"'
JSON = {"content-type": "application/json"}


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    yield one_server
    for session in one_server.http.get("/v1/sessions").json()["data"]:
        one_server.http.delete(f"/v1/sessions/{session['id']}")


def test_players_are_told_where_events_are(server: Server) -> None:
    answer = join(server, server.session()["whep_url"])
    link = answer.headers["link"]
    assert link.startswith(f"<{answer.headers['location']}/events>") and REL in link
    assert 'events="active,inactive,viewercount"' in link
    assert "link" not in join(server, server.session()["duplex_url"]).headers


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        ("{", JSON, 400, "invalid_json"),
        ('{"a": 1}', JSON, 422, "invalid_value"),
        ("[1]", JSON, 422, "invalid_value"),
        ("[]", JSON, 422, "invalid_value"),
        ('["active", "audiolevel"]', JSON, 422, "invalid_value"),
        ('["active"]', {"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ],
)
def test_bodies_that_are_not_taken(
    server: Server, content: str, headers: dict[str, str], status: int, code: str
) -> None:
    where = join(server, server.session()["whep_url"]).headers["location"]
    answer = server.http.post(f"{where}/events", content=content, headers=headers)
    is_problem(answer, status, code)


def test_streams_are_few_and_end(server: Server) -> None:
    where = join(server, server.session()["whep_url"]).headers["location"]
    made = [server.http.post(f"{where}/events") for _ in range(5)]
    assert [answer.status_code for answer in made] == [201, 201, 201, 201, 409]
    is_problem(made[-1], 409, "too_many_streams")
    stream = made[0].headers["location"]
    assert stream.startswith(f"{where}/events/")
    assert server.http.delete(stream).status_code == 200
    is_problem(server.http.delete(stream), 404, "stream_not_found")
    is_problem(server.http.get(stream), 404, "stream_not_found")
    server.http.delete(where)
    is_problem(server.http.get(made[1].headers["location"]), 404, "viewer_not_found")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server on a port: streams cannot be read while they go on without one."""
    app = create_app(load_settings(data_dir=tmp_path), FakeEngine(), FakeMedia)
    with listening(app, timeout_graceful_shutdown=1) as url:
        yield url


def test_a_player_hears_of_viewers_and_of_pauses(address: str) -> None:
    with httpx2.Client(base_url=address, timeout=100) as http:
        until(lambda: http.get("/ready").status_code == 200)
        made = http.post("/v1/sessions", json={"prompt": "a ball"}).json()
        where = http.post(made["whep_url"], content=OFFER, headers=SDP).headers["location"]
        stream = http.post(f"{where}/events").headers["location"]
        counts = http.post(f"{where}/events", content='["viewercount", "layers"]', headers=JSON)
        heard: list[tuple[str, Any]] = []
        reader = threading.Thread(target=read, args=(address + stream, heard), daemon=True)
        reader.start()
        until(lambda: len(heard) >= 2)
        assert heard == [("active", {}), ("viewercount", {"viewercount": 1})]
        http.patch(f"/v1/sessions/{made['id']}", json={"paused": True})
        until(lambda: ("inactive", {}) in heard)
        other = http.post(made["whep_url"], content=OFFER, headers=SDP).headers["location"]
        until(lambda: heard[-1] == ("viewercount", {"viewercount": 2}))
        only: list[tuple[str, Any]] = []
        second = threading.Thread(
            target=read, args=(address + counts.headers["location"], only), daemon=True
        )
        second.start()
        until(lambda: only)
        http.delete(other)
        until(lambda: len(only) == 2)
        http.delete(where)
        reader.join(100)
        second.join(100)
        assert not reader.is_alive() and not second.is_alive(), "the streams end with the viewer"
        assert [name for name, _ in only] == ["viewercount", "viewercount"]


def read(url: str, heard: list[tuple[str, Any]]) -> None:
    """Events as (name, data), until the stream ends."""
    name = ""
    with httpx2.stream("GET", url, timeout=100) as stream:
        for line in stream.iter_lines():
            field, _, value = line.partition(":")
            if field == "event":
                name = value.strip()
            elif field == "data":
                heard.append((name, json.loads(value)))
