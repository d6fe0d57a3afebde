"""Video jobs over HTTP: the wire format, the files, the ends, and a server that comes back."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image
from sqlalchemy.exc import OperationalError

from onbeat.server.engine.messages import CloseStream
from tests.server.api.conftest import Server, StartServer, application, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.test_sessions import error_of

WIRE_FIELDS = {
    "id": str,
    "object": str,
    "model": str,
    "status": str,
    "progress": int,
    "created_at": int,
    "completed_at": int | None,
    "expires_at": int | None,
    "prompt": str,
    "seconds": str,
    "size": str,
    "remixed_from_video_id": str | None,
    "error": dict | None,
}


@pytest.fixture(scope="module")
def finished(one_server: Server) -> tuple[Server, str]:
    """A server, and the address of a finished video's file."""
    video_id = one_server.ended(one_server.video()["id"])["id"]
    return one_server, f"/v1/videos/{video_id}/content"


def content(server: Server, video_id: str, **query: str) -> Any:
    return server.http.get(f"/v1/videos/{video_id}/content", params=query)


def test_a_job_has_the_wire_format_at_every_moment(server: Server) -> None:
    made = server.video(seed=5, num_inference_steps=3)
    for body in (made, server.ended(made["id"])):
        for name, kind in WIRE_FIELDS.items():
            assert isinstance(body[name], kind), name
    assert made["object"] == "video" and made["status"] in ("queued", "in_progress")
    assert (made["seed"], made["num_inference_steps"], made["progress"]) == (5, 3, 0)
    assert (made["seconds"], made["size"], made["num_frames"]) == ("0.5", "32x32", 10)


def test_a_finished_job_says_what_it_took(server: Server) -> None:
    done = server.ended(server.video()["id"])
    assert (done["status"], done["progress"], done["error"]) == ("completed", 100, None)
    assert done["inference_time_s"] > 0 and done["attempt"] == 1
    assert done["peak_memory_mb"] is None or done["peak_memory_mb"] > 0
    assert done["recognised"] == ["a", "red", "ball"]
    assert done["url"] == f"http://127.0.0.1:8000/v1/videos/{done['id']}/content"
    assert done["queue_position"] is None


def test_the_file_is_what_was_asked_for(server: Server) -> None:
    done = server.ended(server.video(seconds=1.3, seed=11, prompt="a red ball ü")["id"])
    answer = content(server, done["id"])
    assert answer.status_code == 200 and answer.headers["content-type"] == "video/mp4"
    data = answer.content
    assert 0 < data.find(b"moov") < data.find(b"mdat"), "the index comes first"
    with av.open(io.BytesIO(data), "r") as file:
        video, audio = file.streams.video[0], file.streams.audio[0]
        assert (video.codec_context.name, video.pix_fmt) == ("h264", "yuv420p")
        assert (video.width, video.height, video.average_rate) == (32, 32, Fraction(20))
        assert (audio.codec_context.name, audio.rate, audio.channels) == ("aac", 48_000, 1)
        assert file.metadata["title"] == "a red ball ü" and "seed=11" in file.metadata["comment"]
        frames = [frame.to_ndarray(format="gray") for frame in file.decode(video)]
        assert file.duration == pytest.approx(1.3e6, abs=5e4)
    assert len(frames) == 26
    assert np.abs(frames[0].astype(int) - frames[9].astype(int)).mean() > 1
    with av.open(io.BytesIO(data), "r") as file:
        sound = np.concatenate([f.to_ndarray()[0] for f in file.decode(audio=0)])
    assert np.abs(sound).max() > 0.1
    assert len(sound) / 48_000 == pytest.approx(1.3, abs=0.05)


def test_without_audio_there_is_no_sound_track(server: Server) -> None:
    done = server.ended(server.video(generate_audio=False)["id"])
    with av.open(io.BytesIO(content(server, done["id"]).content), "r") as file:
        assert len(file.streams.video) == 1 and not file.streams.audio


def test_same_seed_same_pictures(server: Server) -> None:
    first, second, other = (server.ended(server.video(seed=s)["id"])["id"] for s in (4, 4, 5))
    assert content(server, first).content == content(server, second).content
    assert content(server, first).content != content(server, other).content


def test_stills(server: Server) -> None:
    done = server.ended(server.video(num_frames=40, seconds=None)["id"])
    for variant, kind, size in (
        ("thumbnail", "WEBP", (32, 32)),
        ("spritesheet", "JPEG", (128, 128)),
    ):
        with Image.open(io.BytesIO(content(server, done["id"], variant=variant).content)) as image:
            assert (image.format, image.size) == (kind, size)
    wrong = content(server, done["id"], variant="gif")
    assert wrong.status_code == 422 and error_of(wrong)["param"] == "variant"


def test_ranges_etags_and_head(server: Server) -> None:
    done = server.ended(server.video()["id"])
    url = f"/v1/videos/{done['id']}/content"
    whole = server.http.get(url)
    part = server.http.get(url, headers={"range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == whole.content[4:8] == b"ftyp"
    head = server.http.head(url)
    assert head.headers["etag"] == whole.headers["etag"] and head.content == b""
    assert int(head.headers["content-length"]) == len(whole.content)
    several = server.http.get(url, headers={"range": "bytes=0-1, -2"})
    assert several.headers["content-type"].startswith("multipart/byteranges")
    other = {"range": "bytes=0-1", "if-range": '"another"'}
    assert server.http.get(url, headers=other).content == whole.content
    lines = server.http.get(url, headers={"range": "lines=x"})
    assert lines.content == whole.content, "an unknown unit is no range"


@pytest.mark.parametrize(
    "asked",
    ["bytes=x", "bytes", "bytes=", "bytes=5-4", "bytes=99999999-", "bytes=-0", "bytes=-", "bytes=0"]
    + ["bytes=1-2;3", "bytes=0-1,x", "bytes=--1", f"bytes={'9' * 5000}-", "bytes=\xb2-"],
)
def test_ranges_that_are_none(finished: tuple[Server, str], asked: str) -> None:
    server, url = finished
    raw = [("range", asked.encode("latin-1"))]
    for method in ("GET", "HEAD"):
        answer = server.http.request(method, url, headers=raw)  # type: ignore[arg-type]
        assert answer.status_code == 416
        assert answer.headers["content-range"].startswith("bytes */")
        assert answer.headers["content-type"] == "application/problem+json"
    assert error_of(server.http.get(url, headers=raw))["param"] == "range"  # type: ignore[arg-type]


def test_no_content_before_the_end(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.2))
    made = server.video(seconds="60")
    assert made["progress"] == 0
    answer = content(server, made["id"])
    assert answer.status_code == 409 and error_of(answer)["code"] == "video_not_ready"
    poll = server.http.get(f"/v1/videos/{made['id']}").headers["openai-poll-after-ms"]
    assert 200 <= int(poll) <= 10_000


def test_progress_is_real(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.3))
    url = f"/v1/videos/{server.video(seconds='60')['id']}"
    until(lambda: 0 < server.http.get(url).json()["progress"] < 100)


def test_multipart_forms_are_taken(server: Server) -> None:
    fields = {
        "prompt": (None, "a blue ball"),
        "seconds": (None, "0.4"),
        "seed": (None, "123"),
        "generate_audio": (None, "false"),
        "metadata[shot]": (None, "3"),
    }
    answer = server.http.post("/v1/videos", files=fields)
    body = answer.json()
    assert answer.status_code == 200, body
    assert (body["seed"], body["generate_audio"], body["num_frames"]) == (123, False, 8)
    assert body["metadata"] == {"shot": "3"}


def test_listing_page_by_page(server: Server) -> None:
    ids = [server.video()["id"] for _ in range(5)]
    first = server.http.get("/v1/videos", params={"limit": 2}).json()
    assert [v["id"] for v in first["data"]] == ids[:2:-1]
    assert first["object"] == "list" and first["has_more"] is True
    assert (first["first_id"], first["last_id"]) == (ids[4], ids[3])
    rest = server.http.get("/v1/videos", params={"after": first["last_id"]}).json()
    assert [v["id"] for v in rest["data"]] == ids[2::-1] and rest["has_more"] is False
    oldest = server.http.get("/v1/videos", params={"order": "asc", "limit": 1}).json()
    assert oldest["data"][0]["id"] == ids[0]
    unknown = server.http.get("/v1/videos", params={"after": "video_0"})
    assert unknown.status_code == 404 and error_of(unknown)["param"] == "after"


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "page=2"])
def test_bad_list_queries(server: Server, query: str) -> None:
    answer = server.http.get(f"/v1/videos?{query}")
    assert answer.status_code == 422 and error_of(answer)["param"] == query.split("=")[0]


def test_deleting_a_running_job_frees_its_stream(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.1))
    made = server.video(seconds="60")
    until(lambda: server.engine.streams)
    answer = server.http.delete(f"/v1/videos/{made['id']}")
    assert answer.json() == {"id": made["id"], "deleted": True, "object": "video.deleted"}
    until(lambda: not server.engine.streams)
    assert isinstance(server.engine.commands[-1], CloseStream)
    until(lambda: not list(server.front.settings.data_dir.glob("artifacts/*")))
    gone = server.http.get(f"/v1/videos/{made['id']}")
    assert gone.status_code == 404 and error_of(gone)["code"] == "video_not_found"


def test_deleting_a_finished_job_removes_its_files(server: Server) -> None:
    done = server.ended(server.video()["id"])
    folder = server.front.settings.data_dir / "artifacts"
    assert len(list(folder.iterdir())) == 3
    server.http.delete(f"/v1/videos/{done['id']}")
    assert not list(folder.iterdir())
    assert server.http.delete(f"/v1/videos/{done['id']}").status_code == 404


def test_cancelling(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.1), max_jobs_running=1)
    running, waiting = server.video(seconds="60"), server.video(seconds="60")
    until(lambda: server.engine.streams)
    assert server.http.get(f"/v1/videos/{waiting['id']}").json()["queue_position"] == 1
    for video in (waiting, running):
        body = server.http.post(f"/v1/videos/{video['id']}/cancel").json()
        assert body["status"] == "cancelled" and body["completed_at"] is not None
    until(lambda: not server.engine.streams)
    again = server.http.post(f"/v1/videos/{running['id']}/cancel")
    assert again.status_code == 200 and again.json()["status"] == "cancelled"
    answer = content(server, running["id"])
    assert answer.status_code == 409 and error_of(answer)["code"] == "video_cancelled"


def test_cancelling_what_has_ended(server: Server) -> None:
    done = server.ended(server.video()["id"])
    answer = server.http.post(f"/v1/videos/{done['id']}/cancel")
    assert answer.status_code == 409 and error_of(answer)["code"] == "video_ended"


def test_a_failed_job_says_why(server: Server) -> None:
    failed = server.ended(server.video(prompt="boom", seconds="2")["id"])
    assert failed["status"] == "failed"
    assert failed["error"] == {"code": "generation_failed", "message": "boom"}
    refused = server.ended(server.video(prompt="invalid")["id"])
    assert refused["error"]["code"] == "invalid_prompt"
    assert not list((server.front.settings.data_dir / "artifacts").iterdir())


def test_no_more_than_the_allowed_jobs_run(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.02), max_jobs_running=2)
    ids = [server.video(seconds="0.4")["id"] for _ in range(5)]
    assert all(server.ended(video_id)["status"] == "completed" for video_id in ids)
    opened = [stream.stream_id.split(".")[0] for stream in server.engine.opened("job")]
    assert sorted(opened) == sorted(ids)
    jobs = server.front.store.page(after=None, limit=9, newest_first=False)
    taken = [job.started_at or 0.0 for job in jobs]
    assert taken == sorted(taken), "in order"


def test_no_more_than_the_allowed_jobs_wait(start_server: StartServer) -> None:
    server = start_server(
        engine=FakeEngine(job_chunk_seconds=0.1), max_jobs_running=1, max_jobs_queued=1
    )
    server.video(seconds="60")
    until(lambda: server.engine.streams)
    server.video()
    answer = server.http.post("/v1/videos", json={"prompt": "a ball"})
    assert answer.status_code == 503 and error_of(answer)["code"] == "capacity"
    assert int(answer.headers["retry-after"]) > 0


def test_one_key_cannot_fill_the_queue(start_server: StartServer) -> None:
    server = start_server(
        engine=FakeEngine(job_chunk_seconds=0.1), max_jobs_running=1, max_jobs_queued=4
    )
    server.video(seconds="60")
    until(lambda: server.engine.streams)

    def ask(key: str) -> Any:
        headers = {"authorization": f"Bearer {key}"}
        return server.http.post("/v1/videos", json={"prompt": "a ball"}, headers=headers)

    assert [ask("greedy").status_code for _ in range(3)] == [200, 200, 429]
    refused = ask("greedy")
    error = error_of(refused)
    assert error["code"] == "key_queue_full" and "2 jobs of this key wait" in error["message"]
    assert "max_jobs_queued_per_key" in error["message"]
    assert int(refused.headers["retry-after"]) > 0
    assert ask("modest").status_code == 200, "others still get in"
    assert ask("another").status_code == 200
    assert ask("a fifth").status_code == 503


def test_a_lost_engine_starts_the_job_over_with_the_same_seed(start_server: StartServer) -> None:
    server = start_server()
    server.engine.silent.set()
    made = server.video(seconds="2", seed=9)
    until(lambda: server.engine.streams)
    server.engine.crash()
    server.engine.silent.clear()
    done = server.ended(made["id"])
    assert (done["status"], done["attempt"], done["seed"]) == ("completed", 2, 9)
    assert {stream.seed for stream in server.engine.opened("job")} == {9}
    alone = server.ended(server.video(seconds="2", seed=9)["id"])
    assert content(server, done["id"]).content == content(server, alone["id"]).content


def test_jobs_survive_a_killed_server(start_server: StartServer, tmp_path: Path) -> None:
    """The rows of a server that was killed: one running, two waiting."""
    first = start_server(engine=FakeEngine(), max_jobs_running=1)
    first.engine.silent.set()
    ids = [first.video(seconds="1", seed=n)["id"] for n in range(3)]
    until(lambda: first.engine.streams)
    killed = tmp_path / "killed"
    _copy_database(first, tmp_path, killed)
    (killed / "artifacts").mkdir()
    (killed / "artifacts" / f"{ids[0]}.1.mp4.part").write_bytes(b"half a file")
    second = start_server(data_dir=killed)
    done = [second.ended(video_id) for video_id in ids]
    assert [video["status"] for video in done] == ["completed"] * 3
    assert [video["seed"] for video in done] == [0, 1, 2]
    assert done[0]["attempt"] == 2
    assert not list((killed / "artifacts").glob("*.part"))


def _copy_database(server: Server, source: Path, target: Path) -> None:
    """What is on the disk at this instant, as a kill would leave it: nobody writes meanwhile."""
    target.mkdir()
    with server.front.store.database.writing():
        for path in source.glob("jobs.sqlite3*"):
            (target / path.name).write_bytes(path.read_bytes())


def test_a_stopped_server_puts_its_jobs_back(start_server: StartServer, tmp_path: Path) -> None:
    slow = FakeEngine(job_chunk_seconds=0.05)
    with application(slow, data_dir=tmp_path) as client:
        until(lambda: client.get("/ready").status_code == 200)
        body = {"prompt": "a ball", "seconds": 30}
        made = client.post("/v1/videos", json=body).json()
        until(lambda: slow.streams)
    done = start_server().ended(made["id"])
    assert (done["status"], done["attempt"]) == ("completed", 1)


def test_a_full_disk_is_said_as_such(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **_more: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setattr("onbeat.server.jobs.store.JobStore.add", full)
    answer = server.http.post("/v1/videos", json={"prompt": "red ball"})
    assert answer.status_code == 507
    assert answer.json()["error"]["code"] == "insufficient_storage"
