"""The two clients: what they have in common is an address, a key and the parts `videos` and
`sessions`."""

import os
from types import TracebackType
from typing import Any, Self

import httpx2

from onbeat.client import calls
from onbeat.client.sessions import AsyncSessions, Sessions
from onbeat.client.transport import AsyncTransport, Transport
from onbeat.client.videos import AsyncVideos, Videos

ADDRESS = "http://127.0.0.1:8000"
ADDRESS_VARIABLE, KEY_VARIABLE = "ONBEAT_SERVER", "ONBEAT_API_KEY"
TIMEOUT = 30.0


def _address(given: str | None) -> str:
    return given or os.environ.get(ADDRESS_VARIABLE) or ADDRESS


def _key(given: str | None) -> str | None:
    return given or os.environ.get(KEY_VARIABLE) or None


class OnbeatClient:
    """Blocks until each answer is there. Thread-safe. Close it, or use it as `with`.

    address: of the server; absent: ONBEAT_SERVER, or port 8000 of this machine. api_key: absent:
    ONBEAT_API_KEY. timeout: seconds of silence. http: a client of your own.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        http: httpx2.Client | None = None,
    ) -> None:
        self._transport = Transport(_address(address), _key(api_key), timeout, http)
        self.videos = Videos(self._transport)
        self.sessions = Sessions(self._transport)

    def models(self) -> list[dict[str, Any]]:
        """The served models and their limits."""
        return list(self._transport.send(calls.models())["data"])

    def close(self) -> None:
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncOnbeatClient:
    """Like `OnbeatClient`, awaited, with `sessions.watch`. Close it, or use it as `async with`."""

    def __init__(
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._transport = AsyncTransport(_address(address), _key(api_key), timeout, http)
        self.videos = AsyncVideos(self._transport)
        self.sessions = AsyncSessions(self._transport)

    async def models(self) -> list[dict[str, Any]]:
        """The served models and their limits."""
        return list((await self._transport.send(calls.models()))["data"])

    async def close(self) -> None:
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
