"""The HTTP of WHEP and of the duplex endpoint, and the messages of its data channel."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onbeat.server.api import viewers
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_media import ANSWER, OFFER, FakeMedia, FakePeer
from tests.server.api.test_sessions import error_of

SDP = {"content-type": "application/sdp"}
FRAGMENT = {"content-type": "application/trickle-ice-sdpfrag"}


def join(server: Server, url: str, offer: str = OFFER) -> Any:
    answer = server.http.post(url, content=offer, headers=SDP)
    assert answer.status_code == 201, answer.text
    return answer


@pytest.mark.parametrize("kind", ["whep", "duplex"])
def test_an_offer_is_answered_and_left(server: Server, kind: str) -> None:
    made = server.session()
    url = f"/v1/sessions/{made['id']}"
    answer = join(server, made[f"{kind}_url"])
    assert answer.headers["content-type"] == "application/sdp" and answer.text == ANSWER
    assert answer.headers["etag"].startswith('"')
    where = answer.headers["location"]
    assert where.startswith(f"{url}/{kind}/viewer_")
    assert server.http.get(url).json()["viewers"] == 1
    assert (
        server.http.patch(where, content="a=end-of-candidates", headers=FRAGMENT).status_code == 204
    )
    assert server.http.delete(where).status_code == 200
    assert server.media.peers[0].closed
    assert server.http.get(url).json()["viewers"] == 0
    assert server.http.delete(where).status_code == 404
    assert (
        server.http.patch(where, content="a=end-of-candidates", headers=FRAGMENT).status_code == 404
    )


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "GET"])
def test_discovery(server: Server, method: str) -> None:
    for url in (server.session()["whep_url"], "/whep"):
        answer = server.http.request(method, url)
        assert answer.status_code == (200 if method == "OPTIONS" else 204) and not answer.content
        assert answer.headers["accept-post"] == "application/sdp"
        assert "PATCH" in answer.headers["access-control-allow-methods"]


def test_only_the_duplex_endpoint_listens(server: Server) -> None:
    made = server.session()
    join(server, made["whep_url"])
    join(server, made["duplex_url"])
    watcher, steerer = server.media.peers
    assert watcher.on_message is None and steerer.on_message is not None


def test_plain_players_need_only_an_address(server: Server) -> None:
    answer = join(server, "/whep?prompt=a+red+ball&seed=4&steps=3")
    session = server.http.get("/v1/sessions").json()["data"][0]
    assert (session["prompt"], session["seed"]) == ("a red ball", 4)
    assert (session["num_inference_steps"], session["viewers"]) == (3, 1)
    assert answer.headers["location"].startswith(session["whep_url"])


def test_plain_sessions_end_soon_after_their_viewer(start_server: StartServer) -> None:
    server = start_server(idle_session_seconds=0.2)
    where = join(server, "/whep?prompt=a+ball").headers["location"]
    server.http.delete(where)
    until(lambda: not server.http.get("/v1/sessions").json()["data"])


def test_the_most_viewers(start_server: StartServer) -> None:
    server = start_server(max_viewers=1)
    url = server.session()["whep_url"]
    where = join(server, url).headers["location"]
    full = server.http.post(url, content=OFFER, headers=SDP)
    assert full.status_code == 503 and error_of(full)["code"] == "capacity"
    assert "retry-after" in full.headers
    server.http.delete(where)
    join(server, url)


def test_offers_that_nobody_finishes_keep_no_place(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "UNFINISHED_KEEPS", 3000.0)
    server = start_server(max_viewers=3)
    url = server.session()["whep_url"]
    where = [join(server, url).headers["location"] for _ in range(3)]
    for peer in server.media.peers[1:]:
        peer.connected = False
    full = server.http.post(url, content=OFFER, headers=SDP)
    assert full.status_code == 503, "they are too new to be given up"
    monkeypatch.setattr(viewers, "UNFINISHED_KEEPS", 0.0)
    join(server, url)
    assert [peer.closed for peer in server.media.peers] == [False, True, False, False]
    assert server.http.get(where[1]).status_code == 404
    server.media.peers[2].connected = True
    full = server.http.post(url, content=OFFER, headers=SDP)
    assert full.status_code == 503, "those who are connected stay"


def test_a_viewer_that_vanishes_makes_room(start_server: StartServer) -> None:
    server = start_server(max_viewers=1)
    url = server.session()["whep_url"]
    join(server, url)
    server.media.peers[0].closed = True
    until(lambda: server.http.post(url, content=OFFER, headers=SDP).status_code == 201)


def test_two_offers_at_once_are_both_answered(start_server: StartServer) -> None:
    server = start_server(media=FakeMedia(delay=0.2))
    made = server.session()

    def offer(_: int) -> int:
        return int(server.http.post(made["whep_url"], content=OFFER, headers=SDP).status_code)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(offer, range(2))) == [201, 201]
    assert server.http.get(f"/v1/sessions/{made['id']}").json()["viewers"] == 2


def test_a_session_that_ends_while_an_offer_is_answered(start_server: StartServer) -> None:
    server = start_server()
    server.media.held = True
    made = server.session()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(server.http.post, made["whep_url"], content=OFFER, headers=SDP)
        until(lambda: server.front.viewers._joining)
        server.http.delete(f"/v1/sessions/{made['id']}")
        server.media.held = False
        assert late.result().status_code == 404
    assert server.media.peers[0].closed


# ---- the data channel ----------------------------------------------------------------------------


class Channel:
    """A viewer's end of the data channel."""

    def __init__(self, server: Server, **body: Any) -> None:
        self._server = server
        self.made = server.session(**body)
        join(server, self.made["duplex_url"])
        self.peer: FakePeer = server.media.peers[-1]

    def say(self, message: dict[str, Any]) -> None:
        assert self.peer.on_message is not None
        loop = self._server.front._loop
        loop.call_soon_threadsafe(self.peer.on_message, message)

    def hear(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = until(
            lambda: next((m for m in self.peer.sent if m["type"] == kind), None)
        )
        return found


def test_a_control_is_accepted_then_applied(server: Server) -> None:
    channel = Channel(server)
    channel.say({"type": "control", "prompt": "a blue ball", "steps": 1})
    assert channel.hear("accepted") == {"type": "accepted", "id": None, "ids": [], "revision": 1}
    applied = channel.hear("applied")
    assert applied["revision"] == 1 and applied["recognised"] == ["a", "blue", "ball"]
    assert applied["media_time"] == pytest.approx(applied["chunk"] * 0.2)
    url = f"/v1/sessions/{channel.made['id']}"
    assert server.http.get(url).json()["prompt"] == "a blue ball"


def test_everybody_hears_of_changes(server: Server) -> None:
    channel = Channel(server)
    url = f"/v1/sessions/{channel.made['id']}"
    server.http.patch(url, json={"seed": 5})
    assert channel.hear("applied")["revision"] == 1
    server.http.delete(url)
    assert channel.hear("ended")["reason"] == "closed"


def test_status_comes_by_itself(server: Server) -> None:
    channel = Channel(server)
    status = until(lambda: next((m for m in channel.peer.sent if m.get("fps_generated")), None))
    numbers = "fps_generated fps_sent on_time_ratio steps queue_ms denoise_ms decode_ms encode_ms"
    assert set(numbers.split()) | {"dropped", "slack_ms", "viewers", "engine_state"} <= set(status)
    assert (status["engine_state"], status["viewers"], status["on_time_ratio"]) == ("ready", 1, 1)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"type": "control"}, None),
        ({"type": "control", "prompt": ""}, "prompt"),
        ({"type": "control", "prompt": "\ud800"}, "prompt"),
        ({"type": "control", "steps": 9}, "steps"),
        ({"type": "control", "speed": 9}, "speed"),
        ({"type": "reboot"}, "type"),
        ({"type": {"a": []}}, "type"),
        ({}, "type"),
    ],
)
def test_wrong_messages_are_answered(
    server: Server, message: dict[str, Any], param: str | None
) -> None:
    channel = Channel(server)
    channel.say(message)
    error = channel.hear("error")["error"]
    assert error["param"] == param and error["message"]


def test_what_browsers_report_is_kept_within_bounds(server: Server) -> None:
    channel = Channel(server)
    report = {"type": "stats", "rtt_ms": 12, "bad": float("nan"), "text": "x", "\ud800": 1}
    channel.say(report | {f"n{i}": i for i in range(100)})

    def look() -> dict[str, float] | None:
        shown = server.http.get("/v1/overview").json()["sessions"]
        return next((stats for each in shown for stats in each["client"] if stats), None)

    kept = until(look)
    assert kept["rtt_ms"] == 12 and len(kept) == 32
    assert not {"bad", "text", "\ud800"} & set(kept)
