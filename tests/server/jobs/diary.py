"""What servers to be killed did to each job's chunks, and how much of it later ones did again.

A line is with the kernel before its work begins, so that it outlives a kill -9. `keep` is for the
server's side, `Diary` for whoever kills it.
"""

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from onbeat.server.engine.messages import ChunkReady
from onbeat.server.jobs.attempt import Attempt
from onbeat.server.jobs.workspace import Workspace


def keep(path: str) -> None:
    """From now on in this process: `made` as the engine hands a chunk over, `taken` as it is about
    to be forced to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    add, sink = Workspace.add, Attempt._sink

    def write(what: str, job_id: str, fence: int, chunk: int) -> None:
        os.write(descriptor, f"{what} {job_id} {fence} {chunk}\n".encode())

    def adding(self: Workspace, *chunk: Any) -> None:
        write("taken", self._job.id, self._job.fence, self.chunks)
        add(self, *chunk)

    def sinking(self: Attempt, event: Any, payload: Any) -> None:
        if isinstance(event, ChunkReady):
            write("made", self.job.id, self.job.fence, event.chunk)
        sink(self, event, payload)

    for owner, name, call in ((Workspace, "add", adding), (Attempt, "_sink", sinking)):
        setattr(owner, name, call)


class Diary:
    """Read as it grows. `taken_again`: the most chunks that a resumed job had begun to write down
    and began anew; `made_again`: that the engine had made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0
        self._known: dict[tuple[str, str], int] = defaultdict(int)
        self._fences: dict[str, int] = {}
        self.taken_again = self.made_again = 0
        self.resumed = 0

    def read(self) -> int:
        """What was added since; the most chunks of one job begun anew in it."""
        worst = 0
        for line in self._new_lines():
            what, job_id, fence, chunk = line.split()
            worst = max(worst, self._line(what, job_id, int(fence), int(chunk)))
        self.taken_again = max(self.taken_again, worst)
        return worst

    def _new_lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return whole.decode().splitlines()

    def _line(self, what: str, job_id: str, fence: int, chunk: int) -> int:
        lost = 0
        if what == "made" and fence > self._fences.get(job_id, fence):
            lost = max(0, self._known["taken", job_id] - chunk)
            self.made_again = max(self.made_again, self._known["made", job_id] - chunk)
            self.resumed += 1
            self._known["taken", job_id] = self._known["made", job_id] = 0
        if what == "made":
            self._fences[job_id] = max(fence, self._fences.get(job_id, 0))
        self._known[what, job_id] = max(self._known[what, job_id], chunk + 1)
        return lost
