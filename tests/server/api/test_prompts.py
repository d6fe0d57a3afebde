"""Prompts of several weighted texts wherever one may be given, and what is understood of them."""

from typing import Any

import msgspec
import pytest

from onbeat.server.vocabulary import PromptPart
from tests.server.api.conftest import Server, until
from tests.server.api.test_sessions import error_of

PARTS = (
    PromptPart(text="a red ball", weight=0.7),
    PromptPart(text="a blue square", weight=0.3),
)


def test_a_session_is_opened_with_weighted_texts(server: Server) -> None:
    made = server.session(prompt=msgspec.to_builtins(PARTS))
    assert made["prompt"] == "a red ball (0.7) + a blue square (0.3)"
    assert server.engine.opened("live")[-1].prompt == PARTS


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/{id}", "/v1/sessions/{id}/fork"])
@pytest.mark.parametrize(
    ("prompt", "param", "says"),
    [
        ([], "prompt", "at least 1 entries"),
        ([{"text": "a"}] * 9, "prompt", "at most 8 entries"),
        ([{"text": "a", "weight": 0}], "prompt.0.weight", "above 0"),
        ([{"text": "a", "wieght": 1}], "prompt.0.wieght", "unknown field; allowed: text, weight"),
        ([{"weight": 1}], "prompt.0.text", "is required"),
        ([{"text": "a"}, "b"], "prompt.1", "an object"),
        ({"text": "a"}, "prompt", "text"),
        ("x" * 2001, "prompt", "at most 2000 characters"),
    ],
)
def test_all_refuse_the_same_prompts(
    one_server: Server, path: str, prompt: Any, param: str, says: str
) -> None:
    made = one_server.session()
    method = "PATCH" if path.endswith("}") else "POST"
    answer = one_server.http.request(method, path.format(**made), json={"prompt": prompt})
    error = error_of(answer)
    assert answer.status_code == 422 and error["param"] == param
    assert says in error["message"], error["message"]
    assert len(answer.json()["errors"]) == 1, "one fault is told once"
    one_server.http.delete(f"/v1/sessions/{made['id']}")


def test_long_names_are_cut(server: Server) -> None:
    error = error_of(server.http.post("/v1/sessions", json={"prompt": "a", "x" * 3000: 1}))
    assert error["code"] == "unknown_field" and error["param"] == "x" * 80 + "…"
    assert len(error["message"]) < 600


def test_unknown_fields_are_told_those_of_their_object(server: Server) -> None:
    error = error_of(server.http.post("/v1/sessions", json={"prompt": "a", "transition": "cut"}))
    assert error["param"] == "transition" and "allowed: prompt, model, mode" in error["message"]


@pytest.mark.parametrize("name", ["steps", "num_inference_steps"])
def test_steps_have_two_names_everywhere(server: Server, name: str) -> None:
    made = server.session(**{name: 3})
    assert made["num_inference_steps"] == 3
    url = f"/v1/sessions/{made['id']}"
    assert server.http.patch(url, json={name: 1}).json()["num_inference_steps"] == 1
    both = {"prompt": "a", "steps": 1, "num_inference_steps": 1}
    answer = server.http.post("/v1/sessions", json=both)
    error = error_of(answer)
    assert error["code"] == "repeated_field", "but one at a time"
    assert "another name of it" in error["message"]


def test_what_is_understood_is_that_of_the_new_prompt_or_not_known_yet(server: Server) -> None:
    made = server.session(prompt="a red ball")
    url = f"/v1/sessions/{made['id']}"
    assert made["recognised"] == ["a", "red", "ball"]
    changed = server.http.patch(url, json={"prompt": "a blue ball"}).json()
    assert changed["recognised"] == ["a", "blue", "ball"]
    server.http.patch(url, json={"paused": True})
    paused = server.http.patch(url, json={"prompt": "a green square"}).json()
    assert paused["prompt"] == "a green square"
    assert paused["recognised"] in (None, ["a", "green", "square"])
    server.http.patch(url, json={"paused": False})
    until(lambda: server.http.get(url).json()["recognised"] == ["a", "green", "square"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/v1/sessions/session_0"),
        ("POST", "/v1/sessions/session_0/fork"),
        ("POST", "/v1/sessions/session_0/recordings"),
        ("GET", "/v1/sessions/session_0/snapshot?format=gif"),
        ("GET", "/v1/sessions/session_0/snapshots/none"),
    ],
)
def test_an_unknown_session_is_told_before_a_wrong_body(
    server: Server, method: str, path: str
) -> None:
    answer = server.http.request(method, path, json={"colour": 1})
    assert answer.status_code == 404 and error_of(answer)["code"] == "session_not_found"
