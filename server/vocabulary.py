"""The nouns shared by API, jobs and engine: kinds, causes, ids. One name each (docs/engine.md)."""

import secrets
from typing import Literal, TypeAlias

import msgspec

StreamKind = Literal["live", "job"]
Place = Literal["resident", "offloading", "host", "restoring", "latents"]
"""Where a stream's keys and values are: in pages, on the way out, in host memory, on the way in, or
nowhere, to be made again from latents."""
DropCause = Literal["queue", "compute", "decode", "transfer", "encode", "paused", "engine_restart"]
Transition = Literal["cut", "recache", "blend"]
"""How a new prompt is taken up: a new scene; the history made again under it; or, chunk by chunk,
by mixtures of the old and the new one, the history as it is."""
EndReason = Literal["finished", "closed", "failed", "engine_lost"]


class PromptPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One text of a weighted prompt. `weight`: above 0; its share of the sum is what counts."""

    text: str
    weight: float


Prompt: TypeAlias = str | tuple[PromptPart, ...]


def prompt_text(prompt: Prompt) -> str:
    """For people: "a red ball", or "a red ball (0.7) + a blue ring (0.3)"."""
    if isinstance(prompt, str):
        return prompt
    return " + ".join(f"{part.text} ({part.weight:g})" for part in prompt)


def new_id(prefix: str) -> str:
    """An id such as `session_3f…` with 128 random bits."""
    return f"{prefix}_{secrets.token_hex(16)}"
