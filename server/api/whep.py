"""WHEP for players, and the duplex endpoint of our own page: an SDP offer in, an answer out.

Follows draft-ietf-wish-whep. What becomes of a connection afterwards is in peers.py, the events
that a player may follow in whep_events.py.
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

router = APIRouter(tags=["webrtc"])


@router.post("/v1/sessions/{session_id}/whep", operation_id="watch_session", **OFFERED)
async def watch_session(front: FrontDep, session_id: str, request: Request) -> Response:
    """Watch a session: an offer that receives video and sound."""
    session = front.sessions.get(session_id)
    offer = await read_offer(request)
    return created(front, session, await front.viewers.join(session, offer, duplex=False), "whep")


@router.post("/v1/sessions/{session_id}/duplex", operation_id="join_session", **OFFERED)
async def join_session(front: FrontDep, session_id: str, request: Request) -> Response:
    """Watch and steer a session, and publish to it: an offer that may also send, and that may have
    the data channel "control"."""
    session = front.sessions.get(session_id)
    offer = await read_offer(request)
    return created(front, session, await front.viewers.join(session, offer, duplex=True), "duplex")


@router.post("/whep", operation_id="watch_prompt", **OFFERED)
async def watch_prompt(
    front: FrontDep,
    request: Request,
    query: Annotated[PlainQuery, Query()],
    owner: OwnerDep,
) -> Response:
    """Makes a session for a player that knows only an address; it ends 30 s after its viewer."""
    ready = served(front.hub)
    offer = await read_offer(request)
    front.viewers.check(offer)
    async with plain_session(front, ready, query, owner) as session:
        peer = await front.viewers.join(session, offer, duplex=False)
        return created(front, session, peer, "whep")
