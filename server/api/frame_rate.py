"""How many pictures a second a session sends: the model's rate, or a whole share of it.

A lower one keeps every nth picture of each chunk, evenly; the others are encoded for nobody. It
spares encoders and links, not the device, which makes whole chunks. Sound stays whole.
"""

from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import ChunkReady, EngineReady
from onbeat.webrtc.media import MediaChunk


def rates_of(ready: EngineReady) -> list[int]:
    """Pictures a second that a session of the served model may ask for, most first."""
    shares = range(1, ready.chunk_frames + 1)
    return [ready.fps // n for n in shares if not ready.chunk_frames % n and not ready.fps % n]


class FrameRate:
    """Of one session. `asked`: the newest wish; it holds from the chunk that is made under it."""

    def __init__(self, ready: EngineReady, asked: int | None = None) -> None:
        self._ready = ready
        self.asked = self._now = asked or ready.fps
        self._coming: list[tuple[int, int]] = []

    def ask(self, fps: int | None, revision: int) -> None:
        """From the first chunk of this revision on; None leaves it as it is."""
        if fps is not None:
            self.asked = fps
            self._coming.append((revision, fps))

    def chunk(self, event: ChunkReady, payload: ChunkPayload, *, audio: bool) -> MediaChunk:
        """What is sent of a chunk. `audio`: False sends silence."""
        for revision, fps in self._coming:
            self._now = fps if revision <= event.revision else self._now
        self._coming = [entry for entry in self._coming if entry[0] > event.revision]
        return MediaChunk(
            index=event.chunk,
            frames=payload.frames[:: self._ready.fps // self._now],
            audio=payload.audio if audio else payload.audio * 0,
            fps=self._now,
            sample_rate=self._ready.sample_rate,
            playout_at=event.playout_at,
            revision=event.revision,
        )
