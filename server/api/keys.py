"""Whether a request bears the key of the server, where one is set (RFC 6750, 2.1).

The pages, /health, /ready and /metrics are open. So is a stream of viewer events, as a browser's
EventSource can send no header: its address, which only a request with the key gets, is the proof.
What it is not: accounts; there is one key, and whoever has it may do everything.
"""

import re
import secrets

from starlette.datastructures import Headers

from onbeat.server.api.errors import ApiError
from onbeat.server.api.owner import SCHEME

PROTECTED = ("/v1/", "/whep", "/whip")
EVENT_STREAM = re.compile(r"/v1/sessions/[^/]+/whep/[^/]+/events/[^/]+")


def missing_key(key: str | None, path: str, headers: Headers) -> ApiError | None:
    """401 for a request that needs the key and does not bear it."""
    if not key or not path.startswith(PROTECTED) or EVENT_STREAM.fullmatch(path):
        return None
    given = _given(headers.get("authorization", ""))
    if secrets.compare_digest(given.encode(), key.encode()):
        return None
    message = "authorization: a key is needed; send 'Authorization: Bearer KEY'"
    challenge = f'{SCHEME.capitalize()} realm="onbeat"'
    challenge += ', error="invalid_token"' if given else ""
    headers_out = {"www-authenticate": challenge}
    return ApiError(401, "invalid_api_key", message, param="authorization", headers=headers_out)


def _given(authorization: str) -> str:
    """The key of the header; some players send it without a scheme."""
    scheme, space, rest = authorization.strip().partition(" ")
    return rest.strip() if space and scheme.lower() == SCHEME else authorization.strip()
