"""How fast an attempt at a job is, and what is left at this pace: told with each step of it.

One pace for both, so that they agree, whoever asks, and whenever. What it is not: the estimate of
a job that has not got far enough for a pace of its own (api/estimates.py).
"""

from typing import Any

TRUSTED_SHARE = 0.1
"""Of what an attempt has to make: before that its pace says little."""


def told(
    *, done: int, first: int, chunks: int, chunk_frames: int, seconds: float
) -> dict[str, Any]:
    """What an event says of an attempt that began with chunk `first` of `chunks` and has been at it
    for `seconds`: `done` chunks are there. `frames_per_second` and `eta_s`, None both, or neither.
    """
    made, todo = done - first, chunks - done
    detail = {"chunk": done, "chunks": chunks, "frames_per_second": None, "eta_s": None}
    if made <= 0 or made < TRUSTED_SHARE * (chunks - first) or seconds <= 0:
        return detail
    pace = made * chunk_frames / seconds
    return detail | {
        "frames_per_second": float(f"{pace:.3g}"),
        "eta_s": round(todo * chunk_frames / pace, 2),
    }
