"""One recording under way: a thread that writes what the event loop hands it, within limits.

The loop never waits for the disk: packets queue up, at most MAX_WAITING bytes of them. What it is
not: the list of recordings (recordings.py), or the container (muxing.py).
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onbeat.server.jobs.muxing import Muxer
from onbeat.webrtc.tap import EncodedSound, EncodedVideo

log = logging.getLogger("onbeat.recording")

MAX_WAITING = 64 << 20
LOOK_SECONDS = 1.0
StopReason = Literal[
    "stopped", "session_ended", "time_limit", "storage_full", "storage_failed", "server_ended"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How it ended. `seconds`: from its first picture to the end of its last."""

    reason: StopReason
    frames: int
    seconds: float


class RecordingWriter:
    """`sink` methods on the event loop, the file on a thread of its own.

    room: asked once a second for the bytes that may still be written; ended: called on the thread.
    """

    def __init__(
        self,
        path: Path,
        *,
        audio: bool,
        max_seconds: float,
        room: Callable[[], int],
        ended: Callable[[Written], None],
    ) -> None:
        self._path, self._audio, self._max_seconds = path, audio, max_seconds
        self._room, self._ended = room, ended
        self._queue: queue.SimpleQueue[EncodedVideo | EncodedSound | StopReason] = (
            queue.SimpleQueue()
        )
        self._waiting = 0
        self._lock = threading.Lock()
        self._over = False
        self.size = self.frames = 0
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    # ---- PacketSink ----------------------------------------------------------------------------

    def video(self, picture: EncodedVideo) -> None:
        self._put(picture)

    def sound(self, sound: EncodedSound) -> None:
        self._put(sound)

    def ended(self, reason: str) -> None:
        """The broadcast is over."""
        self.stop("session_ended")

    # --------------------------------------------------------------------------------------------

    def stop(self, reason: StopReason = "stopped") -> None:
        """Ends it once what waits is written; `ended` is called then. Idempotent."""
        if not self._over:
            self._over = True
            self._queue.put(reason)

    def join(self) -> None:
        self._thread.join()

    def _put(self, item: EncodedVideo | EncodedSound) -> None:
        if self._over:
            return
        with self._lock:
            self._waiting += len(item.data)
            full = self._waiting > MAX_WAITING
        if full:
            log.warning("the disk is too slow for a recording; it ends here")
            self.stop("storage_failed")
        else:
            self._queue.put(item)

    def _run(self) -> None:
        muxer: Muxer | None = None
        reason: StopReason = "storage_failed"
        try:
            while True:
                item = self._queue.get()
                if isinstance(item, str):
                    reason = item
                    break
                with self._lock:
                    self._waiting -= len(item.data)
                if muxer is None and isinstance(item, EncodedVideo):
                    muxer = self._begin(item)
                if muxer is not None and (limit := self._written(muxer, item)):
                    reason = limit
                    break
        except OSError as error:
            log.warning("a recording cannot be written: %s", error)
        except Exception:  # the thread's end must always be told
            log.exception("a recording failed")
        self._over = True
        reason = self._closed(muxer, reason)
        self._ended(Written(reason=reason, frames=self.frames, seconds=self.seconds))

    def _begin(self, first: EncodedVideo) -> Muxer:
        self._looked_at = time.monotonic()
        self._codec = first.codec
        size = (first.width, first.height)
        return Muxer(self._path, codec=first.codec, size=size, fps=first.fps, audio=self._audio)

    def _written(self, muxer: Muxer, item: EncodedVideo | EncodedSound) -> StopReason | None:
        """Writes one packet; why there should be no more of them."""
        if isinstance(item, EncodedSound):
            muxer.sound(item.data, item.pts)
            return None
        muxer.video(item.data, item.pts, keyframe=item.keyframe)
        self.frames, self.seconds, self.size = muxer.frames, muxer.seconds, muxer.size
        if self.seconds >= self._max_seconds:
            return "time_limit"
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = now
        return None if self._room() > 0 else "storage_full"

    def _closed(self, muxer: Muxer | None, reason: StopReason) -> StopReason:
        if muxer is None:
            return reason
        try:
            muxer.close()
        except (OSError, ValueError) as error:
            log.warning("a recording's end cannot be written: %s", error)
            reason = "storage_failed"
        self.frames, self.seconds, self.size = muxer.frames, muxer.seconds, muxer.size
        return reason
