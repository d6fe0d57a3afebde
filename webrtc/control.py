"""The data channel "control": small JSON objects both ways, with limits. It knows no session.

Bad or too frequent messages are answered with {"type": "error", ...} and dropped. A client that
sends {"type": "ping"} gets a pong and from then on is expected to go on pinging.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from aiortc import RTCDataChannel

from onbeat.webrtc.settings import PeerSettings

LABEL = "control"
ERRORS_PER_SECOND = 2.0
Message = dict[str, Any]
logger = logging.getLogger(__name__)


class TokenBucket:
    """`rate` a second, `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst, self._tokens = rate, burst, burst
        self._at = float("-inf")

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class MessageError(ValueError):
    """A message that is not taken; `code` is for programs."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def parse_message(data: str | bytes, limit: int) -> Message:
    """A JSON object of at most `limit` bytes, or MessageError."""
    if isinstance(data, bytes):
        raise MessageError("a message must be text, not binary", "not_text")
    size = len(data.encode())
    if size > limit:
        raise MessageError(f"a message has {size} bytes; at most {limit} are taken", "too_large")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError("a message must be JSON", "not_json") from error
    if not isinstance(message, dict):
        raise MessageError("a message must be a JSON object", "not_object")
    return message


class ControlChannel:
    """One open channel. `on_message` gets every message but pings."""

    def __init__(
        self,
        channel: RTCDataChannel,
        settings: PeerSettings,
        on_message: Callable[[Message], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel, self._settings = channel, settings
        self._on_message, self._clock = on_message, clock
        self._messages = TokenBucket(settings.messages_per_second, settings.message_burst)
        self._errors = TokenBucket(ERRORS_PER_SECOND, 4)
        self.received = self.refused = 0
        self.last_at: float | None = None
        self.pinged = False
        channel.on("message", self._receive)

    @property
    def open(self) -> bool:
        return self._channel.readyState == "open"

    def send(self, message: Message) -> bool:
        """False when the channel is not open or its peer does not read fast enough."""
        text = json.dumps(message, separators=(",", ":"))
        waiting = self._channel.bufferedAmount + len(text.encode())
        if not self.open or waiting > self._settings.max_buffered_bytes:
            return False
        self._channel.send(text)
        return True

    def _receive(self, data: str | bytes) -> None:
        self.last_at = now = self._clock()
        try:
            if not self._messages.take(now):
                rate = self._settings.messages_per_second
                raise MessageError(f"more than {rate:g} messages a second", "rate_limited")
            message = parse_message(data, self._settings.max_message_bytes)
        except MessageError as error:
            self._refuse(str(error), error.code, now)
            return
        self.received += 1
        self._hand_on(message, now)

    def _hand_on(self, message: Message, now: float) -> None:
        if message.get("type") == "ping":
            self.pinged = True
            self.send({"type": "pong", "t": message.get("t"), "at": now})
            return
        try:
            self._on_message(message)
        except Exception:
            # The handler is not ours; an error in it must not take the connection down.
            logger.exception("handling a control message failed")
            self._refuse("the message could not be handled", "internal", now)

    def _refuse(self, why: str, code: str, now: float) -> None:
        self.refused += 1
        if self._errors.take(now):
            self.send({"type": "error", "code": code, "message": why})
