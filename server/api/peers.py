"""The addresses of single connections: late candidates, ICE restarts, leaving; and discovery.

The same for players (whep), publishers (whip) and both (duplex), as RFC 9725, 4 and the WHEP draft
say. What it is not: making connections (whep.py, whip.py), or the rules of entity tags
(ice_session.py).
"""

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onbeat.server.api.body import JSON_TYPE, expect_type
from onbeat.server.api.errors import ApiError, not_found
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.guard import PREFLIGHT
from onbeat.server.api.offers import SDP, refused_offer
from onbeat.server.api.session import Session, Viewer
from onbeat.webrtc.fragment import parse_fragment
from onbeat.webrtc.settings import OfferError
from onbeat.webrtc.turn import IceServer

router = APIRouter(tags=["webrtc"])

FRAGMENT = "application/trickle-ice-sdpfrag"
MAX_FRAGMENT = 16 * 1024
KINDS = ("whep", "whip", "duplex")
METHODS = "access-control-allow-methods"
ENDPOINT = {"accept-post": SDP, "allow": "GET, HEAD, OPTIONS, POST", METHODS: PREFLIGHT[METHODS]}
RESOURCE = {
    "accept-patch": FRAGMENT,
    "allow": "DELETE, GET, HEAD, OPTIONS, PATCH",
    METHODS: PREFLIGHT[METHODS],
}
EVENTS_REL = "urn:ietf:params:whep:ext:core:server-sent-events"
EVENTS = ("active", "inactive", "viewercount")
SDP_BODY = {"requestBody": {"required": True, "content": {SDP: {"schema": {"type": "string"}}}}}
OFFERED: dict[str, Any] = {
    "status_code": 201,
    "openapi_extra": SDP_BODY,
    "responses": {201: {"content": {SDP: {}}, "description": "The answer"}},
    "response_class": Response,
}
"""What all routes that take an offer have in common."""


def created(front: Front, session: Session, peer: Viewer, kind: str) -> Response:
    """201 with the answer, where the connection is to be found, and what may help it."""
    where = f"/v1/sessions/{session.id}/{kind}/{peer.id}"
    headers = {"location": where, "etag": peer.ice.etag, "accept-patch": FRAGMENT}
    answer = Response(peer.peer.answer, 201, headers=headers, media_type=SDP)
    if kind == "whep":
        events = ",".join(EVENTS)
        link = f'<{where}/events>; rel="{EVENTS_REL}"; events="{events}"'
        answer.headers.append("link", link)
    for server in front.media.ice_servers(peer.id):
        for url in server.urls:
            answer.headers.append("link", _ice_link(url, server))
    return answer


def _ice_link(url: str, server: IceServer) -> str:
    """RFC 9725, 4.6."""
    return (
        f'<{url}>; rel="ice-server"; username="{server.username}"; '
        f'credential="{server.credential}"; credential-type="password"'
    )


def _find(front: Front, session_id: str, kind: str, peer_id: str) -> tuple[Session, Viewer]:
    """Raises ApiError 404."""
    session = front.sessions.get(session_id)
    people = front.publishers if kind == "whip" else front.viewers
    return session, people.get(session, peer_id)


# ---- discovery -----------------------------------------------------------------------------------


def _described(request: Request, headers: dict[str, str]) -> Response:
    """Nothing to see here but the headers."""
    status = 200 if request.method == "OPTIONS" else 204
    return Response(status_code=status, headers=headers, media_type=SDP)


@router.api_route("/whep", methods=["GET", "HEAD", "OPTIONS"], include_in_schema=False)
@router.api_route("/whip", methods=["GET", "HEAD", "OPTIONS"], include_in_schema=False)
async def discover_plain(request: Request) -> Response:
    """What may be posted here."""
    return _described(request, ENDPOINT)


def _discover(kind: str) -> None:
    @router.api_route(
        f"/v1/sessions/{{session_id}}/{kind}",
        methods=["GET", "HEAD", "OPTIONS"],
        include_in_schema=False,
    )
    async def endpoint(front: FrontDep, session_id: str, request: Request) -> Response:
        """What may be posted here."""
        front.sessions.get(session_id)
        return _described(request, ENDPOINT)

    @router.api_route(
        f"/v1/sessions/{{session_id}}/{kind}/{{peer_id}}",
        methods=["GET", "HEAD", "OPTIONS"],
        include_in_schema=False,
    )
    async def resource(
        front: FrontDep, session_id: str, peer_id: str, request: Request
    ) -> Response:
        """What may be done here."""
        _, peer = _find(front, session_id, kind, peer_id)
        return _described(request, RESOURCE | {"etag": peer.ice.etag})


# ---- changes -------------------------------------------------------------------------------------


async def _read_fragment(request: Request) -> str:
    expect_type(request, FRAGMENT, JSON_TYPE)
    raw = await request.body()
    if len(raw) > MAX_FRAGMENT:
        message = f"The fragment is too large; allowed: {MAX_FRAGMENT} bytes."
        raise ApiError(413, "body_too_large", message)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "invalid_fragment", "The fragment is not text.") from error


async def _change(peer: Viewer, text: str, if_match: str | None) -> Response:
    try:
        fragment = parse_fragment(text)
    except OfferError as error:
        raise refused_offer(error) from error
    if peer.ice.change(fragment, if_match) == "trickle":
        await peer.peer.trickle(fragment)
        return Response(status_code=204)
    try:
        answer = await peer.peer.restart(fragment)
    except ConnectionError as error:
        message = f"ICE cannot be restarted: {error}."
        raise ApiError(409, "restart_failed", message) from error
    return Response(answer, headers={"etag": peer.ice.renew(fragment)}, media_type=FRAGMENT)


def _resource(kind: str) -> None:
    path = f"/v1/sessions/{{session_id}}/{kind}/{{peer_id}}"

    @router.patch(path, operation_id=f"trickle_{kind}", response_class=Response)
    async def trickle(front: FrontDep, session_id: str, peer_id: str, request: Request) -> Response:
        """Candidates that came late, or new ICE credentials, which begin an ICE restart."""
        _, peer = _find(front, session_id, kind, peer_id)
        peer.ice.allow(time.monotonic())
        text = await _read_fragment(request)
        return await _change(peer, text, request.headers.get("if-match"))

    @router.delete(path, operation_id=f"leave_{kind}", response_class=Response)
    async def leave(front: FrontDep, session_id: str, peer_id: str) -> Response:
        """Ends the connection, or tidies up after one that has ended. The session goes on."""
        await _leave(front, front.sessions.get(session_id), kind, peer_id)
        return Response(status_code=200)


async def _leave(front: Front, session: Session, kind: str, peer_id: str) -> None:
    """Clients close their connection first and delete it afterwards: both succeed, once."""
    peer = session.publisher if kind == "whip" else session.viewers.get(peer_id)
    if peer is not None and peer.id == peer_id:
        people = front.publishers if kind == "whip" else front.viewers
        await people.leave(session, peer)
    elif peer_id in session.departed:
        session.departed.remove(peer_id)
    else:
        raise not_found("publisher" if kind == "whip" else "viewer", peer_id)


for _kind in KINDS:
    _discover(_kind)
    _resource(_kind)
