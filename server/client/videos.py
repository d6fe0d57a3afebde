"""Jobs: `client.videos`, blocking and awaiting. What it is not: HTTP (transport.py)."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Any

from onbeat.client import calls
from onbeat.client.download import Progress, check_target, fetch, fetch_async
from onbeat.client.paging import every, every_async
from onbeat.client.records import Order, Variant, Video
from onbeat.client.transport import AsyncTransport, Transport

Seen = Callable[[Video], object]


def _still(deadline: float | None, video: Video) -> None:
    if deadline is not None and time.monotonic() >= deadline:
        raise TimeoutError(f"{video.id} is still {video.status}, {video.progress} %")


def _content(video_id: str) -> str:
    return f"/v1/videos/{video_id}/content"


class Videos:
    """Jobs of a server. Every call may raise OnbeatError."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self, prompt: str, *, input_reference: Path | bytes | None = None, **options: Any
    ) -> Video:
        """Queues a job. options: the fields of POST /v1/videos (docs/api.md), such as `seconds`,
        `seed`, `num_inference_steps`, `generate_audio`, `metadata`; None leaves one out."""
        return self._send(calls.create_video(prompt, input_reference, options))

    def get(self, video_id: str) -> Video:
        return self._send(calls.get_video(video_id))

    def list(self, *, order: Order = "desc", limit: int | None = None) -> Iterator[Video]:
        """All jobs, or the first `limit`, page by page as they are asked for."""
        return every(self._transport.send, calls.list_videos(order), limit)

    def cancel(self, video_id: str) -> Video:
        return self._send(calls.cancel_video(video_id))

    def delete(self, video_id: str) -> None:
        """Ends it and removes its files."""
        self._transport.send(calls.delete_video(video_id))

    def wait(
        self, video_id: str, *, timeout: float | None = None, seen: Seen | None = None
    ) -> Video:
        """The job once it has ended, however it did. seen: called with each state of it.

        Asks as often as the server advises. Raises TimeoutError after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            video, headers = self._transport.sent(calls.get_video(video_id))
            if seen is not None:
                seen(video)
            if video.ended:
                return video
            _still(deadline, video)
            self._transport.sleep(calls.poll_delay(headers))

    def download(
        self,
        video_id: str,
        target: str | Path | IO[bytes],
        *,
        variant: Variant = "video",
        progress: Progress | None = None,
    ) -> int:
        """Writes a file of a completed job; how many bytes. Also raises OSError."""
        return fetch(self._transport, _content(video_id), {"variant": variant}, target, progress)

    def render(
        self,
        prompt: str,
        target: str | Path | IO[bytes],
        *,
        timeout: float | None = None,
        seen: Seen | None = None,
        **options: Any,
    ) -> Video:
        """Queues a job, waits for it and downloads its file. Also raises VideoFailed, and OSError,
        which it does before anything is asked for if the file cannot be written."""
        check_target(target)
        made = self.create(prompt, **options)
        video = self.wait(made.id, timeout=timeout, seen=seen).raise_for_failure()
        self.download(video.id, target)
        return video

    def _send(self, call: calls.Call[Video]) -> Video:
        return self._transport.send(call)


class AsyncVideos:
    """Like `Videos`, awaited."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self, prompt: str, *, input_reference: Path | bytes | None = None, **options: Any
    ) -> Video:
        """See `Videos.create`."""
        return await self._send(calls.create_video(prompt, input_reference, options))

    async def get(self, video_id: str) -> Video:
        return await self._send(calls.get_video(video_id))

    def list(self, *, order: Order = "desc", limit: int | None = None) -> AsyncIterator[Video]:
        """See `Videos.list`; use `async for`."""
        return every_async(self._transport.send, calls.list_videos(order), limit)

    async def cancel(self, video_id: str) -> Video:
        return await self._send(calls.cancel_video(video_id))

    async def delete(self, video_id: str) -> None:
        await self._transport.send(calls.delete_video(video_id))

    async def wait(
        self, video_id: str, *, timeout: float | None = None, seen: Seen | None = None
    ) -> Video:
        """See `Videos.wait`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            video, headers = await self._transport.sent(calls.get_video(video_id))
            if seen is not None:
                seen(video)
            if video.ended:
                return video
            _still(deadline, video)
            await self._transport.sleep(calls.poll_delay(headers))

    async def download(
        self,
        video_id: str,
        target: str | Path | IO[bytes],
        *,
        variant: Variant = "video",
        progress: Progress | None = None,
    ) -> int:
        """See `Videos.download`. The file is written on this thread."""
        return await fetch_async(
            self._transport, _content(video_id), {"variant": variant}, target, progress
        )

    async def render(
        self,
        prompt: str,
        target: str | Path | IO[bytes],
        *,
        timeout: float | None = None,
        seen: Seen | None = None,
        **options: Any,
    ) -> Video:
        """See `Videos.render`."""
        check_target(target)
        made = await self.create(prompt, **options)
        video = (await self.wait(made.id, timeout=timeout, seen=seen)).raise_for_failure()
        await self.download(video.id, target)
        return video

    async def _send(self, call: calls.Call[Video]) -> Video:
        return await self._transport.send(call)
