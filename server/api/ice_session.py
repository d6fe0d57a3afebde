"""The entity tag of a connection's ICE session, and what may change it (RFC 9725, 4.3).

Real clients are met half-way: without If-Match a candidate is taken as long as no restart has
happened, as some learn the tag from a restart's answer only. What it is not: ICE itself.
"""

import re
import secrets
from typing import Literal

from onbeat.server.api.errors import ApiError
from onbeat.webrtc.control import TokenBucket
from onbeat.webrtc.fragment import Fragment

Change = Literal["trickle", "restart"]

PATCH_RATE = 10.0
PATCH_BURST = 60
_TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


class IceSession:
    """One for each connection. `etag` is strong and new after each restart."""

    def __init__(self) -> None:
        self.etag = _new_tag()
        self.restarted = False
        self._ufrag: str | None = None
        self._bucket = TokenBucket(PATCH_RATE, PATCH_BURST)

    def begin(self, offer: str) -> None:
        """Remembers whose ICE credentials the offer names."""
        found = re.search(r"^a=ice-ufrag:(\S+)", offer, re.MULTILINE)
        self._ufrag = found[1] if found else None

    def allow(self, now: float) -> None:
        """Raises ApiError 429 when requests come too fast."""
        if not self._bucket.take(now):
            text = f"Too many requests for this connection; allowed: {PATCH_RATE:.0f} a second."
            raise ApiError(429, "too_many_requests", text, headers={"retry-after": "1"})

    def change(self, fragment: Fragment, if_match: str | None) -> Change:
        """What the fragment asks for. Raises ApiError 412 or 428."""
        new = fragment.ufrag is not None and fragment.ufrag != self._ufrag
        tags = None if if_match is None else [tag.strip('"') for tag in _TAG.findall(if_match)]
        if tags is None:
            if new or self.restarted:
                why = "an ICE restart" if new else "a candidate after an ICE restart"
                text = f"if-match: is required for {why}; allowed: '*' or the entity tag"
                raise ApiError(428, "precondition_required", text, param="if-match")
        elif "*" not in tags and self.etag.strip('"') not in tags:
            text = "if-match: does not name the current ICE session; begin a restart with '*'"
            raise ApiError(412, "precondition_failed", text, param="if-match")
        return "restart" if new else "trickle"

    def renew(self, fragment: Fragment) -> str:
        """The entity tag of the session that the fragment has begun."""
        self._ufrag, self.restarted, self.etag = fragment.ufrag, True, _new_tag()
        return self.etag


def _new_tag() -> str:
    return f'"{secrets.token_urlsafe(9)}"'
