"""The nouns shared by API, jobs and engine: kinds, causes, ids. One name each (docs/engine.md)."""

import secrets
from typing import Literal

StreamKind = Literal["live", "job"]
DropCause = Literal["queue", "compute", "decode", "paused", "engine_restart"]
Transition = Literal["cut", "recache"]
EndReason = Literal["finished", "closed", "failed", "engine_lost"]


def new_id(prefix: str) -> str:
    """An id such as `session_3f…` with 128 random bits."""
    return f"{prefix}_{secrets.token_hex(16)}"
