"""A session's camera and microphone: what a publisher sends, fitted and given to the engine.

The newest picture waits to be fitted, on a thread, and no other: whatever comes faster than it can
be fitted is lost and counted. What it is not: the connection (publishers.py), or the choice of each
chunk's pictures, which the engine makes when the chunk begins.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from onbeat.server.api.hub import EngineHub
from onbeat.server.engine.messages import EngineReady, InputSound
from onbeat.webrtc.fitting import Fit, fit_picture
from onbeat.webrtc.ingest import InputFrame
from onbeat.webrtc.ingest import InputSound as HeardSound
from onbeat.webrtc.resample import MediaClock, Thinner

log = logging.getLogger("onbeat.api")

OVERSAMPLING = 2
"""Pictures for each one that the model makes, at most: between them the engine takes its own."""
FPS_SECONDS = 2.0
HEARD_RATE = 48_000


class Camera:
    """An `InputSink`. `streams`: who is made from it; the session's own, and its forks'."""

    def __init__(self, ready: EngineReady, hub: EngineHub, stream_id: str, rule: Fit) -> None:
        self._ready, self._hub, self._rule = ready, hub, rule
        self._streams = [stream_id]
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._newest: tuple[InputFrame, float] | None = None
        self._working = False
        self._given: deque[float] = deque(maxlen=256)
        self._heard_at = float("-inf")
        self.size: tuple[int, int] | None = None
        self.received = self.dropped = 0
        self._restart()

    def follow(self, stream_id: str) -> None:
        """Another stream is made from it too."""
        self._streams = [*self._streams, stream_id]

    def leave(self, stream_id: str) -> None:
        self._streams = [s for s in self._streams if s != stream_id]

    # ---- InputSink -----------------------------------------------------------------------------

    def started(self) -> None:
        self._restart()

    def video(self, frame: InputFrame) -> None:
        self.received += 1
        self.size = (frame.picture.width, frame.picture.height)
        at = self._clock.taken_at(frame.media_time, frame.arrived_at)
        if not self._thinner.passes(frame.media_time):
            return
        with self._lock:
            self.dropped += self._newest is not None
            self._newest = frame, at
            if self._working:
                return
            self._working = True
        self._loop.run_in_executor(None, self._work)

    def sound(self, sound: HeardSound) -> None:
        at = self._clock.taken_at(sound.media_time, sound.arrived_at)
        self._heard_at = time.monotonic()
        samples = self._mono(sound.samples)
        if self._streams and len(samples):
            message = InputSound(streams=self._streams, at=at, samples=samples.tobytes())
            self._hub.send(message)

    def ended(self, reason: str) -> None:
        with self._lock:
            self._newest = None
        self.size = None

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        """Fits and gives the newest picture until there is none."""
        while True:
            with self._lock:
                newest, self._newest = self._newest, None
                if newest is None:
                    self._working = False
                    return
            try:
                self._give(*newest)
            except (ValueError, av.FFmpegError):
                log.exception("a picture of %s could not be fitted", self._streams[:1])
                self.dropped += 1

    def _give(self, frame: InputFrame, at: float) -> None:
        picture = fit_picture(
            frame.picture,
            width=self._ready.width,
            height=self._ready.height,
            rotation=frame.rotation,
            pixel_aspect=frame.pixel_aspect,
            rule=self._rule,
        )
        streams = self._streams
        if streams and self._hub.feed(streams, picture, at):
            self._given.append(time.monotonic())
        else:
            self.dropped += 1

    # ---- figures -------------------------------------------------------------------------------

    def view(self, age: float | None) -> dict[str, Any] | None:
        """For status messages; None while nothing comes in. `age`: seconds, as the engine says."""
        now = time.monotonic()
        lately = sum(at > now - FPS_SECONDS for at in self._given)
        if not lately or self.size is None:
            return None
        return {
            "fps": round(lately / FPS_SECONDS, 1),
            "age_ms": None if age is None else round(1000 * age),
            "dropped": self.dropped,
            "sound": now - self._heard_at < FPS_SECONDS,
            "size": f"{self.size[0]}x{self.size[1]}",
        }

    def _restart(self) -> None:
        self._clock = MediaClock()
        self._thinner = Thinner(OVERSAMPLING * self._ready.fps)
        self._resampler: av.AudioResampler | None = None

    def _mono(self, samples: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Mono at the model's rate."""
        mono: npt.NDArray[np.int16] = samples.mean(axis=1).astype("<i2")
        if self._ready.sample_rate == HEARD_RATE:
            return mono
        if self._resampler is None:
            rate = self._ready.sample_rate
            self._resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
        frame = av.AudioFrame.from_ndarray(mono[None], format="s16", layout="mono")
        frame.sample_rate = HEARD_RATE
        parts = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
        return np.concatenate(parts).astype("<i2") if parts else np.zeros(0, "<i2")
