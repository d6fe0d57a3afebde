"""Single connections over HTTP: late candidates, ICE restarts, and every refusal with its body."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_media import OFFER
from tests.server.api.test_sessions import error_of
from tests.server.api.test_whep import FRAGMENT, SDP, join

CANDIDATE = "a=candidate:1 1 udp 2130706431 192.0.2.7 50000 typ host\r\n"
OWN = "a=ice-ufrag:mine\r\na=ice-pwd:" + "x" * 24 + "\r\n"
NEW = OWN.replace("mine", "other")
WITH_ICE = OFFER + OWN


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    yield one_server
    for session in one_server.http.get("/v1/sessions").json()["data"]:
        one_server.http.delete(f"/v1/sessions/{session['id']}")


class Joined:
    """A connection of a kind, and its address."""

    def __init__(self, server: Server, kind: str = "whep") -> None:
        made = server.session()
        server.front.sessions.get(made["id"]).input = object()  # type: ignore[assignment]
        answer = join(server, f"/v1/sessions/{made['id']}/{kind}", WITH_ICE)
        self.where, self.etag = answer.headers["location"], answer.headers["etag"]
        self.peer = server.media.peers[-1]
        self._http = server.http

    def patch(
        self, content: str | bytes = CANDIDATE, if_match: str | None = None, **more: Any
    ) -> Any:
        headers = FRAGMENT | ({"if-match": if_match} if if_match is not None else {})
        return self._http.patch(self.where, content=content, headers=headers | more)

    def restart(self) -> str:
        answer = self.patch(NEW + CANDIDATE, "*")
        assert answer.status_code == 200, answer.text
        return str(answer.headers["etag"])


@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_late_candidates_are_tried(server: Server, kind: str) -> None:
    joined = Joined(server, kind)
    answer = joined.patch(OWN + CANDIDATE, joined.etag)
    assert answer.status_code == 204 and not answer.content and "etag" not in answer.headers
    assert joined.peer.trickled[0].candidates == (CANDIDATE.strip(),)


@pytest.mark.parametrize("tag", ['"*"', "*", "{etag}", 'W/"other", {etag}', "{bare}"])
def test_tags_that_name_the_session(server: Server, tag: str) -> None:
    joined = Joined(server)
    tag = tag.format(etag=joined.etag, bare=joined.etag)
    assert joined.patch(if_match=tag).status_code == 204


def test_a_client_without_tags_may_trickle_until_a_restart(server: Server) -> None:
    joined = Joined(server)
    assert joined.patch().status_code == 204
    joined.restart()
    late = joined.patch()
    assert late.status_code == 428 and error_of(late)["param"] == "if-match"


@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_a_restart_answers_with_new_credentials_and_a_new_tag(server: Server, kind: str) -> None:
    joined = Joined(server, kind)
    answer = joined.patch(NEW + CANDIDATE, "*")
    assert answer.status_code == 200 and answer.text == "a=ice-ufrag:ours\r\n"
    assert answer.headers["content-type"] == FRAGMENT["content-type"]
    etag = answer.headers["etag"]
    assert etag != joined.etag and etag.startswith('"')
    assert joined.peer.restarts[0].ufrag == "other"
    assert joined.patch(NEW + CANDIDATE, etag).status_code == 204, "credentials are now known"
    assert joined.patch(if_match=joined.etag).status_code == 412, "of the session before"


def test_new_credentials_restart_under_the_current_tag_too(server: Server) -> None:
    joined = Joined(server)
    assert joined.patch(NEW, joined.etag).status_code == 200


def test_a_restart_that_fails_keeps_the_session(server: Server) -> None:
    joined = Joined(server)
    joined.peer.restartable = False
    failed = joined.patch(NEW, "*")
    assert failed.status_code == 409 and error_of(failed)["code"] == "restart_failed"
    assert not joined.peer.closed and joined.patch(if_match=joined.etag).status_code == 204


def test_json_candidates_of_mobile_clients(server: Server) -> None:
    joined = Joined(server)
    body = '{"candidate": "%s", "sdpMid": "0"}' % CANDIDATE[2:].strip()  # noqa: UP031
    for kind in ("application/json", FRAGMENT["content-type"]):
        answer = joined.patch(body, **{"content-type": kind})
        assert answer.status_code == 204, answer.text
    assert len(joined.peer.trickled) == 2


def test_leaving_ignores_tags_and_happens_once(server: Server) -> None:
    for kind in ("whep", "whip", "duplex"):
        joined = Joined(server, kind)
        left = server.http.delete(joined.where, headers={"if-match": '"stale"'})
        assert left.status_code == 200 and joined.peer.closed
        assert server.http.delete(joined.where).status_code == 404
        assert joined.patch().status_code == 404


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_a_connection_that_was_closed_first_can_be_deleted_once(
    server: Server, kind: str, swept: bool
) -> None:
    joined = Joined(server, kind)
    joined.peer.closed = True
    session = server.front.sessions.get(joined.where.split("/")[3])
    if swept and kind != "whip":
        until(lambda: not session.viewers)
    assert server.http.delete(joined.where).status_code == 200
    assert server.http.delete(joined.where).status_code == 404


@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "GET"])
def test_what_may_be_done_with_a_connection(server: Server, kind: str, method: str) -> None:
    joined = Joined(server, kind)
    answer = server.http.request(method, joined.where)
    assert answer.status_code in (200, 204) and not answer.content
    assert answer.headers["accept-patch"] == FRAGMENT["content-type"]
    assert answer.headers["etag"] == joined.etag and "PATCH" in answer.headers["allow"]


# ---- every refusal -------------------------------------------------------------------------------

REFUSED = [
    (b"\xff\xff", 400, "invalid_sdp"),
    (b"  ", 400, "invalid_sdp"),
    (b"hello", 400, "invalid_sdp"),
    (b"v=0\r\nrefuse:too_large", 413, "too_large"),
    (b"v=0\r\n" + b"a=x\r\n" * 20_000, 413, "body_too_large"),
    (b"v=0\r\nrefuse:too_many", 422, "too_many"),
    (b"v=0\r\nrefuse:unsupported", 422, "unsupported"),
]


def is_problem(answer: Any, status: int, code: str) -> None:
    """RFC 9457, with our error object."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status and body["type"] == f"urn:onbeat:error:{code}"
    assert body["title"] not in ("", "Error") and body["detail"] == body["error"]["message"]
    assert body["error"]["code"] == code and body["request_id"]


@pytest.mark.parametrize(("offer", "status", "code"), REFUSED)
@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_offers_that_are_not_taken(
    server: Server, kind: str, offer: bytes, status: int, code: str
) -> None:
    made = server.session()
    server.front.sessions.get(made["id"]).input = object()  # type: ignore[assignment]
    url = f"/v1/sessions/{made['id']}/{kind}"
    is_problem(server.http.post(url, content=offer, headers=SDP), status, code)


@pytest.mark.parametrize(("kind", "status"), [("whep", 406), ("duplex", 406), ("whip", 422)])
def test_no_common_codec(server: Server, kind: str, status: int) -> None:
    """A player may try again with less; a publisher is refused as a whole."""
    made = server.session()
    server.front.sessions.get(made["id"]).input = object()  # type: ignore[assignment]
    answer = server.http.post(
        f"/v1/sessions/{made['id']}/{kind}", content=OFFER + "refuse:no_common_codec", headers=SDP
    )
    is_problem(answer, status, "no_common_codec")


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        ("hello", {}, 400, "invalid_fragment"),
        (b"\xff", {}, 400, "invalid_fragment"),
        ("a=mid:0\r\n", {}, 400, "invalid_fragment"),
        (CANDIDATE, {"if-match": '"stale"'}, 412, "precondition_failed"),
        (CANDIDATE, {"if-match": ""}, 412, "precondition_failed"),
        (CANDIDATE, {"if-match": 'W/"weak"'}, 412, "precondition_failed"),
        ("a" * 20_000, {}, 413, "body_too_large"),
        (CANDIDATE, {"content-type": "application/sdp"}, 415, "unsupported_media_type"),
        (CANDIDATE, {"content-type": ""}, 415, "unsupported_media_type"),
        (CANDIDATE * 65, {}, 422, "too_many"),
        (NEW, {}, 428, "precondition_required"),
    ],
)
@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_fragments_that_are_not_taken(
    server: Server, kind: str, content: Any, headers: dict[str, str], status: int, code: str
) -> None:
    joined = Joined(server, kind)
    is_problem(joined.patch(content, **headers), status, code)
    assert not joined.peer.closed and not joined.peer.trickled and not joined.peer.restarts


@pytest.mark.parametrize("kind", ["whep", "whip", "duplex"])
def test_other_refusals(server: Server, kind: str) -> None:
    http, joined = server.http, Joined(server, kind)
    endpoint = joined.where.rpartition("/")[0]
    is_problem(http.post(endpoint, content=OFFER), 415, "unsupported_media_type")
    unknown = f"/v1/sessions/session_0/{kind}"
    is_problem(http.post(unknown, content=OFFER, headers=SDP), 404, "session_not_found")
    noun = "publisher" if kind == "whip" else "viewer"
    is_problem(http.delete(f"{endpoint}/nobody"), 404, f"{noun}_not_found")
    is_problem(http.put(endpoint), 405, "method_not_allowed")
    is_problem(http.delete(endpoint), 405, "method_not_allowed")
    is_problem(http.post(joined.where, content=OFFER, headers=SDP), 405, "method_not_allowed")


def test_too_many_requests_for_one_connection(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.server.api.ice_session.PATCH_RATE", 0.001)
    joined = Joined(start_server())
    answers = [joined.patch() for _ in range(200)]
    refused = next(answer for answer in answers if answer.status_code != 204)
    is_problem(refused, 429, "too_many_requests")
    assert refused.headers["retry-after"] == "1"
