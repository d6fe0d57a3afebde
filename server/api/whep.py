"""WHEP for players, and the duplex endpoint of our own page: an SDP offer in, an answer out.

Follows draft-ietf-wish-whep: 201 with Location and ETag, OPTIONS and HEAD for discovery, PATCH
tolerated (the answer holds all candidates, so that a trickled one adds nothing), DELETE to leave.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from onbeat.server.api.body import expect_type
from onbeat.server.api.errors import ApiError
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.limits import check_steps, seed_or_random, served
from onbeat.server.api.owner import OwnerDep
from onbeat.server.api.schemas import PlainQuery
from onbeat.server.api.session import Session

router = APIRouter(tags=["webrtc"])

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"
MAX_FRAGMENT = 16 * 1024
DISCOVERY = {"accept-post": SDP, "allow": "GET, HEAD, OPTIONS, POST"}

_SDP_BODY = {
    "requestBody": {"required": True, "content": {SDP: {"schema": {"type": "string"}}}},
}
_SDP_ANSWER: dict[int | str, dict[str, Any]] = {
    201: {"content": {SDP: {}}, "description": "The answer"}
}


async def read_offer(request: Request) -> str:
    """The offer of the body. Raises ApiError 400 or 415."""
    expect_type(request, SDP)
    raw = await request.body()
    try:
        offer = raw.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "invalid_sdp", "The offer is not text.", param="sdp") from error
    if not offer.strip():
        raise ApiError(400, "invalid_sdp", "The offer is empty.", param="sdp")
    return offer


async def _join(front: Front, session: Session, offer: str, *, duplex: bool) -> Response:
    viewer = await front.viewers.join(session, offer, duplex=duplex)
    kind = "duplex" if duplex else "whep"
    headers = {
        "location": f"/v1/sessions/{session.id}/{kind}/{viewer.id}",
        "etag": viewer.etag,
        "accept-patch": FRAGMENT,
    }
    return Response(viewer.peer.answer, 201, headers=headers, media_type=SDP)


@router.post(
    "/v1/sessions/{session_id}/whep",
    status_code=201,
    operation_id="watch_session",
    openapi_extra=_SDP_BODY,
    responses=_SDP_ANSWER,
    response_class=Response,
)
async def watch_session(front: FrontDep, session_id: str, request: Request) -> Response:
    """Watch a session: an offer that receives video and sound."""
    session = front.sessions.get(session_id)
    return await _join(front, session, await read_offer(request), duplex=False)


@router.post(
    "/v1/sessions/{session_id}/duplex",
    status_code=201,
    operation_id="join_session",
    openapi_extra=_SDP_BODY,
    responses=_SDP_ANSWER,
    response_class=Response,
)
async def join_session(front: FrontDep, session_id: str, request: Request) -> Response:
    """Watch and steer a session: an offer that also has the data channel "control"."""
    session = front.sessions.get(session_id)
    return await _join(front, session, await read_offer(request), duplex=True)


@router.post(
    "/whep",
    status_code=201,
    operation_id="watch_prompt",
    openapi_extra=_SDP_BODY,
    responses=_SDP_ANSWER,
    response_class=Response,
)
async def watch_prompt(
    front: FrontDep,
    request: Request,
    query: Annotated[PlainQuery, Query()],
    owner: OwnerDep,
) -> Response:
    """Makes a session for a player that knows only an address; it ends 30 s after its viewer."""
    ready = served(front.hub)
    offer = await read_offer(request)
    session = await front.sessions.open(
        ready=ready,
        prompt=query.prompt,
        seed=seed_or_random(query.seed),
        steps=check_steps("steps", query.steps, ready),
        plain=True,
        owner=owner,
    )
    try:
        return await _join(front, session, offer, duplex=False)
    except BaseException:
        await front.sessions.close(session, "closed")
        raise


@router.api_route(
    "/v1/sessions/{session_id}/{kind}",
    methods=["GET", "HEAD", "OPTIONS"],
    include_in_schema=False,
)
async def discover(front: FrontDep, session_id: str, kind: str) -> Response:
    """What may be posted here."""
    front.sessions.get(session_id)
    if kind not in ("whep", "duplex"):
        raise ApiError(404, "route_not_found", "Not Found")
    return Response(status_code=204, headers=DISCOVERY, media_type=SDP)


@router.api_route("/whep", methods=["GET", "HEAD", "OPTIONS"], include_in_schema=False)
async def discover_plain() -> Response:
    return Response(status_code=204, headers=DISCOVERY, media_type=SDP)


@router.patch("/v1/sessions/{session_id}/whep/{viewer_id}", operation_id="trickle_whep")
@router.patch("/v1/sessions/{session_id}/duplex/{viewer_id}", operation_id="trickle_duplex")
async def trickle(front: FrontDep, session_id: str, viewer_id: str, request: Request) -> Response:
    """Candidates that a client sends later. They are not needed and not used."""
    front.viewers.get(front.sessions.get(session_id), viewer_id)
    expect_type(request, FRAGMENT)
    if len(await request.body()) > MAX_FRAGMENT:
        message = f"The fragment is too large; allowed: {MAX_FRAGMENT} bytes."
        raise ApiError(413, "body_too_large", message)
    return Response(status_code=204)


@router.delete("/v1/sessions/{session_id}/whep/{viewer_id}", operation_id="leave_whep")
@router.delete("/v1/sessions/{session_id}/duplex/{viewer_id}", operation_id="leave_duplex")
async def leave(front: FrontDep, session_id: str, viewer_id: str) -> Response:
    session = front.sessions.get(session_id)
    await front.viewers.leave(session, front.viewers.get(session, viewer_id))
    return Response(status_code=200)
