"""The files of a job: what kinds there are, how they are called and typed. Names only, no bytes."""

from typing import Literal, get_args

Variant = Literal["video", "thumbnail", "spritesheet"]
Format = Literal["mp4", "webm", "png", "wav"]
"""Of the video itself: H.264 and AAC, VP9 and Opus, a zip of pictures and sound, sound alone."""

VARIANTS: tuple[Variant, ...] = get_args(Variant)
FORMATS: tuple[Format, ...] = get_args(Format)

RECORDING = "recording_"
"""How ids of recordings begin. They are published as videos, by servers that know them alone."""

_VIDEO: dict[Format, tuple[str, str]] = {
    "mp4": (".mp4", "video/mp4"),
    "webm": (".webm", "video/webm"),
    "png": (".zip", "application/zip"),
    "wav": (".wav", "audio/wav"),
}
_STILL = {"thumbnail": (".webp", "image/webp"), "spritesheet": (".jpg", "image/jpeg")}
SUFFIXES = frozenset(suffix for suffix, _ in (*_VIDEO.values(), *_STILL.values()))


def suffix(variant: Variant, format: Format = "mp4") -> str:
    """Of the file's name, with its dot."""
    return _VIDEO[format][0] if variant == "video" else _STILL[variant][0]


def media_type(variant: Variant, format: Format = "mp4") -> str:
    return _VIDEO[format][1] if variant == "video" else _STILL[variant][1]


def artifact_name(job_id: str, variant: Variant, format: Format = "mp4") -> str:
    """How the file of a job is called, wherever it lies."""
    return job_id + suffix(variant, format)
