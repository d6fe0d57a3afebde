"""The wire format beyond plain jobs: inputs, remixes, extensions, keys, waits, files at once."""

import base64
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from onbeat.server.engine.messages import OpenStream
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.test_sessions import error_of


def png(size: tuple[int, int] = (40, 40)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(out, "PNG")
    return out.getvalue()


def opened(server: Server, video_id: str) -> OpenStream:
    """The stream of a job."""
    jobs = server.engine.opened("job")
    return next(command for command in jobs if command.stream_id.startswith(video_id))


# ---- what a video begins from --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["file", "unnamed file", "text", "data url", "object"])
def test_a_picture_reaches_the_engine_in_every_way_clients_send_it(
    server: Server, way: str
) -> None:
    text = base64.b64encode(png()).decode()
    values: dict[str, Any] = {
        "text": text,
        "data url": f"data:image/png;base64,{text}",
        "object": {"image_url": f"data:image/png;base64,{text}"},
    }
    if way in values:
        made = server.video(input_reference=values[way])
    else:
        name = "x.png" if way == "file" else "upload"
        kind = "image/png" if way == "file" else "application/octet-stream"
        fields: Any = {"prompt": (None, "a ball"), "input_reference": (name, png(), kind)}
        answer = server.http.post("/v1/videos", files=fields)
        assert answer.status_code == 200, answer.text
        made = answer.json()
    assert server.ended(made["id"])["status"] == "completed"
    assert opened(server, made["id"]).reference is not None
    plain = server.ended(server.video()["id"])
    assert opened(server, plain["id"]).reference is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://example.com/x.png", "not fetched"),
        ({"image_url": "http://127.0.0.1/x.png"}, "not fetched"),
        ({"file_id": "file_1"}, "allowed: a file, base64"),
        ("%%%", "not base64"),
        (base64.b64encode(b"hello").decode(), "cannot be read"),
        (7, "allowed: a file, base64"),
    ],
)
def test_inputs_that_are_none(server: Server, value: Any, said: str) -> None:
    body = {"prompt": "a ball", "input_reference": value}
    answer = server.http.post("/v1/videos", json=body)
    error = error_of(answer)
    assert answer.status_code == 422 and error["param"] == "input_reference"
    assert said in error["message"]


def test_a_model_without_encoders_takes_no_input(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(encodes=False))
    text = base64.b64encode(png()).decode()
    answer = server.http.post("/v1/videos", json={"prompt": "a ball", "input_reference": text})
    assert answer.status_code == 422 and "no encoders" in error_of(answer)["message"]


# ---- options -------------------------------------------------------------------------------------


def test_options_of_others_are_taken_where_they_mean_nothing(server: Server) -> None:
    made = server.video(guidance_scale="1", negative_prompt="", priority="3")
    assert made["priority"] == 3
    for field, value in (("guidance_scale", 7.5), ("priority", 11), ("priority", "high")):
        answer = server.http.post("/v1/videos", json={"prompt": "a ball", field: value})
        assert answer.status_code == 422 and error_of(answer)["param"] == field


def test_an_estimate_comes_with_the_job(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.1), max_jobs_running=1)
    ids = [server.video(seconds="60")["id"] for _ in range(3)]
    until(lambda: server.engine.streams)
    first, _, last = (server.http.get(f"/v1/videos/{each}") for each in ids)
    assert 0 < first.json()["eta_s"] < last.json()["eta_s"]
    polls = [int(answer.headers["openai-poll-after-ms"]) for answer in (first, last)]
    assert 200 <= polls[0] <= polls[1] <= 10_000


# ---- remix, extension, edit ----------------------------------------------------------------------


def test_a_remix_keeps_all_but_the_prompt(server: Server) -> None:
    picture = base64.b64encode(png()).decode()
    first = server.video(seed=9, num_inference_steps=3, input_reference=picture)
    assert server.ended(first["id"])["remixed_from_video_id"] is None
    answer = server.http.post(f"/v1/videos/{first['id']}/remix", json={"prompt": "a blue ring"})
    assert answer.status_code == 200, answer.text
    made = server.ended(answer.json()["id"])
    assert made["remixed_from_video_id"] == first["id"] and made["prompt"] == "a blue ring"
    for name in ("seed", "num_inference_steps", "num_frames", "size", "generate_audio"):
        assert made[name] == first[name], name
    references = [opened(server, each["id"]).reference for each in (first, made)]
    assert references[0] == references[1] is not None


def test_what_cannot_be_remixed(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.1))
    made = server.video(seconds="60")
    url = f"/v1/videos/{made['id']}/remix"
    early = server.http.post(url, json={"prompt": "a ring"})
    assert early.status_code == 409 and error_of(early)["code"] == "video_not_ready"
    assert server.http.post(url, json={}).status_code == 422
    unknown = server.http.post("/v1/videos/video_0/remix", json={"prompt": "a ring"})
    assert unknown.status_code == 404


def test_an_extension_begins_from_the_end(server: Server) -> None:
    first = server.ended(server.video(seconds="1")["id"])
    body = {"prompt": "a ball", "seconds": "0.4", "video": {"id": first["id"]}}
    answer = server.http.post("/v1/videos/extensions", json=body)
    assert answer.status_code == 200, answer.text
    made = server.ended(answer.json()["id"])
    assert (made["extended_from_video_id"], made["num_frames"]) == (first["id"], 8)
    assert opened(server, made["id"]).reference is not None
    fields: Any = {"prompt": (None, "a ball"), "video[id]": (None, first["id"])}
    assert server.http.post("/v1/videos/extensions", files=fields).status_code == 200


def test_an_extension_of_an_uploaded_video(server: Server) -> None:
    first = server.ended(server.video(seconds="1")["id"])
    data = server.http.get(first["url"]).content
    fields: Any = {"prompt": (None, "a ball"), "video": ("upload", data)}
    made = server.http.post("/v1/videos/extensions", files=fields).json()
    assert made["extended_from_video_id"] is None
    assert server.ended(made["id"])["status"] == "completed"
    both = server.http.post(
        "/v1/videos/extensions", files=fields | {"video[id]": (None, first["id"])}
    )
    assert both.status_code == 422 and error_of(both)["code"] == "repeated_field"


@pytest.mark.parametrize("video", [{"id": "video_0"}, "video_0"])
def test_an_extension_of_nothing(server: Server, video: Any) -> None:
    answer = server.http.post("/v1/videos/extensions", json={"prompt": "a", "video": video})
    assert answer.status_code == 404


def test_edits_are_refused_with_what_can_be_done(server: Server) -> None:
    body = {"prompt": "a ball", "video": {"id": "video_0"}}
    answer = server.http.post("/v1/videos/edits", json=body)
    assert answer.status_code == 422 and error_of(answer)["code"] == "unsupported_operation"
    assert "extension" in error_of(answer)["message"]


# ---- once, and waiting ---------------------------------------------------------------------------


def test_a_request_sent_twice_makes_one_job(server: Server) -> None:
    headers = {"idempotency-key": "order-1"}
    body = {"prompt": "a ball", "seconds": "0.5"}
    first = server.http.post("/v1/videos", json=body, headers=headers)
    assert "idempotency-replayed" not in first.headers
    form: Any = {name: (None, value) for name, value in body.items()}
    for again in (
        server.http.post("/v1/videos", json=body, headers=headers),
        server.http.post("/v1/videos", files=form, headers=headers),
        server.http.post("/v1/videos", json=body, headers={"idempotency-key": '"order-1"'}),
    ):
        assert again.json()["id"] == first.json()["id"] and again.json()["seed"] is not None
        assert again.headers["idempotency-replayed"] == "true"
    assert len(server.http.get("/v1/videos").json()["data"]) == 1
    other = server.http.post("/v1/videos", json=body | {"seed": 1}, headers=headers)
    assert other.status_code == 422
    assert error_of(other)["code"] == "idempotency_key_reused"
    mine = headers | {"authorization": "Bearer another"}
    assert (
        server.http.post("/v1/videos", json=body, headers=mine).json()["id"] != (first.json()["id"])
    )
    server.http.delete(f"/v1/videos/{first.json()['id']}")
    after = server.http.post("/v1/videos", json=body, headers=headers)
    assert after.status_code == 200 and "idempotency-replayed" not in after.headers


def test_a_key_used_by_many_at_once_makes_one_job(server: Server) -> None:
    def send(_: int) -> str:
        headers = {"idempotency-key": "at-once"}
        answer = server.http.post("/v1/videos", json={"prompt": "a ball"}, headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(send, range(16)))) == 1
    assert len(server.http.get("/v1/videos").json()["data"]) == 1


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\tb", "a b", '"a b"'])
def test_keys_that_are_none(server: Server, key: str) -> None:
    headers = {"idempotency-key": key}
    answer = server.http.post("/v1/videos", json={"prompt": "a ball"}, headers=headers)
    assert answer.status_code == 422 and error_of(answer)["param"] == "idempotency-key"


def test_a_client_may_prefer_to_wait(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.02), max_jobs_running=1)
    body = {"prompt": "a ball", "seconds": "0.5"}
    done = server.http.post("/v1/videos", json=body, headers={"prefer": "respond-async, wait=60"})
    assert done.json()["status"] == "completed"
    assert done.headers["preference-applied"] == "wait=60"
    long = server.http.post(
        "/v1/videos", json=body | {"seconds": "60"}, headers={"prefer": "wait=1"}
    )
    assert long.json()["status"] in ("queued", "in_progress")
    assert "openai-poll-after-ms" in long.headers
    odd = server.http.post("/v1/videos", json=body, headers={"prefer": "wait=soon"})
    assert odd.status_code == 200 and "preference-applied" not in odd.headers


def test_one_request_for_the_file(server: Server) -> None:
    body = {"prompt": "a ball", "seconds": "0.5", "seed": 4}
    answer = server.http.post("/v1/videos/sync", json=body)
    assert answer.status_code == 200 and answer.headers["content-type"] == "video/mp4"
    kept = server.http.get(f"{answer.headers['location']}/content")
    assert kept.content == answer.content and answer.content[4:8] == b"ftyp"
    failed = server.http.post("/v1/videos/sync", json={"prompt": "boom", "seconds": "2"})
    assert failed.status_code == 500 and error_of(failed)["code"] == "generation_failed"
    refused = server.http.post("/v1/videos/sync", json={"prompt": "invalid"})
    assert refused.status_code == 422 and error_of(refused)["code"] == "invalid_prompt"
