"""What the served model allows, checked against a request. Each error names field, value, allowed.

What it is not: admission, which is the engine's.
"""

import secrets

from onbeat.server.api.errors import ApiError, invalid, unavailable
from onbeat.server.api.frame_rate import rates_of
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.schemas import SessionCreate
from onbeat.server.api.steering import Control
from onbeat.server.engine.messages import EngineReady, VideoInput

MIN_STRENGTH = 0.001
RANDOM_SEEDS = 2**32
"""Seeds drawn here stay small enough for every JSON reader."""


def served(hub: EngineHub) -> EngineReady:
    """The engine's announcement. Raises ApiError 503 before there is one, or after it failed."""
    if hub.state == "failed":
        raise unavailable(
            "engine_failed", f"The engine does not run: {hub.reason}.", retry_after=30
        )
    if hub.ready is None:
        raise unavailable("engine_starting", "The engine is still warming up.", retry_after=1)
    return hub.ready


def check_model(name: str | None, ready: EngineReady) -> None:
    """Raises ApiError 404 for a model that is not served."""
    if name is not None and name != ready.model:
        message = f"model: {name!r} is not served; allowed: {ready.model!r}"
        raise ApiError(404, "model_not_found", message, param="model")


def check_steps(param: str, steps: int | None, ready: EngineReady) -> int:
    """The steps to take. Raises ApiError 422."""
    if steps is None:
        return ready.default_steps
    if not 1 <= steps <= ready.max_steps:
        raise invalid(param, steps, f"allowed: 1 to {ready.max_steps}")
    return steps


def check_fixed(param: str, value: int | None, only: int) -> None:
    """A value that only the model decides. Raises ApiError 422."""
    if value is not None and value != only:
        raise invalid(param, value, f"allowed: {only}")


def check_rate(value: int | None, ready: EngineReady) -> None:
    """Pictures a second that are sent. Raises ApiError 422."""
    allowed = rates_of(ready)
    if value is not None and value not in allowed:
        raise invalid("fps", value, f"allowed: {', '.join(map(str, allowed))}")


def check_negative_prompt(value: str | None) -> None:
    """Few-step consistency models run without guidance. Raises ApiError 422 unless empty."""
    if value:
        raise invalid(
            "negative_prompt",
            value,
            "allowed: empty, as few-step consistency models run without guidance",
            code="unsupported_field",
        )


def check_guidance(value: float | None, param: str = "guidance") -> None:
    """Raises ApiError 422: no served model has guidance, which is what a scale of 1 says."""
    if value is not None and value != 1:
        raise invalid(
            param,
            value,
            "allowed: absent, or 1, as few-step consistency models run without guidance",
            code="unsupported_field",
        )


def controls_of(ready: EngineReady) -> list[str]:
    """The fields of `Control` that the served model takes."""
    filmed = ["strength"] if ready.takes_reference else []
    slower = ["fps"] if len(rates_of(ready)) > 1 else []
    words = ["prompt", "transition", "blend_chunks"]
    return [*words, "seed", "steps", *filmed, *slower, "paused", "reset"]


def transition_without_prompt(name: str) -> ApiError:
    """The error of field `name`, which means nothing by itself."""
    message = f"{name}: it says how a new prompt is taken up; send it with prompt"
    return ApiError(400, "transition_without_prompt", message, param=name)


def check_control(control: Control, ready: EngineReady, mode: str) -> None:
    """Raises ApiError: 400 for a transition of nothing, 422 for what the model cannot do."""
    if control.prompt is None and (control.transition or control.blend_chunks):
        raise transition_without_prompt("transition" if control.transition else "blend_chunks")
    if control.blend_chunks is not None and control.transition != "blend":
        message = "it belongs to transition 'blend' alone"
        raise invalid("blend_chunks", control.blend_chunks, message)
    check_steps("steps", control.steps, ready)
    check_negative_prompt(control.negative_prompt)
    check_guidance(control.guidance)
    check_rate(control.fps, ready)
    check_strength(mode, control.strength)


def modes_of(ready: EngineReady) -> list[str]:
    """What sessions of the served model can be."""
    return ["text-to-video", *(["video-to-video"] if ready.takes_reference else [])]


def check_mode(body: SessionCreate, ready: EngineReady) -> None:
    """Raises ApiError 422."""
    if body.mode not in modes_of(ready):
        allowed = ", ".join(map(repr, modes_of(ready)))
        message = f"mode: {body.mode!r} is not what {ready.model} does; allowed: {allowed}"
        raise ApiError(422, "unsupported_value", message, param="mode")
    if body.mode == "text-to-video" and body.motion_aware:
        raise invalid("motion_aware", True, "it belongs to mode 'video-to-video' alone")
    if body.mode == "text-to-video" and body.fit != "cover":
        raise invalid("fit", body.fit, "it belongs to mode 'video-to-video' alone")


def check_strength(mode: str, value: float | None) -> None:
    """Raises ApiError 422."""
    if value is None:
        return
    if mode != "video-to-video":
        raise invalid("strength", value, "it belongs to mode 'video-to-video' alone")
    if not MIN_STRENGTH <= value <= 1.0:
        raise invalid("strength", value, f"allowed: {MIN_STRENGTH:g} to 1")


def video_input(body: SessionCreate) -> VideoInput | None:
    """What the engine is told of the input; None for a session without one."""
    if body.mode == "text-to-video":
        return None
    return VideoInput(strength=body.strength, motion_aware=body.motion_aware)


def check_session(body: SessionCreate, ready: EngineReady) -> int:
    """Checks a session's body; the steps to take. Raises ApiError."""
    check_model(body.model, ready)
    check_mode(body, ready)
    check_strength(body.mode, body.strength)
    check_negative_prompt(body.negative_prompt)
    check_rate(body.fps, ready)
    check_fixed("width", body.width, ready.width)
    check_fixed("height", body.height, ready.height)
    return check_steps("num_inference_steps", body.num_inference_steps, ready)


def seed_or_random(seed: int | None) -> int:
    return secrets.randbelow(RANDOM_SEEDS) if seed is None else seed
