"""Relays with credentials that expire, for pages and in the headers of players."""

import time

from onbeat.webrtc.turn import TurnSettings, ice_servers
from tests.server.api.conftest import Server, StartServer

TURN = TurnSettings(urls=("turn:a:3478", "turns:a:443?transport=tcp"), secret="s", seconds=60)


def test_without_a_relay_there_is_none(server: Server) -> None:
    answer = server.http.get("/v1/ice-servers")
    assert answer.json() == {"object": "list", "data": [], "ttl": None}
    assert answer.headers["cache-control"] == "no-store"


def test_each_who_asks_gets_credentials_of_its_own(start_server: StartServer) -> None:
    server = start_server(turn_urls=TURN.urls, turn_secret="s", turn_seconds=60)
    server.media.ice_servers = lambda user: ice_servers(TURN, user, time.time())  # type: ignore[method-assign]
    first, second = (server.http.get("/v1/ice-servers").json() for _ in range(2))
    assert first["ttl"] == 60
    (relay,) = first["data"]
    assert relay["urls"] == list(TURN.urls)
    until, _, user = relay["username"].partition(":")
    assert 0 < int(until) - time.time() <= 60 and user.startswith("client_")
    assert relay["credential"] and relay["username"] != second["data"][0]["username"]


def test_a_key_is_wanted_where_there_is_one(start_server: StartServer) -> None:
    server = start_server(api_key="k" * 16)
    assert server.http.get("/v1/ice-servers").status_code == 401
