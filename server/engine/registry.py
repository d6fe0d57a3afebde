"""What the front must remember of each open stream to bring it back on a new engine process.

Plain bookkeeping without a lock or a clock; process.py calls it under its own lock.
"""

from collections import deque
from dataclasses import dataclass

import msgspec

from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    Command,
    ControlStream,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamQueued,
    StreamRefused,
)
from onbeat.server.engine.snapshot import pack_snapshot
from onbeat.server.vocabulary import Transition

MAX_LOSSES = 3
"""A stream that sees this many engines die without one chunk in between is given up."""


@dataclass(slots=True)
class _Entry:
    opened: OpenStream
    latents: deque[bytes]
    next_chunk: int = 0
    losses: int = 0
    known: bool = False
    """An engine has taken it, or lets it wait: from now on it is not refused for want of room."""
    queued: bool = False
    """It waits for room."""
    new_prompt: int = 0
    """The last revision that changed the prompt; chunks before it are no history any more."""


class StreamRegistry:
    """`window_chunks`: how many chunks of latents to keep of a stream; set before chunks arrive."""

    def __init__(self, window_chunks: int = 1) -> None:
        self.window_chunks = window_chunks
        self.prompt_transition: Transition = "cut"
        """The model's, for controls that name none."""
        self._entries: dict[str, _Entry] = {}

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, command: Command) -> None:
        """Remembers what a command changes."""
        match command:
            case OpenStream():
                self._entries[command.stream_id] = self._opened(command)
            case ControlStream():
                entry = self._entries.get(command.stream_id)
                if entry is not None:
                    new = command.prompt not in (None, entry.opened.prompt)
                    cut = (command.transition or self.prompt_transition) == "cut"
                    if command.reset or (new and cut):
                        entry.new_prompt = command.revision
                    entry.opened = changed_opening(entry.opened, command)
            case CloseStream():
                self.forget(command.stream_id)
            case _:
                pass

    def _opened(self, command: OpenStream) -> _Entry:
        """A fork has its parent's chunks until it has some of its own, if it keeps them at all."""
        parent = self._entries.get(command.fork_of or "")
        if parent is None:
            return _Entry(command, deque())
        new = command.prompt != parent.opened.prompt
        if new and (command.transition or self.prompt_transition) == "cut":
            return _Entry(command, deque(), next_chunk=parent.next_chunk)
        return _Entry(command, deque(parent.latents), next_chunk=parent.next_chunk)

    def observe(self, event: Event) -> None:
        match event:
            case StreamRefused() | StreamEnded():
                self.forget(event.stream_id)
            case StreamQueued(stream_id=stream_id) | StreamOpened(stream_id=stream_id):
                if stream_id in self._entries:
                    self._entries[stream_id].known = True
                    self._entries[stream_id].queued = isinstance(event, StreamQueued)
            case _:
                pass

    def delivered(self, event: ChunkReady, latents: bytes) -> None:
        entry = self._entries.get(event.stream_id)
        if entry is not None:
            if 0 < entry.new_prompt <= event.revision:
                entry.latents.clear()
                entry.new_prompt = 0
            entry.latents.append(latents)
            if len(entry.latents) > self.window_chunks:
                entry.latents.popleft()
            entry.next_chunk = event.chunk + 1
            if entry.opened.reference is not None and len(entry.latents) == self.window_chunks:
                entry.opened = msgspec.structs.replace(entry.opened, reference=None)
            entry.losses = 0

    def forget(self, stream_id: str) -> None:
        self._entries.pop(stream_id, None)

    def engine_lost(self, *, hopeless: bool) -> list[StreamEnded]:
        """Counts a loss for every stream that ran; returns the end of those that will not come
        back. Who is paused or waits makes no chunks, and kills no engine."""
        ended = []
        for stream_id, entry in list(self._entries.items()):
            entry.losses += not (entry.queued or entry.opened.paused)
            if hopeless or entry.opened.kind == "job":
                ended.append(StreamEnded(stream_id=stream_id, reason="engine_lost"))
            elif entry.losses >= MAX_LOSSES:
                error = f"{entry.losses} engine processes died before the stream's next chunk"
                ended.append(StreamEnded(stream_id=stream_id, reason="failed", error=error))
        for event in ended:
            self.forget(event.stream_id)
        return ended

    def reopen(self) -> list[OpenStream]:
        """The commands that start every remembered stream where it stood; those that waited for
        room come last and in their order, so that nobody's place is taken."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.queued)
        return [self._reopened(entry) for entry in entries]

    def _reopened(self, entry: _Entry) -> OpenStream:
        """A fork that comes back does not need its parent any more."""
        wait = entry.opened.wait or entry.known
        promised = entry.next_chunk > 0 and not entry.queued
        opened = msgspec.structs.replace(entry.opened, wait=wait, promised=promised, fork_of=None)
        if not entry.next_chunk:
            return opened
        history = [] if entry.new_prompt else list(entry.latents)
        snapshot = pack_snapshot(next_chunk=entry.next_chunk, latents=history)
        return msgspec.structs.replace(opened, snapshot=snapshot, reference=None)


def changed_opening(opened: OpenStream, control: ControlStream) -> OpenStream:
    """The stream as it would be opened now, after a control."""
    names = ("prompt", "seed", "steps", "paused")
    changed = {n: getattr(control, n) for n in names if getattr(control, n) is not None}
    if opened.video_input is not None and control.strength is not None:
        changed["video_input"] = msgspec.structs.replace(
            opened.video_input, strength=control.strength
        )
    return msgspec.structs.replace(opened, revision=control.revision, **changed)
