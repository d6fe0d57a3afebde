"""Downloads: from a folder and from a bucket alike, with limits that are told and kept."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from onbeat.server.jobs.keeping import Limits, NoRoom
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.test_sessions import error_of
from tests.server.jobs.s3_server import s3_server
from tests.server.served import listening

INSIDES = "prefix/video_1.mp4"
"""What an error of a store says, and clients are not told."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    with s3_server() as found:
        yield found


@pytest.fixture(params=["folder", "other folder", "bucket"])
def server(
    request: pytest.FixtureRequest, start_server: StartServer, tmp_path: Path
) -> Iterator[Server]:
    match request.param:
        case "folder":
            yield start_server()
        case "other folder":
            yield start_server(artifacts=str(tmp_path / "results"))
        case _:
            place = f"{request.getfixturevalue('address')}/{tmp_path.name}"
            yield start_server(artifacts=place)


def made(server: Server) -> str:
    """The path of a finished video."""
    done = server.ended(server.video()["id"])
    assert done["status"] == "completed", done
    return urlsplit(str(done["url"])).path


def refused(answer: Any, status: int, code: str) -> None:
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


def test_ranges_and_heads(server: Server) -> None:
    url = made(server)
    whole = server.http.get(url)
    data, size = whole.content, len(whole.content)
    assert whole.headers["content-type"] == "video/mp4" and data[4:8] == b"ftyp"
    assert whole.headers["accept-ranges"] == "bytes" and whole.headers["etag"]
    head = server.http.head(url)
    assert head.status_code == 200 and head.content == b""
    assert int(head.headers["content-length"]) == size
    for asked, (start, end) in {
        "bytes=0-9": (0, 10),
        "bytes=5-": (5, size),
        "bytes=-7": (size - 7, size),
        f"bytes=3-{size + 99}": (3, size),
    }.items():
        part = server.http.get(url, headers={"Range": asked})
        assert (part.status_code, part.content) == (206, data[start:end]), asked
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    assert server.http.get(url, headers={"Range": f"bytes={size}-"}).status_code == 416
    etag = whole.headers["etag"]
    same = server.http.get(url, headers={"Range": "bytes=0-1", "If-Range": etag})
    other = server.http.get(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert (same.status_code, other.status_code) == (206, 200)


def test_stills_and_removal(server: Server) -> None:
    url = made(server)
    for variant, kind in (("thumbnail", "image/webp"), ("spritesheet", "image/jpeg")):
        answer = server.http.get(url, params={"variant": variant})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    job_id = url.split("/")[3]
    assert server.front.artifacts.find(job_id, "video") is not None
    assert server.http.delete(f"/v1/videos/{job_id}").status_code == 200
    assert server.front.artifacts.find(job_id, "video") is None
    assert server.http.get(url).status_code == 404


def test_a_result_that_expired_is_gone(server: Server) -> None:
    url = made(server)
    artifacts = server.front.artifacts
    artifacts._limits, artifacts._clock = Limits(keep_seconds=60), (lambda: time.time() + 61)
    artifacts.tidy()
    refused(server.http.get(url), 410, "content_gone")


def test_a_bucket_may_be_reached_by_a_signed_address(
    address: str, start_server: StartServer
) -> None:
    server = start_server(artifacts=address, artifacts_redirect=True)
    answer = server.http.get(made(server), follow_redirects=False)
    assert answer.status_code == 307 and "X-Amz-Signature=" in answer.headers["location"]


def test_a_bucket_that_fails_is_told(
    address: str, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(artifacts=address)
    url = made(server)

    def unreachable(*_: object) -> None:
        raise OSError(f"{INSIDES}: no route to {address}")

    video, artifacts = url.rpartition("/")[0], server.front.artifacts
    with monkeypatch.context() as patch:
        for name in ("find", "read", "remove", "publish"):
            patch.setattr(artifacts, name, unreachable)
        later = {"prompt": "a ball", "video": {"id": video.rpartition("/")[2]}}
        for answer in (
            server.http.get(url),
            server.http.delete(video),
            server.http.post("/v1/videos/extensions", json=later),
        ):
            refused(answer, 503, "storage_unreachable")
            assert answer.headers["retry-after"] == "5"
            assert INSIDES not in answer.text and address not in answer.text
        lost = server.ended(server.video()["id"])
        assert lost["error"]["code"] == "storage_failed"
        assert lost["error"]["message"] == (
            "The result could not be written: see the server's log."
        )
    assert server.http.delete(video).status_code == 200, "it is still there to be deleted"


def test_without_room_no_job_is_taken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise NoRoom("The disk has 3 MiB left, and 512 MiB are kept for others.")

    with monkeypatch.context() as patch:
        patch.setattr(server.front.artifacts, "check_room", full)
        answer = server.http.post("/v1/videos", json={"prompt": "a red ball"})
    refused(answer, 507, "insufficient_storage")
    assert "3 MiB left" in answer.json()["detail"]
    assert server.front.store.counts()["queued"] == 0
    made(server)


def test_a_disk_below_its_limit_takes_no_job(start_server: StartServer) -> None:
    server = start_server(artifacts_min_free_mib=1 << 40)
    refused(
        server.http.post("/v1/videos", json={"prompt": "a red ball"}), 507, "insufficient_storage"
    )


@contextmanager
def served(server: Server) -> Iterator[int]:
    """The same application on a real socket."""
    with listening(server.http.app, lifespan="off") as url:
        yield int(url.rpartition(":")[2])


def test_a_slow_download_is_whole_and_keeps_nobody_waiting(start_server: StartServer) -> None:
    """It reads a few kilobytes, others are served and the file is evicted meanwhile; then the rest
    comes."""
    server = start_server()
    url = made(server)
    job_id = url.split("/")[3]
    data = bytes(range(256)) * (8 << 12)
    artifacts = server.front.artifacts
    part = artifacts.part(job_id, 9, "video")
    part.write_bytes(data)
    artifacts.publish(part, job_id, "video")
    with served(server) as port, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port))
        slow.settimeout(60)
        slow.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode())
        got = slow.recv(1000)
        until(lambda: artifacts._held[job_id])
        artifacts._limits = Limits(max_bytes=1)
        assert artifacts.tidy() == [], "a running download is not evicted"
        assert server.http.get(f"/v1/videos/{job_id}").status_code == 200
        while len(got.partition(b"\r\n\r\n")[2]) < len(data):
            piece = slow.recv(1 << 16)
            assert piece
            got += piece
        assert got.partition(b"\r\n\r\n")[2] == data
        until(lambda: not artifacts._held[job_id])
        artifacts.tidy()
        assert artifacts.find(job_id, "video") is None


def test_a_client_that_goes_away_lets_go_of_the_file(start_server: StartServer) -> None:
    server = start_server()
    url = made(server)
    job_id = url.split("/")[3]
    artifacts: Any = server.front.artifacts
    part = artifacts.part(job_id, 9, "video")
    part.write_bytes(bytes(16 << 20))
    artifacts.publish(part, job_id, "video")
    with served(server) as port:
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode())
            rude.recv(100)
            until(lambda: artifacts._held[job_id])
        until(lambda: not artifacts._held[job_id])
