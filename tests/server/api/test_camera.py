"""Sessions with an input: made, refused, fed, forked; without WebRTC."""

import time
from fractions import Fraction
from functools import partial
from typing import Any

import av
import numpy as np

from onbeat.server.api.camera import Camera
from onbeat.server.engine.messages import ControlStream, InputSound
from onbeat.webrtc.ingest import InputFrame
from onbeat.webrtc.ingest import InputSound as HeardSound
from tests.server.api.conftest import Server, until
from tests.server.api.test_sessions import error_of

FILMED = {"mode": "video-to-video"}


def frame(level: int, media_time: float, size: tuple[int, int] = (64, 48)) -> InputFrame:
    pixels = np.full((size[1], size[0], 3), level, np.uint8)
    picture = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")
    return InputFrame(
        picture=picture,
        media_time=media_time,
        arrived_at=time.monotonic(),
        rotation=0,
        pixel_aspect=Fraction(1),
    )


def more_than(things: list[Any], count: int) -> bool:
    return len(things) > count


def camera(server: Server, session_id: str) -> Camera:
    found = server.front.sessions.get(session_id).camera
    assert found is not None
    return found


def test_a_session_says_what_it_is_made_from(server: Server) -> None:
    made = server.session(**FILMED, strength=0.4, motion_aware=True)
    assert (made["mode"], made["strength"]) == ("video-to-video", 0.4)
    assert made["whip_url"] == f"/v1/sessions/{made['id']}/whip"
    opened = server.engine.opened("live")[-1].video_input
    assert opened is not None and (opened.strength, opened.motion_aware) == (0.4, True)
    plain = server.session()
    assert (plain["mode"], plain["strength"], plain["whip_url"]) == ("text-to-video", None, None)
    assert server.session(**FILMED)["strength"] == 0.6
    model = server.http.get("/v1/models").json()["data"][0]
    assert model["modes"] == ["text-to-video", "video-to-video"]
    assert model["default_strength"] == 0.6


def test_what_an_input_cannot_be_is_said(server: Server) -> None:
    for body, param in (
        ({"strength": 0.4}, "strength"),
        (FILMED | {"strength": 0}, "strength"),
        (FILMED | {"strength": 1.01}, "strength"),
        ({"motion_aware": True}, "motion_aware"),
        ({"fit": "contain"}, "fit"),
        (FILMED | {"fit": "stretch"}, "fit"),
    ):
        answer = server.http.post("/v1/sessions", json={"prompt": "a red ball"} | body)
        assert answer.status_code == 422, body
        assert error_of(answer)["param"] == param


def test_pictures_are_fitted_thinned_and_given_with_their_instants(server: Server) -> None:
    session_id = server.session(**FILMED)["id"]
    sink, fed = camera(server, session_id), server.engine.fed
    sink.started()
    for i in range(40):
        before = len(fed)
        sink.video(frame(100 + i, i / 40))
        until(partial(more_than, fed, before))
    assert [streams for streams, _, _ in fed] == [[session_id]] * 40
    assert all(p.shape == (32, 32, 3) and abs(int(p[9, 9, 0]) - 100 - i) < 5
               for i, (_, p, _) in enumerate(fed))  # fmt: skip
    assert all(b > a for (_, _, a), (_, _, b) in zip(fed, fed[1:], strict=False))
    for i in range(40):
        sink.video(frame(50, 1.0 + i / 4000))
    assert sink.received == 80
    until(lambda: len(fed) >= 41)
    seen = sink.view(0.3)
    assert seen is not None and seen["age_ms"] == 300 and seen["size"] == "64x48"
    sink.ended("left")
    assert sink.view(None) is None


def test_a_flood_waits_in_no_queue(server: Server) -> None:
    """Pictures that come while one is fitted replace each other; the newest is given."""
    sink, fed = camera(server, server.session(**FILMED)["id"]), server.engine.fed
    for i in range(200):
        sink.video(frame(i, i * 1.0, (1280, 720)))
    until(lambda: sink.dropped + len(fed) == 200)
    assert abs(int(fed[-1][1][9, 9, 0]) - 199) < 5


def test_sound_goes_in_as_mono(server: Server) -> None:
    session_id = server.session(**FILMED)["id"]
    samples = np.stack([np.full(960, 1000, np.int16), np.full(960, 3000, np.int16)], axis=1)
    sound = HeardSound(samples=samples, media_time=0.0, arrived_at=time.monotonic())
    camera(server, session_id).sound(sound)
    (heard,) = [c for c in server.engine.commands if isinstance(c, InputSound)]
    assert heard.streams == [session_id]
    assert set(np.frombuffer(heard.samples, "<i2").tolist()) == {2000}


def test_a_fork_sees_what_its_parent_sees_until_it_ends(server: Server) -> None:
    parent = server.session(**FILMED, strength=0.3)
    until(lambda: len(server.media.broadcasts[0].chunks) >= 1)
    fork = server.http.post(f"/v1/sessions/{parent['id']}/fork", json={}).json()
    assert (fork["mode"], fork["strength"], fork["whip_url"]) == ("video-to-video", 0.3, None)
    fed = server.engine.fed
    camera(server, parent["id"]).video(frame(10, 0.0))
    until(lambda: fed)
    assert fed[-1][0] == [parent["id"], fork["id"]]
    server.http.delete(f"/v1/sessions/{fork['id']}")
    camera(server, parent["id"]).video(frame(10, 1.0))
    until(lambda: len(fed) > 1)
    assert fed[-1][0] == [parent["id"]]


def test_strength_is_steered(server: Server) -> None:
    url = f"/v1/sessions/{server.session(**FILMED)['id']}"
    assert server.http.patch(url, json={"strength": 0.8}).json()["strength"] == 0.8
    sent = [c for c in server.engine.commands if isinstance(c, ControlStream)]
    assert sent[-1].strength == 0.8
    assert server.http.patch(url, json={"strength": 2}).status_code == 422
    plain = f"/v1/sessions/{server.session()['id']}"
    assert error_of(server.http.patch(plain, json={"strength": 0.8}))["param"] == "strength"
    assert "strength" in server.http.get("/v1/models").json()["data"][0]["controls"]
