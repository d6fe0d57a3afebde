"""/v1/ice-servers: which relays a page may use to get through a firewall, with fresh credentials.

Players without our page are told the same by `Link` headers (peers.py). What it is not: the making
of credentials (onbeat.webrtc.turn).
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from onbeat.server.api.front import FrontDep
from onbeat.server.vocabulary import new_id

router = APIRouter(prefix="/v1/ice-servers", tags=["webrtc"])


class IceServerView(BaseModel):
    """An entry of RTCConfiguration.iceServers."""

    urls: list[str]
    username: str
    credential: str


class IceServersView(BaseModel):
    """`ttl`: seconds for which the credentials are good; None where there are none."""

    object: Literal["list"] = "list"
    data: Annotated[list[IceServerView], Field(description="Empty without a TURN server.")]
    ttl: int | None


@router.get("", operation_id="ice_servers")
async def ice_servers(front: FrontDep, response: Response) -> IceServersView:
    """Relays for the next connection; ask again for each, as credentials expire."""
    response.headers["cache-control"] = "no-store"
    servers = front.media.ice_servers(new_id("client"))
    data = [
        IceServerView(urls=list(each.urls), username=each.username, credential=each.credential)
        for each in servers
    ]
    return IceServersView(data=data, ttl=front.settings.turn_seconds if servers else None)
