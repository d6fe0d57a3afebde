"""Jobs through the client: made, waited for, listed, fetched, failed, refused; both kinds alike."""

import asyncio
import io
import re
from pathlib import Path

import httpx2
import pytest

from onbeat.client import (
    AsyncOnbeatClient,
    ConnectionFailed,
    OnbeatClient,
    Refused,
    Video,
    VideoFailed,
)
from onbeat.client.calls import create_video
from tests.server.api.fake_engine import FakeEngine
from tests.server.client.conftest import StartServer

OPTIONS = {"seconds": 0.5, "seed": 7, "metadata": {"a": "b"}, "fps": None}


def test_a_video_is_rendered(address: str, tmp_path: Path) -> None:
    out = tmp_path / "ball.mp4"
    seen: list[Video] = []
    with OnbeatClient(address + "/v1/") as client:
        video = client.videos.render("a red ball", out, seen=seen.append, timeout=100, **OPTIONS)
        assert (video.status, video.seed, video.seconds) == ("completed", 7, 0.5)
        assert video.metadata == {"a": "b"} and video.recognised == ["a", "red", "ball"]
        assert seen[-1] == video and out.read_bytes()[4:8] == b"ftyp"
        assert [path.name for path in tmp_path.glob("ball*")] == ["ball.mp4"]
        told: list[tuple[int, int | None]] = []
        still = io.BytesIO()
        size = client.videos.download(
            video.id, still, variant="thumbnail", progress=lambda *each: told.append(each)
        )
        assert told[-1] == (size, size) and len(still.getvalue()) == size
        client.videos.delete(video.id)
        with pytest.raises(Refused, match="No video with id") as refusal:
            client.videos.get(video.id)
    assert (refusal.value.status, refusal.value.code) == (404, "video_not_found")
    assert refusal.value.request_id


def impossible(folder: Path) -> list[Path | io.BufferedReader]:
    """Where nothing can be written: no folder, a folder, a file below a file, a stream to read."""
    file = folder / "file"
    file.touch()
    return [folder / "no" / "x.mp4", folder, file / "x.mp4", file.open("rb")]


async def test_a_target_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(500)

    wire = httpx2.MockTransport(answer)
    blocking = OnbeatClient("http://x", http=httpx2.Client(transport=wire))
    awaiting = AsyncOnbeatClient("http://x", http=httpx2.AsyncClient(transport=wire))
    for target in impossible(tmp_path):
        with pytest.raises(OSError, match=re.escape(str(target))) as told:
            blocking.videos.render("a ball", target)
        assert ".part" not in str(told.value)
        with pytest.raises(OSError, match=re.escape(str(target))):
            await awaiting.videos.render("a ball", target)
        if isinstance(target, io.BufferedReader):
            target.close()
    assert not asked and [path.name for path in tmp_path.iterdir()] == ["file"]
    blocking.close()
    await awaiting.close()


async def test_many_are_rendered_at_once(address: str, tmp_path: Path) -> None:
    async with AsyncOnbeatClient(address) as client:
        videos = await asyncio.gather(
            *(
                client.videos.render("a red ball", tmp_path / f"{seed}.mp4", seconds=0.4, seed=seed)
                for seed in range(3)
            )
        )
        listed = [video.id async for video in client.videos.list(order="asc")]
        assert sorted(listed) == sorted(video.id for video in videos)
        with pytest.raises(Refused):
            await client.videos.cancel(videos[0].id)
        still = io.BytesIO()
        assert await client.videos.download(videos[0].id, still, variant="spritesheet") > 0
        await client.videos.delete(listed[0])
        assert [v.id async for v in client.videos.list()] == list(reversed(listed[1:]))
        models = await client.models()
    assert len({(tmp_path / f"{seed}.mp4").read_bytes() for seed in range(3)}) == 3
    assert models[0]["id"] == "toybox"


def test_lists_go_through_all_pages(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onbeat.client.paging.PAGE", 2)
    with OnbeatClient(address) as client:
        made = [client.videos.create("a red ball", seconds=0.2).id for _ in range(5)]
        assert [video.id for video in client.videos.list(order="asc")] == made
        assert [video.id for video in client.videos.list(limit=3)] == made[:1:-1]


def test_a_job_that_fails_or_is_cancelled_says_so(start_server: StartServer) -> None:
    engine = FakeEngine(job_chunk_seconds=0.05)
    with OnbeatClient(start_server(engine)) as client:
        with pytest.raises(VideoFailed, match="boom") as failure:
            client.videos.render("boom", io.BytesIO())
        assert failure.value.code == "generation_failed"
        endless = client.videos.create("a red ball", seconds=60)
        with pytest.raises(TimeoutError, match=f"{endless.id} is still"):
            client.videos.wait(endless.id, timeout=0.0)
        assert client.videos.cancel(endless.id).status == "cancelled"
        with pytest.raises(VideoFailed) as failure:
            client.videos.wait(endless.id).raise_for_failure()
        assert failure.value.code == "cancelled"


def test_refusals_name_the_field(address: str) -> None:
    with OnbeatClient(address) as client:
        with pytest.raises(Refused, match="sharpness") as refusal:
            client.videos.create("a red ball", sharpness=9)
    assert (refusal.value.status, refusal.value.param) == (422, "sharpness")


def test_a_key_is_sent(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    address = start_server(api_key="secret-key")
    with OnbeatClient(address) as client, pytest.raises(Refused) as refusal:
        client.models()
    assert refusal.value.status == 401
    with OnbeatClient(address, api_key="secret-key") as client:
        assert client.models()
    monkeypatch.setenv("ONBEAT_API_KEY", "secret-key")
    monkeypatch.setenv("ONBEAT_SERVER", address)
    with OnbeatClient() as client:
        assert client.models()


def test_nobody_there_is_one_clear_error() -> None:
    with OnbeatClient("http://127.0.0.1:9") as client:
        client._transport.sleep = lambda _: None
        with pytest.raises(ConnectionFailed, match="http://127.0.0.1:9: "):
            client.models()


class Flaky:
    """Answers in turn: an exception, a status, or a whole response."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return httpx2.Response(answer, headers={"retry-after": "2"}, json={})
        assert isinstance(answer, httpx2.Response)
        return answer


def client_of(flaky: Flaky) -> tuple[OnbeatClient, list[float]]:
    client = OnbeatClient("http://x", http=httpx2.Client(transport=httpx2.MockTransport(flaky)))
    slept: list[float] = []
    client._transport.sleep = slept.append
    return client, slept


def video_answer() -> httpx2.Response:
    body = {"id": "video_1", "status": "queued", "model": "toybox", "seconds": "4", "new": 1}
    return httpx2.Response(200, json=body)


def test_what_is_safe_is_sent_again_with_the_same_key() -> None:
    flaky = Flaky(httpx2.ConnectError("no"), 503, video_answer())
    client, slept = client_of(flaky)
    assert client.videos.create("a red ball").seconds == 4.0
    assert slept == [0.5, 2.0]
    assert len({request.headers["idempotency-key"] for request in flaky.requests}) == 1


def test_what_is_not_safe_or_hopeless_is_sent_once() -> None:
    for flaky, call in (
        (Flaky(503), lambda c: c.videos.cancel("video_1")),
        (Flaky(503), lambda c: c.sessions.create("a red ball")),
        (Flaky(404), lambda c: c.videos.get("video_1")),
    ):
        client, slept = client_of(flaky)
        with pytest.raises(Refused) as refusal:
            call(client)
        assert refusal.value.retry_after == 2.0 and not slept and len(flaky.requests) == 1


class Breaking(httpx2.SyncByteStream):
    """Bytes, and then a broken connection."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self):  # type: ignore[no-untyped-def]
        yield self._data
        raise httpx2.ReadError("broken")


def part(data: bytes, status: int, length: int, *, broken: bool) -> httpx2.Response:
    headers = {"content-length": str(length), "etag": '"one"'}
    if not broken:
        return httpx2.Response(status, headers=headers, content=data)
    return httpx2.Response(status, headers=headers, stream=Breaking(data))


def test_a_broken_download_goes_on_where_it_broke(tmp_path: Path) -> None:
    flaky = Flaky(
        part(b"abc", 200, 10, broken=True),
        httpx2.ConnectError("no"),
        part(b"defg", 206, 7, broken=True),
        part(b"hij", 206, 3, broken=False),
    )
    client, _ = client_of(flaky)
    assert client.videos.download("video_1", tmp_path / "x") == 10
    assert (tmp_path / "x").read_bytes() == b"abcdefghij"
    asked = [request.headers.get("range") for request in flaky.requests]
    assert asked == [None, "bytes=3-", "bytes=3-", "bytes=7-"]
    assert {request.headers.get("if-range") for request in flaky.requests[1:]} == {'"one"'}


def test_a_download_of_a_file_that_changed_or_never_comes_leaves_nothing(tmp_path: Path) -> None:
    other = part(b"XYZ", 200, 3, broken=False)
    for answers in (
        [part(b"abc", 200, 10, broken=True), other],
        [httpx2.ConnectError("no")] * 5,
        [410],
    ):
        client, _ = client_of(Flaky(*answers))
        with pytest.raises((ConnectionFailed, Refused)):
            client.videos.download("video_1", tmp_path / "x")
        assert not list(tmp_path.iterdir())


def test_a_file_makes_the_request_a_form(tmp_path: Path) -> None:
    picture = tmp_path / "first.png"
    picture.write_bytes(b"\x89PNG")
    options = {"seconds": 2, "generate_audio": False, "metadata": {"a": 1}, "seed": None}
    call = create_video("x", picture, options)
    expected = {"prompt": "x", "seconds": "2", "generate_audio": "false", "metadata[a]": "1"}
    assert call.form == expected
    assert call.files == {"input_reference": ("first.png", b"\x89PNG", "image/png")}
