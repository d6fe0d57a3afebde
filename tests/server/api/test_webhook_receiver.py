"""The receiver of the tests takes whole requests only: senders are killed at any byte."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.server.api.webhook_receiver import receiving

WHOLE = b"POST /hook HTTP/1.1\r\nhost: a\r\nwebhook-id: b\r\ncontent-length: 12\r\n\r\n" + b"x" * 12


def _answer(url: str, sent: bytes) -> bytes:
    """What comes back for `sent`, after which the sender is gone."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname, at.port), timeout=100.0) as sender:
        sender.sendall(sent)
        sender.shutdown(socket.SHUT_WR)
        answer = b""
        while part := sender.recv(4096):
            answer += part
    return answer


def test_a_whole_request_is_taken() -> None:
    with receiving() as receiver:
        assert b" 204 " in _answer(receiver.url, WHOLE)
        assert [body for _, body in receiver.got] == [b"x" * 12]


@pytest.mark.parametrize("missing", [1, 12, 13, 15, 17, 18, 22])
def test_a_request_that_ends_early_is_dropped(missing: int) -> None:
    with receiving() as receiver:
        assert _answer(receiver.url, WHOLE[:-missing]) == b""
        assert receiver.got == [] and receiver.paths == []
