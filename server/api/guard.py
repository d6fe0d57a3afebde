"""The outermost layer of every request: id, Host and Origin, key, body size, security headers.

Pure ASGI. On a loopback bind only loopback names are served, so that no web page can reach the
server by DNS rebinding; pages of other origins are refused unless they are configured.
"""

import logging
import re
import secrets
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onbeat.server.api.body_size import Body
from onbeat.server.api.errors import ApiError, problem
from onbeat.server.api.keys import missing_key
from onbeat.server.wording import shown

log = logging.getLogger("onbeat.api")

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

EXPOSED = (
    "Location, ETag, Link, Retry-After, X-Request-Id, Accept-Post, Accept-Patch, Allow, "
    "WWW-Authenticate, Access-Control-Allow-Methods"
)
"""The last one because a client reads there whether candidates may be sent late."""
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; media-src 'self' blob:; img-src 'self' data: blob:; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(self), geolocation=()",
}
PREFLIGHT = {
    "access-control-allow-methods": "GET, HEAD, POST, PATCH, DELETE, OPTIONS",
    "access-control-allow-headers": "Authorization, Content-Type, If-Match, ETag, X-Request-Id",
    "access-control-max-age": "600",
}


class Guard:
    """ASGI middleware. host: the address the server listens on; key: what requests have to bear;
    origins: of pages, beside the server's own, that may use it."""

    def __init__(
        self, app: ASGIApp, host: str, key: str | None = None, origins: frozenset[str] = frozenset()
    ) -> None:
        self.app = app
        self._local = host in LOOPBACK
        self._key, self._origins = key, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(8)}"
        scope["request_id"] = request_id
        origin = headers.get("origin")
        body = Body(scope["path"], headers, receive)
        answer = _Sender(send, body, request_id, origin)
        refused = self._refusal(scope["method"], headers, origin) or body.too_large()
        if refused is not None:
            answer.origin = None
            await problem(refused, request_id, scope["path"])(scope, body.receive, answer)
        elif _is_preflight(scope["method"], headers):
            await Response(status_code=204, headers=preflight(scope["path"]))(
                scope, body.receive, answer
            )
        elif (unknown := missing_key(self._key, scope["path"], headers)) is not None:
            await problem(unknown, request_id, scope["path"])(scope, body.receive, answer)
        else:
            await self._run(scope, body.receive, answer)

    async def _run(self, scope: Scope, receive: Receive, answer: "_Sender") -> None:
        try:
            await self.app(scope, receive, answer)
        except ClientDisconnect:
            log.info("request %s: the client left before its end", scope["request_id"])
        except Exception:  # whatever fails, its client gets an answer and the log an id
            request_id = scope["request_id"]
            log.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if answer.started:
                raise
            message = f"The server failed on this request; its log has the id {request_id}."
            error = ApiError(500, "internal_error", message)
            await problem(error, request_id, scope["path"])(scope, receive, answer)

    def _refusal(self, method: str, headers: Headers, origin: str | None) -> ApiError | None:
        host = headers.get("host", "")
        name = _address(f"//{host}").hostname
        if self._local and name not in LOOPBACK:
            message = f"host: {shown(host)} is not allowed; allowed: {', '.join(sorted(LOOPBACK))}"
            return ApiError(403, "host_not_allowed", message, param="host")
        if origin is None:
            return None
        page = _address(origin)
        if (host and page.netloc == host) or page.hostname in LOOPBACK:
            return None
        if origin in self._origins:
            return None
        message = f"origin: {shown(origin)} is not allowed; allowed: the server's own and loopback"
        return ApiError(403, "origin_not_allowed", message, param="origin")


class _Sender:
    """Adds the headers that every answer carries; first reads what is left of the request."""

    def __init__(self, send: Send, body: Body, request_id: str, origin: str | None) -> None:
        self._send, self._body = send, body
        self._request_id = request_id
        self.origin = origin
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            await self._body.drain()
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers.add_vary_header("Origin")
            if self.origin is not None:
                headers["access-control-allow-origin"] = self.origin
                headers["access-control-expose-headers"] = EXPOSED
        await self._send(message)


def preflight(path: str) -> dict[str, str]:
    """What a browser may send here from a page of another origin."""
    offers = path.rstrip("/").endswith(("/whep", "/whip", "/duplex"))
    return PREFLIGHT | ({"accept-post": "application/sdp"} if offers else {})


def _is_preflight(method: str, headers: Headers) -> bool:
    return method == "OPTIONS" and "access-control-request-method" in headers


def _address(text: str) -> SplitResult:
    """Empty of what is no address, such as "http://[": headers come from anybody."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")
