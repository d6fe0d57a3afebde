"""Each request as plain data, the same for both clients. Nothing is sent here."""

import mimetypes
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from onbeat.client.records import Applied, Page, Recording, Session, Video

T = TypeVar("T")
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request and the type of its answer. again: it may be sent twice without harm."""

    method: str
    path: str
    kind: type[T]
    json: Any = None
    form: Mapping[str, str] | None = None
    files: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    again: bool = False

    def read(self, body: Any) -> T:
        """The answer's JSON as its type. Numbers may be text. Raises msgspec.ValidationError."""
        return msgspec.convert(body, self.kind, strict=False)


def create_video(prompt: str, reference: Path | bytes | None, options: Mapping[str, Any]) -> Any:
    """A key of its own makes the request safe to repeat."""
    body = {"prompt": prompt} | _given(options)
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    if reference is None:
        return Call(
            method="POST", path="/v1/videos", kind=Video, json=body, headers=headers, again=True
        )
    return Call(
        method="POST",
        path="/v1/videos",
        kind=Video,
        form=_flat(body),
        files={"input_reference": _file(reference)},
        headers=headers,
        again=True,
    )


def get_video(video_id: str) -> Call[Video]:
    return Call(method="GET", path=f"/v1/videos/{video_id}", kind=Video, again=True)


def cancel_video(video_id: str) -> Call[Video]:
    return Call(method="POST", path=f"/v1/videos/{video_id}/cancel", kind=Video)


def delete_video(video_id: str) -> Call[dict[str, Any]]:
    return Call(method="DELETE", path=f"/v1/videos/{video_id}", kind=dict)


def list_videos(order: str) -> Call[Page[Video]]:
    return _list("/v1/videos", Page[Video], order)


def list_recordings(session_id: str | None, order: str) -> Call[Page[Recording]]:
    path = "/v1/recordings" if session_id is None else f"/v1/sessions/{session_id}/recordings"
    return _list(path, Page[Recording], order)


def _list(path: str, kind: type[Page[T]], order: str) -> Call[Page[T]]:
    return Call(method="GET", path=path, kind=kind, params={"order": order}, again=True)


def create_session(prompt: str, options: Mapping[str, Any]) -> Call[Session]:
    body = {"prompt": prompt} | _given(options)
    return Call(method="POST", path="/v1/sessions", kind=Session, json=body)


def get_session(session_id: str) -> Call[Session]:
    return Call(method="GET", path=f"/v1/sessions/{session_id}", kind=Session, again=True)


def list_sessions() -> Call[dict[str, list[Session]]]:
    return Call(method="GET", path="/v1/sessions", kind=dict, again=True)


def steer_session(session_id: str, changes: Mapping[str, Any]) -> Call[Applied]:
    return Call(method="PATCH", path=f"/v1/sessions/{session_id}", kind=Applied, json=dict(changes))


def fork_session(session_id: str, changes: Mapping[str, Any]) -> Call[Session]:
    path = f"/v1/sessions/{session_id}/fork"
    return Call(method="POST", path=path, kind=Session, json=dict(changes))


def close_session(session_id: str) -> Call[dict[str, Any]]:
    return Call(method="DELETE", path=f"/v1/sessions/{session_id}", kind=dict)


def start_recording(session_id: str, options: Mapping[str, Any]) -> Call[Recording]:
    path = f"/v1/sessions/{session_id}/recordings"
    return Call(method="POST", path=path, kind=Recording, json=_given(options))


def stop_recording(recording_id: str) -> Call[Recording]:
    return Call(method="POST", path=f"/v1/recordings/{recording_id}/stop", kind=Recording)


def get_recording(recording_id: str) -> Call[Recording]:
    return Call(method="GET", path=f"/v1/recordings/{recording_id}", kind=Recording, again=True)


def delete_recording(recording_id: str) -> Call[dict[str, Any]]:
    return Call(method="DELETE", path=f"/v1/recordings/{recording_id}", kind=dict)


def models() -> Call[dict[str, Any]]:
    return Call(method="GET", path="/v1/models", kind=dict, again=True)


def poll_delay(headers: Mapping[str, str]) -> float:
    """Seconds until asking for a job again is worth it, as the server says."""
    said = headers.get("openai-poll-after-ms", "")
    return int(said) / 1000 if said.isdigit() else POLL_SECONDS


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _flat(body: Mapping[str, Any]) -> dict[str, str]:
    """A body as fields of a form: `metadata[name]`, true and false as words."""
    form: dict[str, str] = {}
    for name, value in body.items():
        if isinstance(value, Mapping):
            form |= {f"{name}[{key}]": str(each) for key, each in value.items()}
        else:
            form[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return form


def _file(reference: Path | bytes) -> tuple[str, bytes, str]:
    if isinstance(reference, bytes):
        return "upload", reference, "application/octet-stream"
    kind = mimetypes.guess_type(reference.name)[0] or "application/octet-stream"
    return reference.name, reference.read_bytes(), kind
