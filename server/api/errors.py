"""One shape for every error: problem details (RFC 9457) that also carry the OpenAI `error` object.

`ApiError` is raised anywhere below a route; the handlers here turn it and validation errors into
`application/problem+json`; guard.py does so for failures. What it is not: the checks themselves.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AliasChoices, BaseModel, ValidationError
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from onbeat.server.jobs.database import is_out_of_reach
from onbeat.server.wording import cut, reason, shown

log = logging.getLogger("onbeat.api")

MEDIA_TYPE = "application/problem+json"
SHOWN_ERRORS = 16

TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    412: "Precondition failed",
    413: "Content too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    422: "Invalid value",
    428: "Precondition required",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
    507: "Insufficient storage",
}


class ApiError(HTTPException):
    """A refusal with a code for programs, a sentence for people and the field it is about."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.message = message
        self.param = param
        self.extra = dict(extra or {})

    def body(self) -> dict[str, Any]:
        """The `error` object."""
        return {
            "message": self.message,
            "type": _kind(self.status_code),
            "code": self.code,
            "param": self.param,
            **self.extra,
        }


def invalid(param: str, value: object, allowed: str, *, code: str = "invalid_value") -> ApiError:
    """422 that names the field, the value and what is allowed."""
    return ApiError(422, code, f"{param}: {shown(value)} is not allowed; {allowed}", param=param)


def not_found(noun: str, identifier: str) -> ApiError:
    """404 for an unknown id; ids of others get the same answer."""
    code = f"{noun}_not_found"
    return ApiError(404, code, f"No {noun} with id {shown(identifier)}.", param="id")


def unavailable(
    code: str, message: str, *, retry_after: float = 1.0, queue_position: int | None = None
) -> ApiError:
    """503 with Retry-After, and the place in the queue where there is one."""
    seconds = max(1, round(retry_after))
    return ApiError(
        503,
        code,
        message,
        headers={"retry-after": str(seconds)},
        extra={"retry_after": seconds, "queue_position": queue_position},
    )


def from_validation(errors: Sequence[Any], model: type[BaseModel] | None = None) -> ApiError:
    """422 from pydantic's list: the message is about the first, `errors` lists them all."""
    found = [_described(error, model) for error in _told(errors)[:SHOWN_ERRORS]]
    first = found[0]
    error = ApiError(422, first["code"], first["message"], param=first["param"])
    error.extra["errors"] = found
    return error


def _told(errors: Sequence[Any]) -> list[Any]:
    """Without lists that are called too short only because an entry of theirs is wrong."""
    places = [error["loc"] for error in errors]

    def follows(error: Any) -> bool:
        loc = error["loc"]
        return error["type"] == "too_short" and any(
            len(p) > len(loc) and p[: len(loc)] == loc for p in places
        )

    return [error for error in errors if not follows(error)]


def validated(model: type[BaseModel], data: object) -> Any:
    """`data` as `model`. Raises ApiError 422."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False), model) from error


def problem(error: ApiError, request_id: str, path: str | None) -> JSONResponse:
    """The answer to a refused request; `path` None: it is not known."""
    body = error.body()
    body.pop("errors", None)
    content = {
        "type": f"urn:onbeat:error:{error.code}",
        "title": TITLES.get(error.status_code, "Error"),
        "status": error.status_code,
        "detail": error.message,
        **({"instance": path} if path is not None else {}),
        "request_id": request_id,
        **error.extra,
        "error": body,
    }
    return JSONResponse(
        content, error.status_code, headers=dict(error.headers or {}), media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Registers the handlers."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(OperationalError, _on_store)


def request_id_of(request: Request) -> str:
    return str(request.scope.get("request_id", ""))


def _respond(request: Request, error: ApiError) -> JSONResponse:
    return problem(error, request_id_of(request), request.url.path)


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if not isinstance(error, ApiError):
        code = {404: "route_not_found", 405: "method_not_allowed"}.get(
            error.status_code, "bad_request"
        )
        error = ApiError(error.status_code, code, str(error.detail), headers=error.headers)
    return _respond(request, error)


async def _on_store(request: Request, error: Exception) -> JSONResponse:
    """The job store could not be used: its Postgres cannot be reached, or its disk is full."""
    log.error("the job store cannot be used: %s", error)
    if is_out_of_reach(error):
        said = "The database of the jobs cannot be reached at this moment."
        return _respond(request, unavailable("store_unavailable", said, retry_after=2))
    message = "The job store cannot be written; is the disk of the data folder full?"
    return _respond(request, ApiError(507, "insufficient_storage", message))


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _respond(request, from_validation(error.errors()))


def _kind(status: int) -> str:
    if status == 503:
        return "unavailable_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def _described(error: Any, model: type[BaseModel] | None) -> dict[str, Any]:
    """One entry of pydantic's list as {param, code, message}."""
    places = [cut(str(p)) for p in error["loc"] if p not in ("body", "query", "path")]
    param = ".".join(places) or None
    name = param or "body"
    kind = error["type"]
    if kind == "extra_forbidden":
        inner = model and _holder(model, error["loc"])
        other = _other_name(inner, places[-1]) if inner else None
        if other is not None:
            message = f"{name}: given beside {other!r}, another name of it; allowed: one of both"
            return _entry(param, "repeated_field", message)
        allowed = f"; allowed: {', '.join(field_names(inner)) or 'none'}" if inner else ""
        return _entry(param, "unknown_field", f"{name}: unknown field{allowed}")
    if kind == "missing":
        return _entry(param, "missing_field", f"{name}: is required")
    message = f"{name}: {shown(error['input'])} is not allowed; {reason(error)}"
    return _entry(param, "invalid_value", message)


def _entry(param: str | None, code: str, message: str) -> dict[str, Any]:
    return {"param": param, "code": code, "message": message}


def _holder(model: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel]:
    """The model of the object that has the last name of `loc`: `model`, or one inside it."""
    for part in loc[:-1]:
        if isinstance(part, str) and part in model.model_fields:
            inner = _models_in(model.model_fields[part].annotation)
            model = inner[0] if inner else model
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in get_args(annotation) for found in _models_in(inner)]


def _other_name(model: type[BaseModel], name: str) -> str | None:
    """The name under which the same field was given, if it has two."""
    for field, names in _names(model):
        if name in names:
            return next(other for other in (*names, field) if other != name)
    return None


def _names(model: type[BaseModel]) -> Iterator[tuple[str, list[str]]]:
    """Of each field what it is called in a body; more than one where it has other names."""
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
        yield name, [str(choice) for choice in choices]


def field_names(model: type[BaseModel]) -> list[str]:
    """The names a body may use, for messages. `type` belongs to the channel, not to the change."""
    return [each for name, names in _names(model) if name != "type" for each in names]
