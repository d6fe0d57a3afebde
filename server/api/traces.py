"""The front's side of traces: asks the engine for its records, keeps a few of its own.

What it is not: the route (status_routes.py), the drawing (engine/perfetto.py) or the recording in
the engine (engine/trace.py).
"""

import asyncio
import secrets
import time
from collections import deque

from onbeat.server.api.errors import unavailable
from onbeat.server.api.hub import EngineHub
from onbeat.server.engine.messages import ChunkReady, TraceReply, TraceRequest
from onbeat.server.engine.perfetto import chrome_trace
from onbeat.server.engine.records import Mark

LONGEST_SECONDS = 10.0
ANSWER_SECONDS = 3.0
MOST_MARKS = 4096


class Traces:
    """On the event loop, but for `answered`."""

    def __init__(self, hub: EngineHub) -> None:
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, asyncio.Future[TraceReply]] = {}
        self._marks: deque[Mark] = deque(maxlen=MOST_MARKS)

    def arrived(self, session: str, event: ChunkReady) -> None:
        """A chunk reached the front."""
        now = time.monotonic()
        after = round(1e3 * (now - event.ready_at), 3)
        self._marks.append(Mark(now, session, f"#{event.chunk} here", {"after_ms": after}))

    def late(self, session: str, frames: int) -> None:
        """Pictures that the engine had ready in time were not sent in time."""
        detail: dict[str, int | float | str] = {"frames": frames, "cause": "encode"}
        self._marks.append(Mark(time.monotonic(), session, "late: encode", detail))

    def answered(self, reply: TraceReply) -> None:
        """From the reader thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, reply)

    def _resolve(self, reply: TraceReply) -> None:
        waiting = self._waiting.pop(reply.request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    async def file(self, seconds: float) -> bytes:
        """The last seconds of engine and front. Raises ApiError 503 if the engine is silent."""
        request = secrets.token_hex(8)
        waiting = self._waiting[request] = self._loop.create_future()
        self._hub.send(TraceRequest(request=request, seconds=seconds))
        try:
            reply = await asyncio.wait_for(waiting, ANSWER_SECONDS)
        except TimeoutError as error:
            message = f"The engine did not answer within {ANSWER_SECONDS:.0f} s."
            raise unavailable("engine_silent", message, retry_after=5) from error
        finally:
            self._waiting.pop(request, None)
        marks = [mark for mark in self._marks if mark.end > reply.start]
        return await asyncio.to_thread(chrome_trace, [*reply.records, *marks])
