"""Live sessions: opened, steered, watched, paused without viewers, closed when idle.

Everything here runs on the event loop; engine events arrive through `call_soon_threadsafe`. What it
is not: HTTP (routes), the measuring (measures.py), or who watches (viewers.py).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from onbeat.server.api.camera import Camera
from onbeat.server.api.errors import ApiError, not_found, unavailable
from onbeat.server.api.frame_rate import FrameRate
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.limits import check_control, served
from onbeat.server.api.media import Media
from onbeat.server.api.prompt_schema import prompt_of
from onbeat.server.api.schemas import Applied
from onbeat.server.api.session import Session
from onbeat.server.api.steering import Control
from onbeat.server.config import Settings
from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    CloseStream,
    ControlApplied,
    ControlStream,
    EngineDown,
    EngineReady,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamQueued,
    StreamRefused,
    VideoInput,
)
from onbeat.server.vocabulary import Prompt, Transition
from onbeat.webrtc.fitting import Fit

OPEN_SECONDS = 10.0
APPLY_SECONDS = 2.0
PLAIN_LIFE_SECONDS = 30.0

Watcher = Callable[[str, Session, Any], None]


class SessionManager:
    """All live sessions of this server."""

    def __init__(
        self, settings: Settings, hub: EngineHub, media: Media, refused: Callable[[str], None]
    ) -> None:
        """refused: told the code of each stream that is not taken."""
        self._settings = settings
        self._hub = hub
        self._media = media
        self._count_refusal = refused
        self._sessions: dict[str, Session] = {}
        self._loop = asyncio.get_running_loop()
        self.watchers: list[Watcher] = []
        """Called with "opened", "chunk", "dropped", "applied" or "closed"."""

    def all(self) -> list[Session]:
        """Open sessions, oldest first."""
        return list(self._sessions.values())

    def find(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def get(self, session_id: str) -> Session:
        """Raises ApiError 404."""
        session = self._sessions.get(session_id)
        if session is None:
            raise not_found("session", session_id)
        return session

    # ---- what clients ask for ------------------------------------------------------------------

    async def open(
        self,
        *,
        ready: EngineReady,
        prompt: Prompt,
        seed: int,
        steps: int,
        audio: bool = True,
        plain: bool = False,
        wait: bool = False,
        owner: str = "",
        paused: bool = False,
        reference: bytes | None = None,
        fork_of: Session | None = None,
        transition: Transition | None = None,
        video_input: VideoInput | None = None,
        fit: Fit = "cover",
        fps: int | None = None,
    ) -> Session:
        """A session that the engine has admitted, or lets wait for room if `wait`. Raises ApiError
        503 if it has not.

        `reference`: packed media that it goes on from; `fork_of`: whose history it begins with;
        `transition`: how a fork takes up a prompt of its own. `video_input`: it is made from what a
        publisher sends, fitted by the rule `fit`; a fork from what its parent is made from. `fps`:
        pictures a second that are sent, the model's if None.
        """
        limit = self._settings.max_sessions
        if len(self._sessions) >= limit:
            self._count_refusal("capacity")
            raise unavailable("capacity", f"{limit} sessions are open, which is the most allowed.")
        session = Session(
            ready=ready,
            prompt=prompt,
            seed=seed,
            steps=steps,
            audio=audio,
            plain=plain,
            broadcast=self._media.broadcast(ready),
        )
        session.user_paused, session.owner = paused, owner
        session.rate = FrameRate(ready, fps)
        video_input = self._filmed(session, video_input, fit, fork_of)
        self._sessions[session.id] = session
        self._hub.attach(session.stream_id, self._sink)
        self._hub.send(
            OpenStream(
                stream_id=session.stream_id,
                kind="live",
                prompt=prompt,
                seed=seed,
                steps=steps,
                paused=paused,
                owner=owner,
                wait=wait,
                reference=reference,
                fork_of=fork_of.stream_id if fork_of else None,
                transition=transition,
                video_input=video_input,
            )
        )
        try:
            await self._admitted(session)
        except BaseException:
            await self.close(session, "closed")
            raise
        return session

    def _filmed(
        self, session: Session, asked: VideoInput | None, fit: Fit, parent: Session | None
    ) -> VideoInput | None:
        """Gives the session its camera; what the engine is told of it."""
        if parent is not None and parent.camera is not None:
            session.camera, session.strength = parent.camera, parent.strength
            session.camera.follow(session.stream_id)
            return VideoInput(strength=parent.strength)
        if asked is not None:
            session.input = session.camera = Camera(
                session.ready, self._hub, session.stream_id, fit
            )
            default = session.ready.default_strength
            session.strength = default if asked.strength is None else asked.strength
        return asked

    async def _admitted(self, session: Session) -> None:
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await session.opened
        except TimeoutError as error:
            message = f"The engine did not answer within {OPEN_SECONDS:.0f} s."
            raise unavailable("engine_busy", message, retry_after=5) from error

    def served(self) -> EngineReady:
        """What the engine serves. Raises ApiError 503 if there is none."""
        return served(self._hub)

    def check(self, session: Session, control: Control) -> None:
        """Raises ApiError 400 or 422 for a change that this session cannot take."""
        check_control(control, session.ready, session.mode)

    def control(self, session: Session, control: Control) -> int:
        """Sends a change to the engine; its revision. Raises ApiError 400 or 422."""
        self.check(session, control)
        revision = session.next_revision()
        prompt = None if control.prompt is None else prompt_of(control.prompt)
        if prompt is not None:
            session.reword(prompt)
        session.seed = control.seed if control.seed is not None else session.seed
        session.steps = control.steps if control.steps is not None else session.steps
        session.strength = control.strength if control.strength is not None else session.strength
        session.rate.ask(control.fps, revision)
        session.user_paused = session.user_paused if control.paused is None else control.paused
        session.rested()
        self._hub.send(
            ControlStream(
                stream_id=session.stream_id,
                revision=revision,
                prompt=prompt,
                transition=control.transition,
                blend_chunks=control.blend_chunks,
                reset=control.reset is True,
                seed=control.seed,
                steps=control.steps,
                strength=control.strength,
                paused=session.paused,
            )
        )
        return revision

    async def applied(self, session: Session, revision: int) -> Applied | None:
        """Where a revision takes effect; None if that is not known within 2 s, or if nothing is
        made (a resume may have to wait for room)."""
        if session.paused or session.status != "live":
            return None
        waiting = session.wait_for(revision)
        try:
            async with asyncio.timeout(APPLY_SECONDS):
                found = await waiting
        except TimeoutError:
            return None
        return found if session.status == "live" else None

    async def close(self, session: Session, reason: str) -> None:
        """Ends the stream, its viewers and the session. Idempotent."""
        if self._sessions.pop(session.id, None) is None:
            return
        self._hub.detach(session.stream_id)
        if session.camera is not None:
            session.camera.leave(session.stream_id)
        self._hub.send(CloseStream(stream_id=session.stream_id))
        session.end(reason)
        self.tell("closed", session, reason)
        await session.release()

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(session, "closed") for session in self.all()))

    # ---- the passing of time -------------------------------------------------------------------

    async def sweep(self, now: float) -> None:
        """Pauses what nobody watches, resumes what somebody does, ends what is over."""
        for session in self.all():
            session.note_viewers(now)
            self._pause(session, now)
            self._adapt(session, now)
            if session.failed_at is not None and now - session.failed_at > PLAIN_LIFE_SECONDS:
                await self.close(session, "failed")
            elif self._idle(session, now):
                await self.close(session, "idle")

    def watched(self, session: Session) -> None:
        """A viewer has come: generation goes on at once."""
        now = time.monotonic()
        session.note_viewers(now)
        self._pause(session, now)

    def _adapt(self, session: Session, now: float) -> None:
        """Makes no better quality than the viewers' links are worth."""
        here = [viewer for viewer in session.viewers.values() if not viewer.away]
        states = [viewer.peer.link() for viewer in here]
        sent = session.meter.sender.fps_sent
        each = [v.link.verdict(sent, now, s.loss) for v, s in zip(here, states, strict=True)]
        moved = session.link.update(
            [verdict for verdict in each if verdict is not None],
            at_last_rendition=all(state.last_rendition for state in states),
            most=session.steps - 1,
            now=now,
        )
        if moved:
            self._hold(session)

    def _hold(self, session: Session) -> None:
        """Tells the engine; again after it was replaced."""
        floor = ControlStream(
            stream_id=session.stream_id,
            revision=session.revision,
            floor_level=session.link.level,
        )
        self._hub.send(floor)

    def _pause(self, session: Session, now: float) -> None:
        wanted = session.unwatched(now) > self._settings.pause_after_seconds
        if wanted == session.auto_paused or session.state != "live":
            return
        before = session.paused
        session.auto_paused = wanted
        session.rested()
        if session.paused != before:
            self._hub.send(
                ControlStream(
                    stream_id=session.stream_id, revision=session.revision, paused=session.paused
                )
            )

    def _idle(self, session: Session, now: float) -> bool:
        if session.recording is not None:
            return False
        life = self._settings.idle_session_seconds
        return session.idle(now) > (min(PLAIN_LIFE_SECONDS, life) if session.plain else life)

    # ---- what the engine says ------------------------------------------------------------------

    def _sink(self, event: Event, payload: ChunkPayload | None) -> None:
        """On the reader thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handle, event, payload)

    def _handle(self, event: Event, payload: ChunkPayload | None) -> None:
        if isinstance(event, EngineDown):
            for each in self.all():
                each.engine_down = True
        session = self._sessions.get(getattr(event, "stream_id", ""))
        if session is None:
            return
        match event:
            case StreamOpened(recognised=recognised):
                session.admit(recognised)
                if session.link.level:
                    self._hold(session)
                self.tell("opened", session, event)
            case StreamQueued(position=position, estimated_seconds=seconds):
                session.enqueue(position, seconds)
            case StreamRefused():
                self._refused(session, event)
            case ChunkReady():
                assert payload is not None
                self._deliver(session, event, payload)
            case ChunkDropped():
                session.meter.dropped(event, session.ready.chunk_frames, time.monotonic())
                self.tell("dropped", session, event)
            case ControlApplied():
                self._apply(session, event)
            case StreamEnded(reason=reason, error=error):
                session.fail(reason, error or f"The stream ended: {reason}.")

    def _refused(self, session: Session, event: StreamRefused) -> None:
        self._count_refusal(event.code)
        if event.code == "invalid" and event.reason.startswith("fork_of:"):
            error = ApiError(409, "not_forkable", event.reason)
        elif event.code == "invalid":
            params = {"reference": "reference", "video_input": "mode", "strength": "strength"}
            param = params.get(event.reason.partition(":")[0].partition(" ")[0], "prompt")
            error = ApiError(422, "invalid_value", event.reason, param=param)
        else:
            error = unavailable(
                "capacity",
                event.reason,
                retry_after=event.retry_after,
                queue_position=event.queue_position,
            )
        session.refuse(error)

    def _deliver(self, session: Session, event: ChunkReady, payload: ChunkPayload) -> None:
        chunk = session.rate.chunk(event, payload, audio=session.audio)
        session.pictures.add(chunk)
        session.broadcast.push(chunk)
        session.engine_down = False
        session.meter.delivered(event, time.monotonic())
        self.tell("chunk", session, event)

    def _apply(self, session: Session, event: ControlApplied) -> None:
        applied = Applied(
            revision=event.revision,
            chunk=event.chunk,
            media_time=round(event.chunk * session.chunk_seconds, 4),
            due_in_ms=round(1000 * (event.playout_at - time.monotonic()), 1),
            recognised=event.recognised,
        )
        if session.apply(applied):
            self.tell("applied", session, event)

    def tell(self, what: str, session: Session, detail: Any) -> None:
        for watcher in self.watchers:
            watcher(what, session, detail)
