"""A server for other people's clients: `python -m tests.e2e.interop.stage PORT FOLDER SETTING=...`

The real HTTP and WebRTC, an engine that makes the pattern instead of a model's pictures, and in
every session an input that reads what publishers send. GET /seen tells what came in.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import uvicorn
from fastapi import FastAPI

from onbeat.server.api.app import create_app
from onbeat.server.api.session import Session
from onbeat.server.config import load_settings
from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import EngineReady
from onbeat.webrtc.ingest import InputFrame, InputSound
from tests.e2e.interop.pattern import BITS, picture, pitch, read_number, tone
from tests.server.api import fake_engine
from tests.server.api.fake_engine import CHUNK_FRAMES, FPS, SAMPLE_RATE, FakeEngine

SIDE = 128
KEPT = 48


class PatternEngine(FakeEngine):
    """Frame n of a stream shows n; the sound is a tone."""

    def announcement(self) -> EngineReady:
        return msgspec.structs.replace(super().announcement(), width=SIDE, height=SIDE)


def payload(seed: int, chunk: int) -> ChunkPayload:
    first, samples = chunk * CHUNK_FRAMES, CHUNK_FRAMES * SAMPLE_RATE // FPS
    grey = np.full((SIDE // 2, SIDE), 128, np.uint8)
    frames = [
        np.concatenate([picture((first + at) % 2**BITS, SIDE, SIDE), grey])
        for at in range(CHUNK_FRAMES)
    ]
    return ChunkPayload(frames=np.stack(frames), audio=tone(chunk * samples, samples, SAMPLE_RATE))


class Looking:
    """A session's input that looks for the pattern."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.frames = self.unread = 0
        self.numbers: list[int] = []
        self.times: list[float] = []
        self.size = (0, 0)
        self.samples: list[npt.NDArray[np.int16]] = []

    def started(self) -> None:
        self.events.append("started")

    def video(self, frame: InputFrame) -> None:
        self.frames += 1
        self.size = (frame.picture.width, frame.picture.height)
        luma = frame.picture.to_ndarray(format="gray").astype(np.uint8, copy=False)
        number = read_number(luma)
        if number is None:
            self.unread += 1
            return
        self.numbers.append(number)
        self.times.append(frame.media_time)

    def sound(self, sound: InputSound) -> None:
        self.samples.append(sound.samples[:, 0])
        del self.samples[:-KEPT]

    def ended(self, reason: str) -> None:
        self.events.append(f"ended: {reason}")

    def view(self) -> dict[str, Any]:
        sound = np.concatenate(self.samples) if self.samples else np.zeros(0, np.int16)
        return {
            "events": self.events,
            "frames": self.frames,
            "unread": self.unread,
            "numbers": self.numbers[-200:],
            "times": self.times[-200:],
            "size": self.size,
            "sounds": len(self.samples),
            "pitch": pitch(sound, 48_000) if len(sound) >= 24_000 else None,
        }


def main(port: int, folder: Path, settings: dict[str, Any]) -> None:
    seen: dict[str, Looking] = {}
    fake_engine.payload = payload
    init = Session.__init__

    def with_input(self: Session, **named: Any) -> None:
        init(self, **named)
        self.input = seen[self.id] = Looking()

    Session.__init__ = with_input  # type: ignore[method-assign]
    app: FastAPI = create_app(
        load_settings(data_dir=folder, **settings), PatternEngine(capacity=16)
    )

    @app.get("/seen")
    async def what_was_seen() -> dict[str, Any]:
        return {key: each.view() for key, each in seen.items()}

    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), dict(each.split("=", 1) for each in sys.argv[3:]))
