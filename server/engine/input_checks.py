"""What an input may ask for. Plain checks; no tensors. The errors name field, value and allowed."""

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.input_track import MIN_STRENGTH
from onbeat.server.engine.messages import OpenStream


def wrong_input(command: OpenStream, spec: ModelSpec) -> str | None:
    """Why a stream cannot have the input that it asks for; None if it can."""
    given = command.video_input
    if given is None:
        return None
    if not spec.takes_reference:
        return f"video_input: {spec.name} has no encoders; allowed: none"
    if command.kind != "live":
        return f"video_input: a {command.kind} stream; allowed: live"
    if not 0.0 < given.ahead_chunks <= command.ahead_chunks:
        allowed = f"above 0, up to {command.ahead_chunks}"
        return f"video_input: ahead_chunks is {given.ahead_chunks}; allowed: {allowed}"
    return wrong_strength(given.strength)


def wrong_strength(strength: float | None) -> str | None:
    """Why it cannot be; None if it can."""
    if strength is None:
        return None
    if MIN_STRENGTH <= strength <= 1.0:
        return None
    return f"strength is {strength}; allowed: {MIN_STRENGTH} to 1"
