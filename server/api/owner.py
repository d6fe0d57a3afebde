"""Whose request it is: a hash of the API key, for fair shares of the device.

The key itself goes no further than here. What it is not: authentication; any key is taken.
"""

import hashlib
from typing import Annotated

from fastapi import Depends, Request

SCHEME = "bearer"


def owner_of(authorization: str | None) -> str:
    """A hash of the bearer key of an Authorization header, "" without one."""
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != SCHEME or not key.strip():
        return ""
    return hashlib.sha256(b"onbeat owner " + key.strip().encode()).hexdigest()[:16]


async def _owner(request: Request) -> str:
    return owner_of(request.headers.get("authorization"))


OwnerDep = Annotated[str, Depends(_owner)]
