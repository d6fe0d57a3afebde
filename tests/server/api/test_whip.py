"""WHIP over HTTP: who may publish, one at a time, and what it does to a session's life."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onbeat.server.api.publishers import SILENT_SECONDS
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import ANSWER, OFFER, FakeMedia
from tests.server.api.test_peers import is_problem
from tests.server.api.test_whep import SDP, join

SENDS = OFFER + "m=video 9 X 96\r\na=sendrecv\r\n"


def opened(server: Server, **body: Any) -> str:
    """The address of a session that takes video."""
    made = server.session(**body)
    server.front.sessions.get(made["id"]).input = object()  # type: ignore[assignment]
    return f"/v1/sessions/{made['id']}"


def test_a_publisher_is_answered_and_is_no_viewer(server: Server) -> None:
    url = opened(server)
    assert server.http.get(url).json()["whip_url"] == f"{url}/whip"
    answer = join(server, f"{url}/whip")
    assert answer.headers["content-type"] == "application/sdp" and answer.text == ANSWER
    assert answer.headers["location"].startswith(f"{url}/whip/publisher_")
    assert answer.headers["etag"].startswith('"')
    assert server.media.peers[0].sink is not None
    assert server.http.get(url).json()["viewers"] == 0


def test_a_session_without_input_takes_no_publisher(server: Server) -> None:
    made = server.session()
    assert made["whip_url"] is None
    url = f"/v1/sessions/{made['id']}"
    is_problem(server.http.post(f"{url}/whip", content=OFFER, headers=SDP), 409, "no_input")
    join(server, f"{url}/duplex", SENDS)
    assert not server.media.peers[0].sends(), "it only watches"


@pytest.mark.parametrize("first", ["whip", "duplex"])
@pytest.mark.parametrize("second", ["whip", "duplex"])
def test_one_publisher_at_a_time(server: Server, first: str, second: str) -> None:
    url = opened(server)
    where = join(server, f"{url}/{first}", SENDS).headers["location"]
    refused = server.http.post(f"{url}/{second}", content=SENDS, headers=SDP)
    is_problem(refused, 409, "already_publishing")
    assert refused.headers["retry-after"] == "2"
    join(server, f"{url}/duplex")
    assert server.media.peers[-1].sink is None, "who only watches is not in the way"
    server.http.delete(where)
    join(server, f"{url}/{second}", SENDS)


@pytest.mark.parametrize("first", ["whip", "duplex"])
def test_a_publisher_gone_silent_makes_room(server: Server, first: str) -> None:
    url = opened(server)
    join(server, f"{url}/{first}", SENDS)
    silent = server.media.peers[0]
    silent.silent = SILENT_SECONDS + 0.1
    join(server, f"{url}/whip")
    assert silent.closed and not server.media.peers[1].closed


def test_of_two_offers_at_once_one_is_taken(start_server: StartServer) -> None:
    server = start_server(media=FakeMedia(delay=0.3))
    url = opened(server)

    def offer(kind: str) -> int:
        answer = server.http.post(f"{url}/{kind}", content=SENDS, headers=SDP)
        return int(answer.status_code)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(offer, ["whip", "duplex"])) == [201, 409]


def test_a_session_that_ends_takes_its_publisher_along(server: Server) -> None:
    url = opened(server)
    join(server, f"{url}/whip")
    server.http.delete(url)
    assert server.media.peers[0].closed


def test_a_session_that_ends_while_a_publisher_is_answered(start_server: StartServer) -> None:
    server = start_server()
    server.media.held = True
    url = opened(server)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(server.http.post, f"{url}/whip", content=OFFER, headers=SDP)
        until(lambda: server.front.publishers._joining)
        server.http.delete(url)
        server.media.held = False
        assert late.result().status_code == 404
    assert server.media.peers[0].closed


def test_a_session_lives_while_somebody_publishes(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=0.1)
    url = opened(server)
    where = join(server, f"{url}/whip").headers["location"]
    server.now(idle_session_seconds=0.2)
    until(lambda: server.http.get(url).json()["status"] == "paused")
    session = server.front.sessions.get(url.rpartition("/")[2])
    until(lambda: session.lonely(server.front.sessions._loop.time()) > 1.0)
    assert server.http.get(url).status_code == 200
    server.http.delete(where)
    until(lambda: server.http.get(url).status_code == 404)


# ---- publishers that know only an address --------------------------------------------------------


def test_an_address_alone_is_enough(server: Server) -> None:
    answer = join(server, "/whip?prompt=a+red+ball&seed=4")
    session = server.http.get("/v1/sessions").json()["data"][0]
    assert (session["prompt"], session["seed"], session["viewers"]) == ("a red ball", 4, 0)
    assert answer.headers["location"].startswith(session["whip_url"])
    assert answer.headers["link"] == f'<{session["whep_url"]}>; rel="urn:onbeat:rel:watch"'


def test_a_model_that_takes_no_video_leaves_no_session(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(encodes=False))
    refused = server.http.post("/whip?prompt=a+ball", content=OFFER, headers=SDP)
    is_problem(refused, 409, "no_input")
    assert not server.http.get("/v1/sessions").json()["data"]
    missing = server.http.post("/whip", content=OFFER, headers=SDP)
    is_problem(missing, 422, "missing_field")


@pytest.mark.parametrize("kind", ["whip", "whep"])
def test_nonsense_is_refused_before_a_stream_is_asked_for(server: Server, kind: str) -> None:
    before = len(server.engine.commands)
    for offer in ("garbage", OFFER + "refuse:too_many"):
        answer = server.http.post(f"/{kind}?prompt=x", content=offer, headers=SDP)
        assert answer.status_code in (400, 422), answer.text
    assert server.engine.commands[before:] == [] and not server.media.broadcasts
