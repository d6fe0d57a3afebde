"""The Idempotency-Key of a request: one job, however often it is sent.

Draft-ietf-httpapi-idempotency-key-header-07. The fingerprint is of the fields, not of the bytes: a
form sent again has another boundary. What it is not: the keeping of keys (jobs/idempotency.py).
"""

import asyncio
import hashlib
import json
import re
import time
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from onbeat.server.api.errors import ApiError, invalid
from onbeat.server.api.forms import repeated
from onbeat.server.api.owner import OwnerDep
from onbeat.server.jobs import idempotency
from onbeat.server.jobs.idempotency import KeyTaken, Once
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.store import JobStore

HEADER = "idempotency-key"
REPLAYED = {"idempotency-replayed": "true"}
KEY = re.compile(r"[\x21-\x7e]{1,255}")


class OnceHeader:
    """Whose request it is, and its key if it has one."""

    def __init__(self, request: Request, owner: str, key: str | None) -> None:
        """Raises ApiError 422."""
        self.owner = owner
        if key is not None and len(key) > 1 and key[0] == key[-1] == '"':
            key = key[1:-1]  # as the draft writes it: a string of RFC 9651
        if key is not None and not KEY.fullmatch(key):
            raise invalid(HEADER, key, "allowed: 1 to 255 visible ASCII characters, no space")
        if len(request.headers.getlist(HEADER)) > 1:
            raise repeated(HEADER)
        self.key = key

    def once(self, what: str, body: BaseModel) -> Once | None:
        """Of a request `what` with these fields; None without a key."""
        if self.key is None:
            return None
        text = json.dumps(
            [what, body.model_dump(exclude_unset=True)], sort_keys=True, default=_hashed
        )
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return Once(owner=self.owner, key=self.key, fingerprint=fingerprint)


async def _once(
    request: Request,
    owner: OwnerDep,
    key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", description="1 to 255 visible ASCII characters"),
    ] = None,
) -> OnceHeader:
    return OnceHeader(request, owner, key)


OnceDep = Annotated[OnceHeader, Depends(_once)]


def _hashed(value: Any) -> Any:
    assert isinstance(value, bytes), type(value)
    return hashlib.sha256(value).hexdigest()


async def earlier(store: JobStore, once: Once | None) -> Job | None:
    """The job that this request has made already. Raises ApiError 422 if another took the key."""
    if once is None:
        return None
    try:
        await asyncio.to_thread(_check, store, once)
    except KeyTaken as taken:
        return await replayed(store, taken)
    return None


def _check(store: JobStore, once: Once) -> None:
    with store.database.reading() as connection:
        idempotency.check(connection, once, time.time())


async def replayed(store: JobStore, taken: KeyTaken) -> Job | None:
    """The job of a key that is taken; None if it was deleted just now. Raises ApiError 422."""
    if not taken.same:
        message = f"{HEADER}: this key was used for another request; allowed: a key of its own"
        raise ApiError(422, "idempotency_key_reused", message, param=HEADER)
    return await asyncio.to_thread(store.get, taken.job_id)
