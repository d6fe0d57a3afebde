"""One schema for PATCH and the data channel: what it takes, what each message is answered."""

import asyncio
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onbeat.server.api.errors import ApiError
from onbeat.server.api.pictures import KEPT, Pictures, encoded
from onbeat.server.api.prompt_schema import prompt_of
from onbeat.server.api.steering import Control, changes, merged, parse
from onbeat.server.api.throttle import CONTROLS_AT_ONCE, Ids, Throttle
from onbeat.server.engine.messages import ControlStream
from onbeat.server.vocabulary import Prompt, PromptPart
from onbeat.webrtc.media import MediaChunk
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import SIZE
from tests.server.api.test_whep import Channel

PARTS = [{"text": "a red ball", "weight": 3}, {"text": "a blue ball"}]


def said(channel: Channel, message: dict[str, Any], kind: str) -> dict[str, Any]:
    """The answer of that kind to a message with an id."""
    channel.say(message)
    found: dict[str, Any] = until(
        lambda: next(
            (m for m in channel.peer.sent if m["type"] == kind and m.get("id") == message["id"]),
            None,
        )
    )
    return found


def test_a_later_change_wins_field_by_field() -> None:
    old = Control(prompt="a", transition="blend", blend_chunks=3, seed=1)
    both = merged(old, Control(prompt="b", seed=2, steps=1))
    assert changes(both) == {"prompt": "b", "seed": 2, "steps": 1}
    assert changes(merged(old, Control(steps=2)))["blend_chunks"] == 3


def taken(prompt: Any) -> Prompt:
    """As the engine takes it."""
    given = Control.model_validate({"prompt": prompt}).prompt
    assert given is not None
    return prompt_of(given)


def test_a_prompt_of_one_part_is_a_text() -> None:
    assert taken(PARTS[1:]) == "a blue ball"
    given = taken(PARTS)
    assert given == (
        PromptPart(text="a red ball", weight=3.0),
        PromptPart(text="a blue ball", weight=1.0),
    )


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"text": "a", "weight": 0}]}, "prompt.0.weight"),
        ({"prompt": [{"text": " "}]}, "prompt.0.text"),
        ({"prompt": [{"text": "a"}] * 9}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"prompt": "a", "transition": "blend", "blend_chunks": 1}, "blend_chunks"),
        ({"reset": False}, "reset"),
        ({"colour": 1, "seed": 1}, "colour"),
        ({"id": "x" * 65, "seed": 1}, "id"),
        ({"id": 1}, None),
    ],
)
def test_wrong_fields_are_named(wrong: dict[str, Any], param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        parse({"type": "control", **wrong})
    assert caught.value.status_code == 422
    assert (caught.value.param or "").startswith(param or "")


async def test_what_comes_too_fast_goes_as_one_and_nothing_is_lost() -> None:
    throttle, sent = Throttle(), list[tuple[dict[str, Any], Ids]]()

    def send(control: Control, ids: Ids) -> None:
        sent.append((changes(control), ids))

    many = round(CONTROLS_AT_ONCE) + 5
    at_once = [throttle.take(Control(id=n, seed=n), send) for n in range(many)]
    throttle.take(Control(id="last", steps=2), send)
    assert sum(at_once) >= CONTROLS_AT_ONCE and not at_once[-1]
    async with asyncio.timeout(30):
        while sent[-1][1][-1:] != ["last"]:
            await asyncio.sleep(0.01)
    assert sent[-1][0] == {"seed": many - 1, "steps": 2}
    assert [each for _, ids in sent for each in ids] == [*range(many), "last"]


def test_every_field_reaches_the_engine_and_ids_come_back(one_server: Server) -> None:
    channel = Channel(one_server)
    change = {
        "type": "control",
        "id": "c1",
        "prompt": PARTS,
        "transition": "blend",
        "blend_chunks": 5,
        "seed": 4,
        "reset": True,
        "fps": 20,
        "negative_prompt": "",
    }
    accepted = said(channel, change, "accepted")
    assert accepted["ids"] == ["c1"]
    applied = until(lambda: [m for m in channel.peer.sent if m["type"] == "applied"])[0]
    assert applied["ids"] == ["c1"] and applied["revision"] == accepted["revision"]
    assert applied["chunk"] >= 0 and "media_time" in applied and "due_in_ms" in applied
    (command,) = [
        c
        for c in one_server.engine.commands
        if isinstance(c, ControlStream) and c.stream_id == channel.made["id"]
    ]
    assert command.prompt == taken(PARTS)
    assert (command.transition, command.blend_chunks, command.reset) == ("blend", 5, True)
    url = f"/v1/sessions/{channel.made['id']}"
    assert one_server.http.get(url).json()["prompt"] == "a red ball (3) + a blue ball (1)"


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"transition": "cut"}, 400, "transition_without_prompt", "transition"),
        ({"blend_chunks": 4, "seed": 1}, 400, "transition_without_prompt", "blend_chunks"),
        ({"prompt": "a", "blend_chunks": 4}, 422, "invalid_value", "blend_chunks"),
        ({"guidance": 3.0}, 422, "unsupported_field", "guidance"),
        ({"negative_prompt": "blurry"}, 422, "unsupported_field", "negative_prompt"),
        ({"fps": 25}, 422, "invalid_value", "fps"),
        ({"strength": 0.5}, 422, "invalid_value", "strength"),
        ({"steps": 9}, 422, "invalid_value", "steps"),
    ],
)
def test_both_ways_refuse_the_same(
    one_server: Server, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    channel = Channel(one_server)
    answer = one_server.http.patch(f"/v1/sessions/{channel.made['id']}", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    told = said(channel, {"type": "control", "id": "x", **body}, "error")["error"]
    assert (told["code"], told["param"], told["message"]) == (code, param, error["message"])
    one_server.http.delete(f"/v1/sessions/{channel.made['id']}")


def test_too_many_patches_are_refused_as_a_whole(start_server: StartServer) -> None:
    server = start_server()
    url = f"/v1/sessions/{server.session(paused=True)['id']}"
    answers = [server.http.patch(url, json={"seed": n}) for n in range(200)]
    refused = [a for a in answers if a.status_code != 200]
    if refused:  # a slow machine may never be too fast
        assert refused[0].status_code == 429 and refused[0].headers["retry-after"] == "1"
        assert refused[0].json()["error"]["code"] == "rate_limited"


def test_a_fork_and_a_snapshot_over_the_channel(one_server: Server) -> None:
    channel = Channel(one_server)
    base = f"/v1/sessions/{channel.made['id']}"
    until(lambda: one_server.http.get(f"{base}/snapshot").status_code == 200)
    kept = said(channel, {"type": "snapshot", "id": 7}, "snapshot")
    assert kept["url"].startswith(f"{base}/snapshots/")
    until(lambda: one_server.engine.streams[channel.made["id"]].chunk > 0)
    made = said(channel, {"type": "fork", "id": 8, "seed": 3}, "forked")["session"]
    assert made["id"] != channel.made["id"] and made["seed"] == 3
    refused = said(channel, {"type": "fork", "id": 9, "steps": 9}, "error")["error"]
    assert refused["param"] == "steps"
    for each in (made["id"], channel.made["id"]):
        one_server.http.delete(f"/v1/sessions/{each}")


@pytest.mark.parametrize(("kind", "name"), [("png", "PNG"), ("jpeg", "JPEG")])
def test_a_snapshot_is_a_picture_of_the_stream(one_server: Server, kind: str, name: str) -> None:
    made = one_server.session()
    url = f"/v1/sessions/{made['id']}/snapshot"

    def taken() -> Any:
        answer = one_server.http.get(url, params={"format": kind})
        return answer if answer.status_code == 200 else None

    answer = until(taken)
    image = Image.open(io.BytesIO(answer.content))
    assert (image.format, image.size) == (name, (SIZE, SIZE))
    assert int(answer.headers["x-onbeat-chunk"]) >= 0
    assert one_server.http.get(url, params={"format": "gif"}).status_code == 422
    missing = one_server.http.get(f"/v1/sessions/{made['id']}/snapshots/9")
    assert missing.status_code == 404
    one_server.http.delete(f"/v1/sessions/{made['id']}")


def chunk(index: int, playout_at: float) -> MediaChunk:
    frames = np.stack([np.full((48, 32), 40 + 10 * index + n, np.uint8) for n in range(4)])
    frames[:, 32:] = 128
    return MediaChunk(
        index=index,
        frames=frames,
        audio=np.zeros(0, np.int16),
        fps=20,
        sample_rate=24_000,
        playout_at=playout_at,
    )


def test_the_shown_picture_is_the_one_whose_instant_has_come() -> None:
    pictures = Pictures()
    with pytest.raises(ApiError) as caught:
        pictures.shown(0.0)
    assert caught.value.code == "no_picture"
    pictures.add(chunk(0, 10.0))
    pictures.add(chunk(1, 10.2))
    assert pictures.shown(9.0).media_time == 0.0
    assert pictures.shown(10.06).media_time == pytest.approx(0.05)
    assert (pictures.shown(10.36).chunk, pictures.shown(99.0).media_time) == (1, 0.35)
    gray = np.asarray(Image.open(io.BytesIO(encoded(pictures.shown(10.21), "png"))))
    assert gray.shape == (32, 32, 3) and np.abs(gray.astype(int) - (50 - 16) * 255 / 219).max() < 2
    numbers = [pictures.keep(10.0)[0] for _ in range(KEPT + 1)]
    assert pictures.kept(numbers[-1]).chunk == 0
    with pytest.raises(ApiError):
        pictures.kept(numbers[0])


def test_models_tell_what_can_be_steered(one_server: Server) -> None:
    (model,) = one_server.http.get("/v1/models").json()["data"]
    assert {"prompt", "transition", "seed", "steps", "paused", "reset"} <= set(model["controls"])
    assert "guidance" not in model["controls"]
