"""What can be read in two ways is refused: bytes that are no text, names given twice, other text
encodings, values of another kind."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from tests.server.api.conftest import Server, StartServer
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.test_sessions import error_of
from tests.server.served import served

EDGE = "x-edge"


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    yield one_server
    for session in one_server.http.get("/v1/sessions").json()["data"]:
        one_server.http.delete(f"/v1/sessions/{session['id']}")


def form(*parts: tuple[bytes, bytes]) -> bytes:
    """A multipart body; each part is its disposition's parameters and its bytes."""
    bodies = [
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (EDGE.encode(), head, data)
        for head, data in parts
    ]
    return b"".join(bodies) + b"--%s--\r\n" % EDGE.encode()


def post_form(http: TestClient, *parts: tuple[bytes, bytes], more: str = "") -> Any:
    kind = f"multipart/form-data; boundary={EDGE}{more}"
    return http.post("/v1/videos", content=form(*parts), headers={"content-type": kind})


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([(b'name="prompt"', b"\xff\xfe")], "prompt"),
        ([(b'name="prompt"', "a café".encode("latin-1"))], "prompt"),
        ([(b'name="prompt"', b"a ball"), (b'name="metadata[a]"', b"\x80")], "metadata[a]"),
        ([(b'name="prompt"', b"a ball"), (b'name="model"', b"\xc3")], "model"),
    ],
)
def test_text_of_a_form_is_utf8(server: Server, parts: Any, param: str) -> None:
    answer = post_form(server.http, *parts)
    error = error_of(answer)
    assert answer.status_code == 422 and error["param"] == param
    assert "is not UTF-8" in error["message"] and not server.engine.opened("job")


def test_names_in_a_form_are_utf8(server: Server) -> None:
    for head in (b'name="pr\xffmpt"', b'name="input_reference"; filename="\xff.png"'):
        answer = post_form(server.http, (b'name="prompt"', b"a ball"), (head, b"x"))
        assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_form"
    message = error_of(server.http.post("/v1/videos", files={"": (None, "x")}))["message"]
    assert not message.endswith("..")


def test_right_text_of_a_form_stays_as_it_is(server: Server) -> None:
    answer = post_form(server.http, (b'name="prompt"', "a café ﷽".encode()))
    assert answer.status_code == 200 and answer.json()["prompt"] == "a café ﷽"


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", "us-ascii", "nonsense", ""])
def test_bodies_in_another_encoding(server: Server, charset: str) -> None:
    plain = {"content-type": f"application/json; charset={charset}"}
    for answer in (
        server.http.post("/v1/sessions", content=b'{"prompt": "a ball"}', headers=plain),
        post_form(server.http, (b'name="prompt"', b"a ball"), more=f"; charset={charset}"),
    ):
        error = error_of(answer)
        assert answer.status_code == 415 and error["param"] == "content-type"
        assert error["message"].endswith("allowed: utf-8")


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "utf8"])
def test_bodies_that_say_utf8(server: Server, charset: str) -> None:
    headers = {"content-type": f"application/json ; charset={charset}"}
    answer = server.http.post("/v1/sessions", content=b'{"prompt": "a ball"}', headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("method", "path", "param"),
    [
        ("GET", "/v1/videos?limit=1&limit=2", "limit"),
        ("GET", "/v1/videos?limit=1&limit=1", "limit"),
        ("GET", "/v1/overview/history?seconds=1&seconds=2", "seconds"),
        ("GET", "/v1/videos?l%69mit=1&limit=2", "limit"),
        ("POST", "/whep?prompt=a&prompt=b", "prompt"),
        ("POST", "/whip?prompt=a&seed=1&prompt=b", "prompt"),
        ("POST", "/whep?prompt=%ff", "prompt"),
        ("GET", "/v1/videos?after=%C3", "after"),
    ],
)
def test_queries_are_as_strict_as_bodies(
    server: Server, method: str, path: str, param: str
) -> None:
    answer = server.http.request(method, path, headers={"content-type": "application/sdp"})
    error = error_of(answer)
    assert answer.status_code == 422 and error["param"] == param
    assert error["code"] == ("repeated_field" if "&" in path else "invalid_value")


DOCUMENT = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())
ROUTES = [(m, path) for path, item in DOCUMENT["paths"].items() for m in item]


def test_no_route_takes_an_unknown_name_in_its_query(server: Server) -> None:
    assert len(ROUTES) > 40
    for method, path in ROUTES:
        url = re.sub(r"{\w+}", "none", path)
        answer = server.http.request(method, f"{url}?colour=1")
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (422, "unknown_field"), (method, path)
        assert error["param"] == "colour" and "allowed: " in error["message"]
    head = server.http.head("/v1/recordings/none/content?variant=zip")
    assert head.status_code == 422


def test_an_unknown_name_is_answered_with_the_known_ones(server: Server) -> None:
    message = error_of(server.http.get("/v1/recordings?status=failed"))["message"]
    assert message == "status: unknown field; allowed: after, limit, order"
    message = error_of(server.http.get("/v1/overview?x=1"))["message"]
    assert message == "x: unknown field; allowed: none"


def test_what_may_be_posted_is_told_of_an_address_with_its_query(server: Server) -> None:
    for method in ("OPTIONS", "GET"):
        answer = server.http.request(method, "/whip?prompt=a+ball")
        assert answer.status_code in (200, 204) and answer.headers["accept-post"]


def test_a_route_without_a_body_takes_no_field(server: Server) -> None:
    job = server.video(seconds="1")["id"]
    recorded = server.http.post(server.session()["recordings_url"], json={}).json()
    for url in (f"/v1/videos/{job}/cancel", f"{recorded['url']}/stop"):
        answer = server.http.post(url, json={"foo": 1})
        error = error_of(answer)
        assert answer.status_code == 422 and error["code"] == "unknown_field", url
        assert error["message"] == "foo: unknown field; allowed: none"
        assert server.http.post(url, content=b"x").status_code == 415
    assert server.http.get(recorded["url"]).json()["status"] == "recording"
    assert server.http.post(f"{recorded['url']}/stop", json={}).status_code == 200


def test_queries_that_are_right(server: Server) -> None:
    for path in ("/v1/videos?limit=1&order=asc", "/v1/videos?limit=2&", "/?a=1&a=2"):
        assert server.http.get(path).status_code == 200


def test_a_key_is_sent_once(server: Server) -> None:
    headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
    answer = server.http.post("/v1/videos", json={"prompt": "a ball"}, headers=headers)
    assert answer.status_code == 422 and error_of(answer)["code"] == "repeated_field"


@pytest.mark.parametrize("value", [1, 1.5, True, None, [], {}])
def test_metadata_is_text(server: Server, value: Any) -> None:
    """As in OpenAI's interface; a number would come back as another type than it was sent."""
    body = {"prompt": "a ball", "metadata": {"a": value}}
    error = error_of(server.http.post("/v1/videos", json=body))
    assert error["param"] == "metadata.a" and error["message"].endswith("allowed: text")


def test_words_of_a_video_are_not_known_before_it_runs(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.02), max_jobs_running=1)
    first, second = server.video(seconds="2"), server.video(prompt="a red ball")
    assert second["recognised"] is None
    server.http.post(f"/v1/videos/{first['id']}/cancel")
    assert server.ended(second["id"])["recognised"] == ["a", "red", "ball"]
    assert server.ended(server.video(prompt="mordor")["id"])["recognised"] == []


def test_wrong_controls_are_told_in_json_and_by_their_own_names(server: Server) -> None:
    url = f"/v1/sessions/{server.session()['id']}"
    error = error_of(server.http.patch(url, json={"reset": False}))
    assert error["message"] == "reset: false is not allowed; allowed: true"
    error = error_of(server.http.patch(url, json={"steps": 1, "num_inference_steps": 1}))
    assert error["code"] == "repeated_field" and "'steps'" in error["message"]
    error = error_of(server.http.patch(url, json={"prompts": "a"}))
    allowed = error["message"].partition("allowed: ")[2].split(", ")
    assert {"steps", "num_inference_steps", "prompt", "id"} <= set(allowed)
    assert "type" not in allowed, "that is of the data channel"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: b\r\n\r\n",
        b"POST /v1/videos HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 4 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_like_the_rest(
    address: str, raw: bytes, server: Server
) -> None:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as wire:
        wire.sendall(raw)
        whole = b"".join(iter(lambda: wire.recv(4096), b""))
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in head
    assert b"connection: close" in head and b"x-request-id: req_" in head
    assert b'"code":"invalid_request"' in body and len(body) == int(
        head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("wire")
    with served(FakeEngine(), data_dir=folder) as url:
        yield url


@pytest.mark.parametrize("path", ["/v1/videos/%00", "/v1/videos/%00/content", "/v1/sessions/a%00"])
def test_a_nul_in_a_path_is_no_id(server: Server, path: str) -> None:
    """A database may not take such a text."""
    assert server.http.get(path).status_code == 404
    assert server.http.delete(path).status_code in (404, 405)


def test_a_nul_in_a_query_or_an_id_is_refused(server: Server) -> None:
    assert error_of(server.http.get("/v1/videos?after=%00"))["param"] == "after"
    body = {"prompt": "a", "video": {"id": "\0"}}
    assert server.http.post("/v1/videos/extensions", json=body).status_code == 422


def test_long_names_in_a_query_are_cut(server: Server) -> None:
    error = error_of(server.http.get("/v1/videos", params={"x" * 3000: "1"}))
    assert error["code"] == "unknown_field" and error["param"] == "x" * 80 + "…"
    assert len(error["message"]) < 300
