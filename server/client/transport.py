"""Sends calls over HTTP, asks again where that is safe, turns refusals into exceptions.

Two of the same: one blocks, one awaits. What it is not: which calls there are (calls.py).
"""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx2

from onbeat.client.calls import Call
from onbeat.client.errors import ConnectionFailed, OnbeatError, refused

T = TypeVar("T")

RETRIES = 2
BUSY = (429, 502, 503, 504)
MAX_PAUSE = 10.0
FIRST_PAUSE = 0.5
CREDENTIALS = re.compile(r"//\S*@")
"""What an address may have before its host, and no message shows."""


def base_of(address: str) -> str:
    """The server's root: without a slash at the end, and without /v1."""
    return address.rstrip("/").removesuffix("/v1")


def headers_of(api_key: str | None) -> dict[str, str]:
    from onbeat import __version__

    agent = {"User-Agent": f"onbeat-client/{__version__}"}
    return agent | ({"Authorization": f"Bearer {api_key}"} if api_key else {})


def _arguments(call: Call[Any]) -> dict[str, Any]:
    given = {"json": call.json, "data": call.form, "files": call.files, "params": call.params}
    sent = {name: value for name, value in given.items() if value is not None}
    return {"headers": dict(call.headers)} | sent


def _pause(tried: int, call: Call[Any], answer: httpx2.Response | None) -> float | None:
    """Seconds until the call is sent again; None if it is not."""
    if tried >= RETRIES or not call.again:
        return None
    if answer is None:
        return FIRST_PAUSE * 2.0**tried
    if answer.status_code not in BUSY:
        return None
    said = answer.headers.get("retry-after", "")
    pause = float(said) if said.isdigit() else FIRST_PAUSE * 2.0**tried
    return pause if pause <= MAX_PAUSE else None


def _read(call: Call[T], answer: httpx2.Response) -> T:
    raise_for_refusal(answer)
    return call.read(answer.json())


def raise_for_refusal(answer: httpx2.Response) -> None:
    """Raises Refused. The answer has been read."""
    if answer.is_success:
        return
    try:
        body = answer.json()
    except ValueError:
        body = None
    raise refused(answer.status_code, answer.headers, body)


def lost(error: httpx2.TransportError, address: object) -> OnbeatError:
    """A broken connection as an error of this client."""
    reason = str(error) or type(error).__name__
    return ConnectionFailed(f"{CREDENTIALS.sub('//***@', str(address))}: {reason}")


class Transport:
    """Blocks. `http`: one of your own, to bring proxies, certificates or an application."""

    def __init__(
        self, address: str, api_key: str | None, timeout: float, http: httpx2.Client | None
    ) -> None:
        self.address, self._headers = base_of(address), headers_of(api_key)
        self.http = http or httpx2.Client(timeout=httpx2.Timeout(timeout, connect=5.0))
        self.sleep = time.sleep

    def send(self, call: Call[T]) -> T:
        """Raises OnbeatError."""
        return self.sent(call)[0]

    def sent(self, call: Call[T]) -> tuple[T, Mapping[str, str]]:
        """The answer and its headers."""
        for tried in range(RETRIES + 1):
            arguments = _arguments(call)
            arguments["headers"] = self.headers(arguments["headers"])
            try:
                answer = self.http.request(call.method, self.to(call.path), **arguments)
            except httpx2.TransportError as error:
                if (pause := _pause(tried, call, None)) is None:
                    raise lost(error, self.address) from error
            else:
                if (pause := _pause(tried, call, answer)) is None:
                    return _read(call, answer), answer.headers
            self.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def to(self, path: str) -> str:
        return path if "://" in path else self.address + path

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return self._headers | dict(more or {})


class AsyncTransport:
    """Awaits."""

    def __init__(
        self, address: str, api_key: str | None, timeout: float, http: httpx2.AsyncClient | None
    ) -> None:
        self.address, self._headers = base_of(address), headers_of(api_key)
        self.http = http or httpx2.AsyncClient(timeout=httpx2.Timeout(timeout, connect=5.0))
        self.sleep = asyncio.sleep

    async def send(self, call: Call[T]) -> T:
        """Raises OnbeatError."""
        return (await self.sent(call))[0]

    async def sent(self, call: Call[T]) -> tuple[T, Mapping[str, str]]:
        """The answer and its headers."""
        for tried in range(RETRIES + 1):
            arguments = _arguments(call)
            arguments["headers"] = self.headers(arguments["headers"])
            try:
                answer = await self.http.request(call.method, self.to(call.path), **arguments)
            except httpx2.TransportError as error:
                if (pause := _pause(tried, call, None)) is None:
                    raise lost(error, self.address) from error
            else:
                if (pause := _pause(tried, call, answer)) is None:
                    return _read(call, answer), answer.headers
            await self.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def to(self, path: str) -> str:
        return path if "://" in path else self.address + path

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return self._headers | dict(more or {})
