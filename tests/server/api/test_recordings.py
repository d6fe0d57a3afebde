"""Recordings over HTTP: begun, listed, ended, downloaded in parts, deleted, refused."""

import errno
import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import pytest

from onbeat.server.jobs.keeping import Limits
from onbeat.server.jobs.recordings import RecordingStore
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.test_whep import Channel
from tests.server.jobs.packets import FPS, feed
from tests.server.jobs.s3_server import s3_server
from tests.server.jobs.test_recordings import info_of, store_in, writer_of


class Loop:
    """A sink's methods, called on the server's event loop."""

    def __init__(self, server: Server, number: int = 0) -> None:
        self._call = server.front._loop.call_soon_threadsafe
        self._sink = server.media.broadcasts[number].taps[-1].sink

    def video(self, picture: Any) -> None:
        self._call(self._sink.video, picture)

    def sound(self, sound: Any) -> None:
        self._call(self._sink.sound, sound)


def begun(server: Server, session: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = server.http.post(session["recordings_url"], json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def fed(server: Server, recording: dict[str, Any], codec: str = "VP8", frames: int = 30) -> None:
    feed(Loop(server), codec, frames=frames, first=3, flash=10)  # type: ignore[arg-type]
    until(lambda: server.http.get(recording["url"]).json()["frames"] == frames)


@pytest.fixture(params=["folder", "bucket"])
def anywhere(
    request: pytest.FixtureRequest, start_server: StartServer, tmp_path: Path
) -> Iterator[Server]:
    """Where ended recordings lie."""
    if request.param == "folder":
        yield start_server()
        return
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    with s3_server() as address:
        server = start_server(artifacts=address)
        yield server
        server.http.__exit__()


def test_a_recording_from_begin_to_download(anywhere: Server) -> None:
    server = anywhere
    channel = Channel(server)
    made = begun(server, channel.made)
    assert (made["status"], made["format"], made["video_codec"]) == ("recording", "webm", "VP8")
    assert server.http.get(f"/v1/sessions/{channel.made['id']}").json()["status"] == "live"
    until(lambda: "onbeat_recordings_active 1.0" in server.http.get("/metrics").text)
    early = server.http.get(made["content_url"])
    assert early.status_code == 409 and early.json()["error"]["code"] == "recording_not_ready"
    second = server.http.post(channel.made["recordings_url"], json={})
    assert second.status_code == 409 and second.json()["error"]["code"] == "already_recording"
    fed(server, made)
    done = server.http.post(f"{made['url']}/stop").json()
    assert (done["status"], done["reason"], done["frames"]) == ("completed", "stopped", 30)
    assert done["seconds"] == pytest.approx(30 / FPS, abs=0.002)
    whole = server.http.get(done["content_url"])
    assert whole.headers["content-type"] == "video/webm" and len(whole.content) == done["bytes"]
    with av.open(io.BytesIO(whole.content), "r") as given:
        assert len(list(given.decode(video=0))) == 30
    assert whole.headers["etag"] and whole.headers["accept-ranges"] == "bytes"
    asked = {"range": "bytes=10-19", "if-range": whole.headers["etag"]}
    part = server.http.get(done["content_url"], headers=asked)
    assert part.status_code == 206 and part.content == whole.content[10:20]
    head = server.http.head(done["content_url"])
    assert head.status_code == 200 and int(head.headers["content-length"]) == done["bytes"]
    assert server.http.post(f"{made['url']}/stop").json() == done

    def told() -> list[str]:
        return [m["status"] for m in channel.peer.sent if m["type"] == "recording"]

    until(lambda: told()[1:])
    assert told() == ["recording", "completed"]
    for url in ("/v1/recordings", channel.made["recordings_url"]):
        assert [each["id"] for each in server.http.get(url).json()["data"]] == [made["id"]]
    server.front.artifacts._limits = Limits(keep_seconds=1)
    server.front.artifacts._clock = lambda: time.time() + 60
    server.front.artifacts.tidy()
    late = server.http.get(done["content_url"])
    assert late.status_code == 410 and late.json()["error"]["code"] == "content_gone"
    assert server.http.delete(made["url"]).json()["deleted"] is True
    assert server.http.get(made["url"]).status_code == 404


def test_the_format_asks_for_the_codec(server: Server) -> None:
    session = server.session()
    made = begun(server, session, format="mp4", audio=False)
    assert (made["format"], made["video_codec"], made["audio"]) == ("mp4", "H264", False)
    fed(server, made, codec="H264")
    server.http.delete(f"/v1/sessions/{session['id']}")
    done = until(
        lambda: next(
            (
                each
                for each in server.http.get(session["recordings_url"]).json()["data"]
                if each["status"] == "completed"
            ),
            None,
        )
    )
    assert done["reason"] == "session_ended" and done["frames"] == 30
    content = server.http.get(done["content_url"]).content
    with av.open(io.BytesIO(content), "r") as given:
        assert [stream.type for stream in given.streams] == ["video"]


def test_a_recording_keeps_a_session_running(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=0.1)
    session = server.session()
    url = f"/v1/sessions/{session['id']}"
    until(lambda: server.http.get(url).json()["status"] == "paused")
    made = begun(server, session)
    until(lambda: server.http.get(url).json()["status"] == "live")
    server.now(idle_session_seconds=0.2)
    ticks = len(server.front.telemetry.history)
    until(lambda: len(server.front.telemetry.history) >= ticks + 2)
    assert server.http.get(url).json()["status"] == "live"
    server.http.post(f"{made['url']}/stop")
    until(lambda: server.http.get(url).status_code == 404)


def test_a_recording_without_a_picture_has_failed(server: Server) -> None:
    made = begun(server, server.session())
    done = server.http.post(f"{made['url']}/stop").json()
    assert (done["status"], done["reason"]) == ("failed", "no_picture")
    answer = server.http.get(done["content_url"])
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "recording_failed"
    begun(server, server.session())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"recordings_max_mib": 0}, "takes no recordings: ONBEAT_RECORDINGS_MAX_MIB is 0"),
        ({"recordings_max_mib": 1}, "raise ONBEAT_RECORDINGS_MAX_MIB"),
        ({"recordings_min_free_mib": 1 << 40}, "ONBEAT_RECORDINGS_MIN_FREE_MIB"),
    ],
)
def test_without_room_none_begins(
    start_server: StartServer, settings: dict[str, int], name: str
) -> None:
    server = start_server(**settings)
    session = server.session()
    answer = server.http.post(session["recordings_url"], json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (507, "insufficient_storage")
    assert name in error["message"]
    assert server.http.get("/v1/recordings").json()["data"] == []


def test_a_folder_that_cannot_be_written_is_not_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    session = server.session()
    monkeypatch.setattr(server.front.recordings.store, "write", full)
    answer = server.http.post(session["recordings_url"], json={})
    assert answer.status_code == 507 and "No space left on device" in answer.text
    assert str(tmp_path) not in answer.text


def test_a_removed_folder_is_made_anew(server: Server, tmp_path: Path) -> None:
    """Viewers go on to get their numbers, and the next recording has its place."""
    session = server.session()
    shutil.rmtree(next(tmp_path.rglob("recordings")))
    begun(server, session)
    shutil.rmtree(next(tmp_path.rglob("artifacts")))
    made = server.video(seconds=1)
    assert server.ended(made["id"])["status"] == "completed"


def test_wrong_bodies_and_ids(one_server: Server) -> None:
    url = one_server.session()["recordings_url"]
    for body in ({"format": "avi"}, {"max_seconds": 0}, {"max_seconds": 1e9}, {"colour": 1}):
        assert one_server.http.post(url, json=body).status_code == 422
    assert one_server.http.get("/v1/recordings/none").status_code == 404
    assert one_server.http.post("/v1/recordings/none/stop").status_code == 404
    assert one_server.http.delete("/v1/recordings/none").status_code == 404
    assert one_server.http.post("/v1/sessions/none/recordings", json={}).status_code == 404
    assert one_server.http.get("/v1/sessions/none/recordings").status_code == 404


def test_lists_come_in_pages(one_server: Server) -> None:
    server, made = one_server, []
    for words in ("a red ball", "a blue ring", "a red ball"):
        made.append(begun(server, server.session(prompt=words)))
        server.http.post(f"{made[-1]['url']}/stop")
    ids = [each["id"] for each in made]
    first = server.http.get("/v1/recordings?limit=2").json()
    assert [each["id"] for each in first["data"]] == [ids[2], ids[1]]
    assert (first["first_id"], first["last_id"], first["has_more"]) == (ids[2], ids[1], True)
    rest = server.http.get(f"/v1/recordings?after={ids[1]}&limit=100").json()
    assert rest["data"][0]["id"] == ids[0] and rest["has_more"] is False
    oldest = server.http.get(f"/v1/recordings?after={ids[0]}&order=asc").json()
    assert [each["id"] for each in oldest["data"]] == ids[1:]
    assert [each["prompt"] for each in oldest["data"]] == ["a blue ring", "a red ball"]
    url = f"/v1/sessions/{made[0]['session_id']}/recordings"
    own = server.http.get(url).json()
    assert [each["id"] for each in own["data"]] == [ids[0]]
    for path in ("/v1/recordings?after=none", f"{url}?after={ids[1]}"):
        answer = server.http.get(path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (
            404,
            "recording_not_found",
            "after",
        )
    for query in ("limit=0", "limit=101", "order=up"):
        assert server.http.get(f"/v1/recordings?{query}").status_code == 422


def test_a_server_that_closes_leaves_whole_files(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    made = begun(server, server.session())
    fed(server, made)
    server.http.__exit__()
    (path,) = (tmp_path / "artifacts").glob("*.webm")
    with av.open(str(path)) as given:
        assert len(list(given.decode(video=0))) == 30


def left_over(folder: Path) -> str:
    """The id of a recording that was running when its server was killed."""
    store, info = store_in(folder), info_of("VP8", "webm")
    store.write(info)
    writer, _ = writer_of(store, info)
    feed(writer, "VP8", frames=30, first=0, flash=5)
    writer.stop()
    writer.join()
    return info.id


def test_what_a_killed_server_left_is_there_after_the_next_start(
    start_server: StartServer, tmp_path: Path
) -> None:
    url = f"/v1/recordings/{left_over(tmp_path / 'recordings')}"
    server = start_server()
    until(lambda: server.http.get(url).json()["status"] == "completed")
    assert server.http.get(url).json()["reason"] == "server_ended"
    with av.open(io.BytesIO(server.http.get(f"{url}/content").content), "r") as given:
        assert len(list(given.decode(video=0))) == 30


def test_a_place_that_fails_keeps_nobody_from_stopping(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording waits; what could not be removed is still there."""
    made = begun(server, server.session())
    fed(server, made)

    def away(*_: Any) -> None:
        raise OSError("recording_1.webm: no route to http://10.1.2.3/bucket/prefix")

    with monkeypatch.context() as patch:
        patch.setattr(server.front.artifacts, "publish", away)
        patch.setattr(server.front.artifacts, "remove", away)
        stopped = server.http.post(f"{made['url']}/stop").json()
        assert (stopped["status"], stopped["reason"]) == ("finishing", "stopped")
        early = server.http.get(made["content_url"])
        assert early.status_code == 409 and early.json()["error"]["code"] == "recording_not_ready"
        kept = server.http.delete(made["url"])
        assert kept.status_code == 503 and kept.json()["error"]["code"] == "storage_unreachable"
        assert "bucket" not in kept.text
    store: RecordingStore = server.front.recordings.store
    store.settle()
    until(lambda: server.http.get(made["content_url"]).status_code == 200)
