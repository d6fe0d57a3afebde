"""Sessions for players and publishers that know only an address: /whep and /whip.

What it is: such a session from its query, closed again if the connection it is for fails. What it
is not: the connection (viewers.py, publishers.py).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from onbeat.server.api.front import Front
from onbeat.server.api.limits import check_steps, seed_or_random
from onbeat.server.api.schemas import PlainQuery
from onbeat.server.api.session import Session
from onbeat.server.engine.messages import EngineReady, VideoInput


@asynccontextmanager
async def plain_session(
    front: Front,
    ready: EngineReady,
    query: PlainQuery,
    owner: str,
    video_input: VideoInput | None = None,
) -> AsyncIterator[Session]:
    """A new session. Raises ApiError: 422, 503; whatever the block raises ends the session."""
    session = await front.sessions.open(
        ready=ready,
        prompt=query.prompt,
        seed=seed_or_random(query.seed),
        steps=check_steps("steps", query.steps, ready),
        plain=True,
        owner=owner,
        video_input=video_input,
    )
    try:
        yield session
    except BaseException:
        await front.sessions.close(session, "closed")
        raise
