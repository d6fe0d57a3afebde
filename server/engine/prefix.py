"""Pages of equal references, shared between streams until they diverge.

The page of a reference's chunk depends on the reference up to there and on the prompt, by content;
its name says both. Books only. What it is not: the sharing of prompts' pages, which the pool does.
"""

from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.streams import Stream


def share_reference(stream: Stream, pool: KVPool) -> None:
    """Names the pages that the stream has committed since the last call, and takes over those of
    its next chunks that another stream has. Call while it has its pages."""
    waiting, unnamed = stream.uncommitted, stream.unnamed
    if len(waiting) > len(unnamed):  # the window is committed again, with other chunks before these
        unnamed.clear()
    done = len(unnamed) - len(waiting)
    for page in stream.window.readable()[-done:] if done else ():
        pool.name(page, _content(stream, unnamed.popleft()))
    while unnamed:
        found = pool.find(_content(stream, unnamed[0]))
        if found is None:
            return
        stream.window.adopt(found)
        waiting.popleft()
        unnamed.popleft()


def _content(stream: Stream, index: int) -> str:
    assert stream.reference is not None, stream.id
    return f"{stream.now.encoded.digest} {stream.reference.digest} {index}"
