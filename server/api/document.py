"""The OpenAPI document of all routes, as /openapi.json serves it and docs/openapi.json keeps it.

FastAPI writes it from the routes; here come what it cannot know: bodies that our own dependencies
read, errors as problem details, the key, and how an answer's id leads on (links). What it is not: a
route, or a check of anything.
"""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from onbeat.server.api.errors import MEDIA_TYPE
from onbeat.server.jobs.formats import FORMATS, media_type

SCHEMAS = "#/components/schemas/"
OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""Schemas of FastAPI's errors, which no route answers with."""
LINKS = {
    "create_video": ("video_id", ("get_video", "cancel_video", "delete_video", "video_content")),
    "remix_video": ("video_id", ("get_video", "delete_video")),
    "create_session": ("session_id", ("get_session", "control_session", "close_session")),
}
VIDEOS = tuple(media_type("video", kind) for kind in FORMATS)
BYTES: dict[str, tuple[str, ...]] = {
    "video_content": (*VIDEOS, "image/webp", "image/jpeg"),
    "sync_video": VIDEOS,
    "recording_content": ("video/mp4", "video/webm"),
}
TEXT = {"type": "string"}
OPTIONAL_TEXT = {"type": ["string", "null"]}
PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457, with the error object that OpenAI clients read.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "request_id", "error"],
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "instance": TEXT,
        "request_id": TEXT,
        "errors": {"type": "array", "items": {"type": "object"}},
        "error": {
            "type": "object",
            "required": ["message", "type", "code", "param"],
            "properties": {
                "message": TEXT,
                "type": TEXT,
                "code": TEXT,
                "param": OPTIONAL_TEXT,
            },
        },
    },
}


def install(app: FastAPI) -> None:
    """Makes `app.openapi` give this document, made once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def as_text(document: dict[str, Any]) -> str:
    """As the file of the repository has it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def described(app: FastAPI) -> dict[str, Any]:
    """The document, by FastAPI and by this module."""
    document = get_openapi(
        title=app.title,
        version="1",
        routes=app.routes,
        description="Streaming video and audio generation; see docs/api.md.",
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in OWN_ERRORS:
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}, {}]
    for item in document["paths"].values():
        for operation in item.values():
            _complete(operation, schemas)
    components["schemas"] = dict(sorted(schemas.items()))
    return document


def _complete(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    responses["default"] = {
        "description": "Refused, or failed",
        "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMAS + "Problem"}}},
    }
    for response in responses.values():
        stream = response.get("content", {}).get("text/event-stream", {})
        if "itemSchema" in stream:  # what FastAPI adds to it by the type alone is not so
            stream.pop("schema", None)
    name = operation["operationId"]
    success = next(iter(responses.values()))
    if name in BYTES:
        binary = {"schema": {"type": "string", "format": "binary"}}
        success["content"] = dict.fromkeys(BYTES[name], binary)
        responses["206"] = {**success, "description": "A part of it"}
    if name in LINKS:
        parameter, targets = LINKS[name]
        where = {"parameters": {parameter: "$response.body#/id"}}
        success["links"] = {target: {"operationId": target, **where} for target in targets}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["schema"] = _hoisted(content["schema"], schemas)


def _hoisted(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A body's schema as a reference to the document's components."""
    if schema.get("type") != "object" or "title" not in schema:
        return schema
    own = {k: v for k, v in schema.items() if k != "$defs"}
    schemas.update(schema.get("$defs", {}))
    schemas[own["title"]] = own
    return {"$ref": SCHEMAS + own["title"]}
