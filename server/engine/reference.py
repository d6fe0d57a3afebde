"""Reference media as they travel to the engine: frames and sound at the model's size and rate.

Packed, versioned, checked; cut into the chunks that a stream's window can hold, the newest ones. A
single frame is a picture: it fills one chunk. What it is not: the reading of files (server/jobs),
or the encoding to latents (the model's).
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # the front packs, and never loads torch
    from onbeat.models.spec import ModelSpec

VERSION = 1
MAX_SECONDS = 10.0


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rgb`: uint8 [frames, height, width, 3]; `sound`: little-endian int16 mono, or empty."""

    version: int
    frames: int
    width: int
    height: int
    fps: int
    sample_rate: int
    rgb: bytes
    sound: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """`frames` uint8 RGB [chunks * f, height, width, 3]; `sound` int16 [chunks * chunk_samples];
    `digest`: SHA-256 of both, by which equal references share pages."""

    chunks: int
    frames: npt.NDArray[np.uint8]
    sound: npt.NDArray[np.int16]
    digest: str

    def chunk(self, index: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
        """A chunk's frames, and the sound from its start to the end of the clip."""
        frames, samples = len(self.frames) // self.chunks, len(self.sound) // self.chunks
        return self.frames[index * frames : (index + 1) * frames], self.sound[index * samples :]


def pack_reference(
    frames: npt.NDArray[np.uint8], sound: npt.NDArray[np.int16], *, fps: int, sample_rate: int
) -> bytes:
    """MessagePack of frames [n, height, width, 3] and mono sound [n * sample_rate / fps], which
    may be empty (silence)."""
    count, height, width, _ = frames.shape
    return msgspec.msgpack.encode(
        _Wire(
            version=VERSION,
            frames=count,
            width=width,
            height=height,
            fps=fps,
            sample_rate=sample_rate,
            rgb=np.ascontiguousarray(frames).tobytes(),
            sound=sound.astype("<i2").tobytes(),
        )
    )


def unpack_reference(data: bytes, spec: "ModelSpec") -> Reference:
    """Reads `pack_reference`, keeping the newest `window_chunks` chunks; a first chunk that is not
    whole begins with its first frame standing still.

    Raises ValueError naming what is wrong, its value and what is allowed.
    """
    if not spec.takes_reference:
        raise ValueError(f"reference: {spec.name} has no encoders; allowed: none")
    try:
        wire = msgspec.msgpack.decode(data, type=_Wire)
    except msgspec.MsgspecError as error:
        raise ValueError(f"reference: {len(data)} bytes that are no reference ({error})") from error
    _check(wire, spec)
    frames = np.frombuffer(wire.rgb, np.uint8).reshape(-1, spec.height, spec.width, 3)
    sound = np.frombuffer(wire.sound, "<i2").astype(np.int16)
    if not len(sound):
        sound = np.zeros(_samples(wire.frames, spec), np.int16)
    chunks = min(spec.window_chunks, -(-wire.frames // spec.chunk_frames))
    frames, sound = _last(frames, sound, chunks, spec)
    content = hashlib.sha256(frames.tobytes())
    content.update(sound.tobytes())
    return Reference(chunks=chunks, frames=frames, sound=sound, digest=content.hexdigest())


def _check(wire: _Wire, spec: "ModelSpec") -> None:
    most = int(MAX_SECONDS * spec.fps)
    wanted: tuple[tuple[str, Any, Any], ...] = (
        ("version", wire.version, VERSION),
        ("width", wire.width, spec.width),
        ("height", wire.height, spec.height),
        ("fps", wire.fps, spec.fps),
        ("sample_rate", wire.sample_rate, spec.sample_rate),
        ("rgb bytes", len(wire.rgb), wire.frames * spec.height * spec.width * 3),
    )
    if not 1 <= wire.frames <= most:
        raise ValueError(f"reference: {wire.frames} frames; allowed: 1 to {most}")
    for name, value, allowed in wanted:
        if value != allowed:
            raise ValueError(f"reference: {name} is {value}; allowed: {allowed}")
    sound = 2 * _samples(wire.frames, spec)
    if len(wire.sound) not in (0, sound):
        raise ValueError(f"reference: {len(wire.sound)} bytes of sound; allowed: 0 or {sound}")


def _samples(frames: int, spec: "ModelSpec") -> int:
    return frames * spec.sample_rate // spec.fps


def _last(
    frames: npt.NDArray[np.uint8], sound: npt.NDArray[np.int16], chunks: int, spec: "ModelSpec"
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
    """The newest `chunks` whole chunks, filled up at the front."""
    missing = max(0, chunks * spec.chunk_frames - len(frames))
    frames = np.concatenate([np.repeat(frames[:1], missing, axis=0), frames])
    sound = np.concatenate([np.zeros(_samples(missing, spec), np.int16), sound])
    return frames[-chunks * spec.chunk_frames :], sound[-chunks * spec.chunk_samples :]
