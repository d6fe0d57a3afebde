"""WHIP for publishers (RFC 9725): an SDP offer that sends in, an answer out.

What becomes of a connection afterwards is in peers.py; what the media are for is the session's.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from onbeat.server.api.front import FrontDep
from onbeat.server.api.limits import served
from onbeat.server.api.offers import read_offer
from onbeat.server.api.owner import OwnerDep
from onbeat.server.api.peers import OFFERED, created
from onbeat.server.api.plain import plain_session
from onbeat.server.api.schemas import PlainQuery
from onbeat.server.engine.messages import VideoInput

router = APIRouter(tags=["webrtc"])

WATCH_REL = "urn:onbeat:rel:watch"


@router.post("/v1/sessions/{session_id}/whip", operation_id="publish_to_session", **OFFERED)
async def publish_to_session(front: FrontDep, session_id: str, request: Request) -> Response:
    """Send video and sound to a session that works on them. One publisher at a time."""
    session = front.sessions.get(session_id)
    offer = await read_offer(request)
    return created(front, session, await front.publishers.publish(session, offer), "whip")


@router.post("/whip", operation_id="publish_prompt", **OFFERED)
async def publish_prompt(
    front: FrontDep,
    request: Request,
    query: Annotated[PlainQuery, Query()],
    owner: OwnerDep,
) -> Response:
    """Makes a session for a publisher that knows only an address; the header Link names where it is
    watched. It ends 30 s after its publisher and its last viewer."""
    ready = served(front.hub)
    offer = await read_offer(request)
    front.publishers.check(offer)
    camera = VideoInput() if ready.takes_reference else None
    async with plain_session(front, ready, query, owner, camera) as session:
        answer = created(front, session, await front.publishers.publish(session, offer), "whip")
    answer.headers.append("link", f'</v1/sessions/{session.id}/whep>; rel="{WATCH_REL}"')
    return answer
