"""A fork: a new stream that begins with the history of another one, and then goes its own way.

It gets the parent's finished chunks, prompt and chunk counter, shares the parent's committed pages
(window.py writes to fresh ones), and takes up a prompt of its own like any prompt switch. What it
is not: the copy of the decoder (intake.py).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from onbeat.server.engine.messages import OpenStream
from onbeat.server.engine.streams import Conditions, Stream
from onbeat.server.engine.switch import continued


def wrong_fork(command: OpenStream, streams: Mapping[str, Stream]) -> str | None:
    """Why `command` cannot fork the stream that it names; None if it can, or is no fork."""
    if command.fork_of is None or command.snapshot is not None:
        return None
    parent = streams.get(command.fork_of)
    if parent is None:
        return f"fork_of: {command.fork_of!r} is no open stream"
    if parent.preparing or not parent.history:
        return f"fork_of: {command.fork_of!r} has not finished a chunk yet; try again in a second"
    return None


def parent_of(command: OpenStream, streams: Mapping[str, Stream]) -> Stream | None:
    """The stream that `command` forks. A snapshot has all that a fork would take."""
    if command.fork_of is None or command.snapshot is not None:
        return None
    return streams[command.fork_of]


def inherited(parent: Stream, wanted: Conditions) -> tuple[Conditions, Conditions | None]:
    """What a fork begins under, and what is pending: a prompt that differs from the parent's."""
    now = replace(parent.now, seed=wanted.seed, steps=wanted.steps, revision=wanted.revision)
    return now, continued(now) if wanted.prompt == parent.now.prompt else wanted


def share_pages(fork: Stream, parent: Stream) -> None:
    """Both read the same pages, if both have pages; else the fork commits its history again."""
    if fork.place == parent.place == "resident":
        fork.window.close()
        fork.window = parent.window.fork()
        fork.uncommitted = deque(parent.uncommitted)
