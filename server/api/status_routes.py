"""/health, /ready, /metrics, /v1/models and the overview that the latency page draws."""

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from onbeat.server.api.errors import ApiError
from onbeat.server.api.frame_rate import rates_of
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.limits import controls_of, modes_of, served
from onbeat.server.api.telemetry import HISTORY_SECONDS, TICK_SECONDS, Overview, session_detail
from onbeat.server.api.traces import LONGEST_SECONDS
from onbeat.server.api.video_events import STREAM, UNKEPT, EventStream
from onbeat.server.engine.messages import EngineReady

router = APIRouter(tags=["status"])

NO_ROOM = "By the measured costs not one live stream would be on time here now; jobs run."


@router.get("/health", operation_id="health")
async def health() -> dict[str, str]:
    """This process answers."""
    return {"status": "ok"}


@router.get("/ready", operation_id="ready")
async def ready(front: FrontDep) -> Response:
    """200 once streams can be opened, 503 with the reason before."""
    state, room = front.hub.state, front.hub.capacity_streams
    body: dict[str, Any] = {"status": "ready" if state == "ready" else "not_ready", "engine": state}
    if state == "ready" and not room:
        body["warning"] = NO_ROOM
    if state == "ready":
        return JSONResponse(body | {"capacity_streams": room})
    body["reason"] = front.hub.reason
    return JSONResponse(body, 503, headers={"retry-after": "1"})


@router.get("/metrics", operation_id="metrics", response_class=Response)
async def metrics(front: FrontDep) -> Response:
    """Prometheus text."""
    text = front.metrics.render(front.hub, front.sessions, front.telemetry)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


@router.get("/v1/models", operation_id="list_models")
async def list_models(front: FrontDep) -> dict[str, Any]:
    """The served model and its limits."""
    return {"object": "list", "data": [_model(front, served(front.hub))]}


@router.get("/v1/models/{model_id:path}", operation_id="get_model")
async def get_model(front: FrontDep, model_id: str) -> dict[str, Any]:
    announced = served(front.hub)
    if model_id != announced.model:
        message = f"model: {model_id!r} is not served; allowed: {announced.model!r}"
        raise ApiError(404, "model_not_found", message, param="model")
    return _model(front, announced)


def _model(front: Front, announced: EngineReady) -> dict[str, Any]:
    return {
        "id": announced.model,
        "object": "model",
        "created": front.started_at,
        "owned_by": "onbeat",
        "sizes": [f"{announced.width}x{announced.height}"],
        "fps": announced.fps,
        "frame_rates": rates_of(announced),
        "chunk_frames": announced.chunk_frames,
        "sample_rate": announced.sample_rate,
        "modes": modes_of(announced),
        "default_strength": announced.default_strength,
        "default_steps": announced.default_steps,
        "max_steps": announced.max_steps,
        "controls": controls_of(announced),
        "max_seconds": front.settings.max_video_seconds,
        "capacity_streams": front.hub.capacity_streams,
        "calibrated_streams": announced.capacity_streams,
    }


@router.get("/v1/trace", operation_id="trace", response_class=Response)
async def trace(
    front: FrontDep, seconds: Annotated[float, Query(gt=0, le=LONGEST_SECONDS)] = 1
) -> Response:
    """What ran in the last seconds, in Chrome's trace format: open it at ui.perfetto.dev."""
    served(front.hub)
    headers = {"content-disposition": 'attachment; filename="onbeat-trace.json"'}
    data = await front.traces.file(seconds)
    return Response(data, media_type="application/json", headers=headers)


@router.get("/v1/overview", operation_id="overview", response_model=Overview)
async def overview(front: FrontDep) -> Response:
    """How the server does at this instant."""
    return Response(front.telemetry.latest_json(), media_type="application/json")


@router.get("/v1/overview/sessions/{session_id}", operation_id="overview_session")
async def overview_session(front: FrontDep, session_id: str) -> dict[str, Any]:
    """One session's entry of the overview, with its last chunks and their frames."""
    return session_detail(front.sessions.get(session_id), time.monotonic())


@router.get("/v1/overview/history", operation_id="overview_history")
async def history(
    front: FrontDep, seconds: Annotated[float, Query(gt=0, le=HISTORY_SECONDS)] = 60
) -> dict[str, Any]:
    """Points of the last seconds, oldest first, two a second."""
    count = max(1, round(seconds / TICK_SECONDS))
    return {"interval_s": TICK_SECONDS, "points": list(front.telemetry.history)[-count:]}


@router.get(
    "/v1/overview/events",
    operation_id="overview_events",
    response_class=EventStream,
    responses={200: STREAM},
)
async def overview_events(front: FrontDep) -> Response:
    """The overview twice a second."""
    return EventStream(_overviews(front), headers=UNKEPT)


async def _overviews(front: Front) -> AsyncIterator[bytes]:
    """Made once for all who read."""
    while True:
        yield b"event: overview\ndata: " + front.telemetry.latest_json() + b"\n\n"
        async with front.ticked:
            await front.ticked.wait()
