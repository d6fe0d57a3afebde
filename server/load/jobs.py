"""Jobs beside the viewers: made, asked after until they are over, their files left alone."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from onbeat.server.load.http import RefusedError, Server

POLL_SECONDS = 0.25
OVER = ("completed", "failed", "cancelled", "expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDone:
    """`status`: its last one, or the code of the refusal. Seconds since it was asked for; None for
    one that was not over at the end."""

    status: str
    turnaround: float | None
    frames: int


async def work(server: Server, body: dict[str, Any], end: float) -> JobDone:
    """One job, watched until it is over or `end` has come."""
    asked = time.monotonic()
    try:
        made = await asyncio.to_thread(server.post, "/v1/videos", body)
        while made["status"] not in OVER and time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)
            made = await asyncio.to_thread(server.get, f"/v1/videos/{made['id']}")
    except RefusedError as error:
        return JobDone(status=error.code, turnaround=None, frames=0)
    except OSError as error:
        return JobDone(status=type(error).__name__, turnaround=None, frames=0)
    done = made["status"] == "completed"
    frames = int(made.get("num_frames") or 0) if done else 0
    over = made["status"] in OVER
    return JobDone(
        status=made["status"],
        turnaround=time.monotonic() - asked if over else None,
        frames=frames,
    )
