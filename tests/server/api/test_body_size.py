"""Bodies that are too large: refused by a client-readable answer, over a real connection too."""

import asyncio
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from onbeat.server.api import body_size
from onbeat.server.api.body_size import DRAIN_BYTES, MEDIA_LIMIT, Body, body_limit
from onbeat.server.api.errors import ApiError
from tests.server.api.fake_engine import FakeEngine
from tests.server.served import served


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with served(FakeEngine(), data_dir=tmp_path) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


@pytest.mark.parametrize("megabytes", [1, 13])
@pytest.mark.parametrize("path", ["/v1/sessions/session_0", "/v1/videos/video_0/cancel", "/whep"])
def test_the_refusal_can_be_read_by_who_sends_first(
    address: tuple[str, int], path: str, megabytes: int
) -> None:
    """As urllib does: the whole body, then `Connection: close`, then the answer."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    headers = {"content-type": "application/json", "connection": "close"}
    connection.request("POST", path, b" " * (megabytes << 20), headers)
    answer = connection.getresponse()
    assert answer.status == 413 and b"body_too_large" in answer.read()
    connection.close()


def test_a_body_that_nobody_wants_is_read_too(address: tuple[str, int]) -> None:
    connection = http.client.HTTPConnection(*address, timeout=60)
    headers = {"content-type": "text/plain", "connection": "close"}
    connection.request("POST", "/v1/videos", b" " * (8 << 20), headers)
    assert connection.getresponse().status == 415
    connection.close()


def test_who_asks_before_sending_is_refused_at_once(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        head = f"POST /v1/videos HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {1 << 30}\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_go_on_is_given_up(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_size, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(body_size, "DRAIN_SECONDS", 0.2)
    with socket.create_connection(address, timeout=60) as connection:
        head = "POST /v1/videos HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        answer = b""
        while part := connection.recv(4096):  # to its end: the server closes
            answer += part
    assert answer.startswith(b"HTTP/1.1 408 ") and b"body_timeout" in answer


async def test_a_body_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_size, "WHOLE_SECONDS", 0.2)

    async def dripping() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    body = Body("/v1/videos", Headers({"transfer-encoding": "chunked"}), dripping)
    with pytest.raises(ApiError) as refused:
        while True:
            await body.receive()
    assert refused.value.status_code == 408


async def test_the_end_of_a_client_is_waited_for_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_size, "STALL_SECONDS", 0.01)

    async def gone() -> Message:
        await asyncio.sleep(0.1)
        return {"type": "http.disconnect"}

    assert (await Body("/v1/videos", Headers({}), gone).receive())["type"] == "http.disconnect"


async def test_draining_is_bounded() -> None:
    sent = 0

    async def endless() -> Message:
        nonlocal sent
        sent += 1 << 20
        return {"type": "http.request", "body": b" " * (1 << 20), "more_body": True}

    body = Body("/v1/videos", Headers({"transfer-encoding": "chunked"}), endless)
    await body.drain()
    assert sent == DRAIN_BYTES


def test_only_routes_that_take_media_take_large_bodies() -> None:
    for path in ("/v1/sessions", "/v1/videos", "/v1/videos/extensions", "/v1/videos/sync"):
        assert body_limit(path) == MEDIA_LIMIT
    for path in ("/v1/videos/video_1/remix", "/whep", "/v1/sessions/session_1"):
        assert body_limit(path) < MEDIA_LIMIT
