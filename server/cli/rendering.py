"""How far a rendering is: a bar with steps, frames a second and the time left; elsewhere lines.

Goes to standard error, so that a pipe gets nothing but the video.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

LINES = 10
"""So many where there is no terminal."""


@dataclass(slots=True, kw_only=True)
class Rendering:
    """chunks, all_steps: of the whole; the rest is counted. `began_at`: when the first chunk was
    done."""

    chunks: int
    all_steps: int
    chunk_frames: int
    fps: float
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    steps: int = 0
    began_at: float = 0.0

    def advance(self, steps: int) -> None:
        """A chunk is done, in so many steps."""
        if self.done == 0:
            self.began_at = self.clock()
        self.done += 1
        self.steps += steps

    @property
    def frames_per_second(self) -> float | None:
        """None before the second chunk: the first one has the start of the engine in it."""
        seconds = self.clock() - self.began_at
        if self.done < 2 or seconds <= 0:
            return None
        return (self.done - 1) * self.chunk_frames / seconds

    @property
    def seconds_left(self) -> float | None:
        speed = self.frames_per_second
        return None if speed is None else (self.chunks - self.done) * self.chunk_frames / speed

    def __str__(self) -> str:
        text = f"step {self.steps}/{self.all_steps}" if self.done else "starting"
        speed, left = self.frames_per_second, self.seconds_left
        if speed is not None and left is not None:
            text += f"  {speed:.1f} frames/s ({speed / self.fps:.1f}x)  {_minutes(left)} left"
        return text


@contextmanager
def shown_progress(
    chunks: int, all_steps: int, chunk_frames: int, fps: float, out: TextIO | None = None
) -> Iterator[Callable[[int], None]]:
    """Call what it gives with the steps of each chunk that is done."""
    state = Rendering(chunks=chunks, all_steps=all_steps, chunk_frames=chunk_frames, fps=fps)
    out = out or sys.stderr
    if not out.isatty():
        yield lambda steps: _line(state, steps, out)
        return
    bar = Progress(
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        console=Console(file=out),
    )
    with bar:
        task = bar.add_task(str(state), total=chunks)

        def advance(steps: int) -> None:
            state.advance(steps)
            bar.update(task, advance=1, description=str(state))

        yield advance


def _line(state: Rendering, steps: int, out: TextIO) -> None:
    before = LINES * state.done // state.chunks
    state.advance(steps)
    now = LINES * state.done // state.chunks
    if now > before:
        print(f"{100 * state.done // state.chunks:3d} %  {state}", file=out, flush=True)


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
