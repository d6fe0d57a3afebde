"""What the HTTP of WHEP, WHIP and duplex makes of offers: their bodies, and their refusals.

What it is not: the check of an offer (onbeat.webrtc.offer).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request

from onbeat.server.api.body import expect_type
from onbeat.server.api.errors import ApiError
from onbeat.webrtc.settings import OfferError

SDP = "application/sdp"
STATUS = {"invalid_sdp": 400, "invalid_fragment": 400, "too_large": 413}


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


def wants_to_send(offer: str) -> bool:
    """Whether an offer names media of its own."""
    return any(line.strip() in ("a=sendrecv", "a=sendonly") for line in offer.splitlines())


@contextmanager
def refusing(*, viewing: bool = False) -> Iterator[None]:
    """Turns an OfferError of the block into the ApiError that says so."""
    try:
        yield
    except OfferError as error:
        raise refused_offer(error, viewing=viewing) from error


def refused_offer(error: OfferError, *, viewing: bool = False) -> ApiError:
    """The refusal of an offer or a fragment.

    A player with no codec in common gets 406, and may try with less; a publisher 422, as nothing of
    its offer is to be taken in part (RFC 9725, 4.4.3).
    """
    status = STATUS.get(error.code, 422)
    if viewing and error.code == "no_common_codec":
        status = 406
    return ApiError(status, error.code, error.message, param=error.param)
