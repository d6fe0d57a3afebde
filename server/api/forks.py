"""A fork of a session: asked for over HTTP or on the data channel, opened the same way."""

from onbeat.server.api.limits import check_steps, transition_without_prompt
from onbeat.server.api.prompt_schema import prompt_of
from onbeat.server.api.session import Session
from onbeat.server.api.sessions import SessionManager
from onbeat.server.api.steering import ForkCreate


async def fork(
    sessions: SessionManager, parent: Session, body: ForkCreate, *, owner: str
) -> Session:
    """Raises ApiError: 400 for a transition of nothing, 409 before the parent's first chunk, 422,
    503."""
    if body.prompt is None and body.transition:
        raise transition_without_prompt("transition")
    ready = sessions.served()
    steps = parent.steps if body.steps is None else check_steps("steps", body.steps, ready)
    return await sessions.open(
        ready=ready,
        prompt=parent.prompt if body.prompt is None else prompt_of(body.prompt),
        seed=parent.seed if body.seed is None else body.seed,
        steps=steps,
        audio=parent.audio,
        owner=owner,
        fork_of=parent,
        transition=body.transition,
        fps=parent.rate.asked,
    )
