"""Everything wrong that can be sent: a clear 4xx that names field, value and what is allowed."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import OFFER
from tests.server.api.test_sessions import error_of

SDP = {"content-type": "application/sdp"}
LONG = "a" * 10_000


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    """That server; sessions of a test end with it."""
    yield one_server
    for session in one_server.http.get("/v1/sessions").json()["data"]:
        one_server.http.delete(f"/v1/sessions/{session['id']}")
    one_server.engine.commands.clear()


def check_unharmed(server: Server) -> None:
    assert server.http.get("/health").status_code == 200
    assert server.session()["status"] == "live"


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/videos"])
@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("prompt", "", "1 to 2000"),
        ("prompt", "  \n ", "1 to 2000"),
        ("prompt", LONG, "2000"),
        ("prompt", "a\x00ball", "control characters"),
        ("prompt", 7, "text"),
        ("prompt", None, "null is not allowed; allowed: text"),
        ("seed", -1, "0 or more"),
        ("seed", 2**63, str(2**63 - 1)),
        ("seed", "abc", "whole number"),
        ("seed", True, "whole number"),
        ("seed", 1.5, "whole number"),
        ("num_inference_steps", 0, "1 or more"),
        ("num_inference_steps", 5, "1 to 4"),
        ("num_inference_steps", 10**6, "64 or less"),
        ("negative_prompt", "ugly", "empty"),
        ("width", 7, "32"),
        ("height", 99999, "32"),
        ("fps", 0, "20"),
        ("model", "sora-2", "'toybox'"),
    ],
)
def test_wrong_values(server: Server, path: str, field: str, value: Any, allowed: str) -> None:
    answer = server.http.post(path, json={"prompt": "a ball"} | {field: value})
    error = error_of(answer)
    assert answer.status_code == (404 if field == "model" else 422)
    assert error["param"] == field and error["type"] == "invalid_request_error"
    assert error["message"].startswith(f"{field}: ") and allowed in error["message"]
    assert len(error["message"]) < 300
    assert not server.engine.opened("live") and not server.engine.opened("job")


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("size", "0x0", "'32x32'"),
        ("size", "7x7", "'32x32'"),
        ("size", "99999x99999", "'32x32'"),
        ("size", "32", "'32x32'"),
        ("size", "32x32x32", "'32x32'"),
        ("seconds", 0, "0.05 to 120"),
        ("seconds", "0", "0.05 to 120"),
        ("seconds", -4, "0.05 to 120"),
        ("seconds", "nan", "finite"),
        ("seconds", "inf", "finite"),
        ("seconds", 1e9, "0.05 to 120"),
        ("seconds", "1e9", "0.05 to 120"),
        ("seconds", "four", "number"),
        ("num_frames", 0, "1 to 2400"),
        ("num_frames", 10**9, "1 to 2400"),
        ("generate_audio", "perhaps", "true or false"),
        ("metadata", "text", "an object"),
        ("metadata", {str(n): "x" for n in range(17)}, "16"),
    ],
)
@pytest.mark.parametrize("form", [False, True])
def test_wrong_videos(server: Server, form: bool, field: str, value: Any, allowed: str) -> None:
    if form and isinstance(value, dict):
        fields: Any = {f"{field}[{name}]": (None, text) for name, text in value.items()}
    else:
        fields = {field: (None, str(value))}
    sent: dict[str, Any] = (
        {"files": {"prompt": (None, "a ball")} | fields}
        if form
        else {"json": {"prompt": "a ball", field: value}}
    )
    answer = server.http.post("/v1/videos", **sent)
    error = error_of(answer)
    assert answer.status_code == 422 and error["param"] == field
    assert allowed in error["message"]


PYTHON_WORDS = ("None", "True", "False", "dict", "Input", "str", "bool", "int", "list[", "tuple")


@pytest.mark.parametrize("value", [None, True, [], {}, "x", 1.5, [None], {"a": None}, 10**30, -1])
@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/videos"])
def test_errors_speak_json_and_not_python(server: Server, path: str, value: Any) -> None:
    names = ["prompt", "seed", "seconds", "generate_audio", "metadata", "size", "wait", "mode"]
    answer = server.http.post(path, json=dict.fromkeys(names, value))
    assert answer.status_code == 422
    for error in answer.json()["errors"]:
        words = re.findall(r"[\w\[]+", error["message"].partition(": ")[2])
        assert not set(words) & set(PYTHON_WORDS), error
        assert error["param"].partition(".")[0] in names, "the field, and not a reading of it"


def test_ids_of_messages_are_named_alone(server: Server) -> None:
    made = server.session()
    wrongs: list[Any] = [True, 1.5, "x" * 65, {}, []]
    for wrong in wrongs:
        answer = server.http.patch(f"/v1/sessions/{made['id']}", json={"id": wrong, "steps": 1})
        assert answer.status_code == 422 and error_of(answer)["param"] == "id"


def test_not_a_number_in_json(server: Server) -> None:
    headers = {"content-type": "application/json"}
    raw = '{"prompt": "a ball", "seconds": NaN}'
    answer = server.http.post("/v1/videos", content=raw, headers=headers)
    assert answer.status_code == 422 and error_of(answer)["param"] == "seconds"


def test_seconds_and_frames_that_disagree(server: Server) -> None:
    body = {"prompt": "a ball", "seconds": 1, "num_frames": 40}
    answer = server.http.post("/v1/videos", json=body)
    assert answer.status_code == 422 and error_of(answer)["param"] == "num_frames"


def test_a_model_without_encoders_takes_no_video(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(encodes=False))
    body = {"prompt": "a ball", "mode": "video-to-video"}
    answer = server.http.post("/v1/sessions", json=body)
    assert answer.status_code == 422 and error_of(answer)["param"] == "mode"


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/videos"])
def test_unknown_fields_are_named(server: Server, path: str) -> None:
    answer = server.http.post(path, json={"prompt": "a ball", "guidance": 7, "cfg": 1})
    error = error_of(answer)
    assert answer.status_code == 422
    assert (error["code"], error["param"]) == ("unknown_field", "guidance")
    assert "num_inference_steps" in error["message"]
    assert [e["param"] for e in answer.json()["errors"]] == ["guidance", "cfg"]


@pytest.mark.parametrize("prompt", ["🎈🔴", "zeppelin over mordor", "röd boll", "﷽" * 100])
def test_words_that_are_not_understood_are_told(server: Server, prompt: str) -> None:
    """Not an error: the answer says what was recognised, and that may be nothing."""
    made = server.session(prompt=prompt)
    assert made["prompt"] == prompt and made["recognised"] == []


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"[1]", 400, "invalid_json"),
        (b'"a ball"', 400, "invalid_json"),
        (b"\xff\xfe\x00", 400, "invalid_json"),
        (b"[" * 60_000, 400, "invalid_json"),
        (b'{"prompt": "\\ud800"}', 400, "invalid_json"),
        (b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}", 400, "invalid_json"),
        (b'{"prompt": "' + b"a" * 13_000_000 + b'"}', 413, "body_too_large"),
    ],
)
def test_bodies_that_are_none(server: Server, raw: bytes, status: int, code: str) -> None:
    headers = {"content-type": "application/json"}
    answer = server.http.post("/v1/sessions", content=raw, headers=headers)
    assert answer.status_code == status and error_of(answer)["code"] == code
    check_unharmed(server)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"[" * 60_000, "nested too deeply"),
        (b'{"prompt": "\\ud800"}', "half of a surrogate pair"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": 1, "a": 2}', "the name 'a' stands twice"),
    ],
)
def test_what_is_wrong_with_json_is_said_in_words(server: Server, raw: bytes, says: str) -> None:
    headers = {"content-type": "application/json"}
    message = error_of(server.http.post("/v1/sessions", content=raw, headers=headers))["message"]
    assert says in message and "sys." not in message and "codec" not in message, message


@pytest.mark.parametrize(
    "raw",
    [
        b'{"prompt": "a ball", "prompt": "a ring"}',
        b'{"prompt": "a ball", "metadata": {"a": "1", "a": "2"}}',
        json.dumps({"prompt": "a ball"}).encode("utf-16"),
        json.dumps({"prompt": "a ball"}).encode("utf-32-le"),
        b'\xef\xbb\xbf{"prompt": "a ball"}',
        b'{"prompt": "\xff"}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/videos"])
def test_json_that_readers_take_in_different_ways(server: Server, path: str, raw: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = server.http.post(path, content=raw, headers=headers)
    assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_json"


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/videos"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_content_types(server: Server, path: str, kind: str) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = server.http.post(path, content=b'{"prompt": "a ball"}', headers=headers)
    assert answer.status_code == 415 and error_of(answer)["param"] == "content-type"


def test_a_file_in_a_form_is_refused_by_name(server: Server) -> None:
    files: Any = {"prompt": (None, "a ball"), "input_reference": ("x.png", b"\x89PNG")}
    answer = server.http.post("/v1/videos", files=files)
    assert answer.status_code == 422 and error_of(answer)["param"] == "input_reference"


def test_forms_that_are_none(server: Server) -> None:
    headers = {"content-type": "multipart/form-data"}
    answer = server.http.post("/v1/videos", content=b"--x", headers=headers)
    assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_form"
    twice = b"--x\r\n" + b'Content-Disposition: form-data; name="prompt"\r\n\r\na\r\n--x\r\n'
    twice += b'Content-Disposition: form-data; name="prompt"\r\n\r\nb\r\n--x--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = server.http.post("/v1/videos", content=twice, headers=headers)
    assert answer.status_code == 422 and error_of(answer)["code"] == "repeated_field"


def test_a_body_without_an_announced_length_is_counted(server: Server) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b" " * 200_000

    headers = {"content-type": "application/json"}
    answer = server.http.post("/v1/sessions", content=endless(), headers=headers)
    assert answer.status_code == 413 and error_of(answer)["code"] == "body_too_large"


# ---- SDP -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whep", "duplex"])
@pytest.mark.parametrize(
    ("offer", "status"),
    [(b"", 400), (b"hello", 400), (b"\xff\xfe", 400), (b"v=0" + b"x" * 1_000_000, 413)],
)
def test_offers_that_are_none(server: Server, kind: str, offer: bytes, status: int) -> None:
    made = server.session()
    answer = server.http.post(made[f"{kind}_url"], content=offer, headers=SDP)
    assert answer.status_code == status and error_of(answer)["code"]
    assert server.http.get(f"/v1/sessions/{made['id']}").json()["viewers"] == 0
    check_unharmed(server)


def test_an_offer_of_another_type(server: Server) -> None:
    url = server.session()["whep_url"]
    answer = server.http.post(url, json={"type": "offer", "sdp": OFFER})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sessions/session_0"),
        ("DELETE", "/v1/sessions/session_0"),
        ("POST", "/v1/sessions/session_0/whep"),
        ("POST", "/v1/sessions/session_0/duplex"),
        ("OPTIONS", "/v1/sessions/session_0/whep"),
        ("DELETE", "/v1/sessions/session_0/whep/viewer_0"),
        ("PATCH", "/v1/sessions/session_0/whep/viewer_0"),
        ("GET", "/v1/videos/video_0"),
        ("DELETE", "/v1/videos/video_0"),
        ("POST", "/v1/videos/video_0/cancel"),
        ("GET", "/v1/videos/video_0/content"),
        ("GET", "/v1/videos/..%2F..%2Fetc%2Fpasswd/content"),
        ("GET", "/v1/models/sora-2"),
        ("GET", "/v1/nothing"),
        ("GET", "/static/../app.py"),
    ],
)
def test_unknown_ids(server: Server, method: str, path: str) -> None:
    headers = SDP if method in ("POST", "PATCH") else {}
    answer = server.http.request(method, path, headers=headers)
    assert answer.status_code == 404, answer.text
    assert error_of(answer)["code"].endswith("not_found")


def test_methods_that_a_route_lacks(server: Server) -> None:
    answer = server.http.put("/v1/sessions", json={})
    assert answer.status_code == 405 and error_of(answer)["code"] == "method_not_allowed"


# ---- controls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"prompt": ""}, "prompt"),
        ({"prompt": LONG}, "prompt"),
        ({"steps": 5}, "steps"),
        ({"steps": 0}, "steps"),
        ({"seed": -1}, "seed"),
        ({"paused": "perhaps"}, "paused"),
        ({"strength": 1}, "strength"),
        ({"type": "stats", "paused": True}, "type"),
    ],
)
def test_wrong_controls(server: Server, body: dict[str, Any], param: str | None) -> None:
    made = server.session()
    answer = server.http.patch(f"/v1/sessions/{made['id']}", json=body)
    assert answer.status_code == 422 and error_of(answer)["param"] == param
    after = server.http.get(f"/v1/sessions/{made['id']}").json()
    assert (after["revision"], after["prompt"]) == (0, made["prompt"])


@pytest.mark.parametrize(
    "query", ["", "?prompt=", "?prompt=a&seed=-1", "?prompt=a&steps=9", "?x=1"]
)
def test_wrong_plain_queries(server: Server, query: str) -> None:
    answer = server.http.post(f"/whep{query}", content=OFFER, headers=SDP)
    assert answer.status_code == 422 and error_of(answer)["param"]
    assert not server.http.get("/v1/sessions").json()["data"]


def test_a_plain_player_with_a_bad_offer_leaves_no_session(server: Server) -> None:
    answer = server.http.post("/whep?prompt=a+ball", content="no", headers=SDP)
    assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_sdp"
    assert not server.http.get("/v1/sessions").json()["data"]
    until(lambda: not server.engine.streams)
