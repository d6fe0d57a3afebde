"""One live session: what was asked for, how far it is, who watches, who listens to its events."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from onbeat.server.api.camera import Camera
from onbeat.server.api.errors import ApiError
from onbeat.server.api.frame_rate import FrameRate
from onbeat.server.api.ice_session import IceSession
from onbeat.server.api.links import LinkLadder, ViewerLink
from onbeat.server.api.measures import SessionMeter
from onbeat.server.api.media import BroadcastLike, PeerLike
from onbeat.server.api.pictures import Pictures
from onbeat.server.api.schemas import Applied, SessionView
from onbeat.server.api.throttle import Throttle
from onbeat.server.engine.messages import EngineReady
from onbeat.server.vocabulary import Prompt, new_id, prompt_text
from onbeat.webrtc.control import TokenBucket
from onbeat.webrtc.ingest import InputSink

Status = Literal["starting", "queued", "live", "paused", "restarting", "failed", "closed"]
LISTENER_QUEUE = 64
ASKED_KEPT = 64
PATCHES_PER_SECOND = 10.0
DEPARTED_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A place in the engine's waiting room; `seconds`: estimated, None if unknown."""

    position: int
    seconds: float | None


class Viewer:
    """A connected viewer, or a publisher. `stats`: what its browser last reported."""

    def __init__(self, peer: PeerLike, kind: str = "viewer") -> None:
        self.id = new_id(kind)
        self.since = time.monotonic()
        self.peer = peer
        self.ice = IceSession()
        self.event_streams: dict[str, frozenset[str]] = {}
        self.stats: dict[str, float] = {}
        self.link = ViewerLink()
        self.throttle = Throttle()
        self.away = False
        """Its picture is hidden or paused, as it says itself."""
        self.asked: dict[int, list[str | int]] = {}
        """Ids of its controls that are not applied yet, by revision."""

    def applied(self, revision: int) -> list[str | int]:
        """Its ids up to this revision; they are forgotten."""
        ids = [each for k, ids in self.asked.items() if k <= revision for each in ids]
        self.asked = {k: ids for k, ids in self.asked.items() if k > revision}
        return ids


class Listener:
    """One reader of the session's events; the oldest are lost if it does not read."""

    def __init__(self) -> None:
        self.events: deque[dict[str, Any]] = deque(maxlen=LISTENER_QUEUE)
        self.wake = asyncio.Event()

    def put(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.wake.set()


class Session:
    """The stream's id is the session's. Not thread-safe: the event loop's alone."""

    def __init__(
        self,
        *,
        ready: EngineReady,
        prompt: Prompt,
        seed: int,
        steps: int,
        audio: bool,
        plain: bool,
        broadcast: BroadcastLike,
    ) -> None:
        self.id = self.stream_id = new_id("session")
        self.ready = ready
        self.prompt, self.seed, self.steps, self.audio = prompt, seed, steps, audio
        self.plain = plain
        self.rate = FrameRate(ready)
        self.broadcast = broadcast
        self.meter = SessionMeter()
        self.pictures = Pictures()
        self.link = LinkLadder()
        self.owner = ""
        """Whose it is, as the engine is told."""
        self._patches = TokenBucket(PATCHES_PER_SECOND, 2 * PATCHES_PER_SECOND)
        self.recording: str | None = None
        """The recording that runs."""
        self.created_at = int(time.time())
        self.created = time.monotonic()
        self.state: Literal["starting", "live", "failed", "closed"] = "starting"
        self.failed_at: float | None = None
        self.engine_down = False
        self.user_paused = self.auto_paused = False
        self.recognised: list[str] | None = None
        """Of the prompt as it is now; None until the engine has told."""
        self._reworded = 0
        """The revision that brought the prompt."""
        self.queued: Queued | None = None
        """Its place while it waits for room."""
        self.level: str | None = None
        """Of the quality ladder, as the engine last reported it."""
        self.revision = 0
        self.asked: dict[int, float] = {}
        """When each revision that is not applied yet was asked for."""
        self.error: dict[str, Any] | None = None
        self.viewers: dict[str, Viewer] = {}
        self.strength: float | None = None
        self.camera: Camera | None = None
        """Where its pictures come from: its own, or that of the session that it is a fork of."""
        self.input_age: float | None = None
        """Seconds from a picture being taken to the one made from it being due; the engine's."""
        self.input: InputSink | None = None
        """What takes a publisher's pictures and sound; None in a session that takes none."""
        self.publisher: Viewer | None = None
        """Who sends them, over WHIP or duplex; perhaps gone already."""
        self._published_at = float("-inf")
        self.departed: deque[str] = deque(maxlen=DEPARTED_KEPT)
        """Connections that ended by themselves and that nobody has deleted yet."""
        self.first_offer: float | None = None
        self.listeners: set[Listener] = set()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last_applied: Applied | None = None
        self._waiting: list[tuple[int, asyncio.Future[Applied]]] = []
        self._alone_since: float | None = self.created
        self._unwatched_since: float | None = self.created

    # ---- state ---------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        return self.user_paused or self.auto_paused

    @property
    def mode(self) -> Literal["text-to-video", "video-to-video"]:
        return "text-to-video" if self.camera is None else "video-to-video"

    @property
    def status(self) -> Status:
        if self.queued is not None and self.state in ("starting", "live"):
            return "queued"
        if self.state == "live":
            if self.engine_down:
                return "restarting"
            return "paused" if self.paused else "live"
        return self.state

    @property
    def chunk_seconds(self) -> float:
        return self.ready.chunk_frames / self.ready.fps

    def view(self) -> SessionView:
        """As the API shows it."""
        base = f"/v1/sessions/{self.id}"
        return SessionView(
            id=self.id,
            status=self.status,
            model=self.ready.model,
            mode=self.mode,
            strength=self.strength,
            prompt=prompt_text(self.prompt),
            recognised=self.recognised,
            seed=self.seed,
            num_inference_steps=self.steps,
            audio=self.audio,
            fps=self.rate.asked,
            width=self.ready.width,
            height=self.ready.height,
            created_at=self.created_at,
            whep_url=f"{base}/whep",
            duplex_url=f"{base}/duplex",
            whip_url=f"{base}/whip" if self.input is not None else None,
            events_url=f"{base}/events",
            recordings_url=f"{base}/recordings",
            snapshot_url=f"{base}/snapshot",
            viewers=len(self.viewers),
            revision=self.revision,
            queue_position=self.queued.position if self.queued else None,
            estimated_wait_s=self.queued.seconds if self.queued else None,
            quality=self.level,
            error=self.error,
        )

    # ---- what happened -------------------------------------------------------------------------

    def admit(self, recognised: list[str]) -> None:
        """The engine runs the stream (again)."""
        self.state, self.engine_down = "live", False
        self.recognised = recognised
        if self.queued is not None:
            self.queued = None
            self._alone_since = self._unwatched_since = time.monotonic()
            self.announce({"type": "admitted"})
        if not self.opened.done():
            self.opened.set_result(None)

    def enqueue(self, position: int, seconds: float | None) -> None:
        """The engine has no room yet; the stream comes in by itself."""
        rounded = None if seconds is None else round(seconds, 1)
        self.queued = Queued(position=position, seconds=rounded)
        if not self.opened.done():
            self.opened.set_result(None)
        self.announce({"type": "queued", "position": position, "estimated_wait_s": rounded})

    def touched(self) -> None:
        """Somebody asks how far the queue is: a sign that the place is still wanted."""
        if self.queued is not None:
            self._alone_since = time.monotonic()

    def rested(self) -> None:
        """A running stream that is paused does not wait for room any more."""
        if self.paused and self.state == "live":
            self.queued = None

    def refuse(self, error: ApiError) -> None:
        """The engine does not take the stream: at once, or when it came back."""
        if self.opened.done():
            self.fail(error.code, error.message)
        else:
            self.opened.set_exception(error)

    def fail(self, code: str, message: str) -> None:
        self.state, self.failed_at = "failed", time.monotonic()
        self.error = {"message": message, "type": "server_error", "code": code, "param": None}
        self.announce({"type": "ended", "reason": code, "error": self.error})
        if not self.opened.done():
            self.opened.set_exception(ApiError(503, code, message))

    def reword(self, prompt: Prompt) -> None:
        """The newest revision brings another prompt."""
        self.prompt, self.recognised, self._reworded = prompt, None, self.revision

    def apply(self, applied: Applied) -> bool:
        """A revision has taken effect; False if that was known."""
        last = self._last_applied
        if last is not None and applied.revision <= last.revision:
            return False
        self._last_applied = applied
        if applied.revision >= self._reworded:
            self.recognised = applied.recognised
        for revision, future in self._waiting:
            if revision <= applied.revision and not future.done():
                future.set_result(applied)
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]
        self._tell_applied(applied)
        return True

    def _tell_applied(self, applied: Applied) -> None:
        """Everybody hears of it; each viewer with the ids of its own controls."""
        message = {"type": "applied", **applied.model_dump()}
        for viewer in self.viewers.values():
            viewer.peer.send(message | {"ids": viewer.applied(applied.revision)})
        for listener in self.listeners:
            listener.put(message)

    def asked_at(self, revision: int) -> float | None:
        """When a revision was asked for; forgets it and all before."""
        at = self.asked.get(revision)
        self.asked = {k: v for k, v in self.asked.items() if k > revision}
        return at

    def may_steer(self) -> None:
        """Counts a PATCH. Raises ApiError 429 if there are too many; nothing of it is kept then."""
        if not self._patches.take(time.monotonic()):
            text = f"More than {PATCHES_PER_SECOND:g} changes a second; send only the last value."
            raise ApiError(429, "rate_limited", text, headers={"retry-after": "1"})

    def next_revision(self) -> int:
        """Counts a change that is asked for now."""
        self.revision += 1
        self.asked[self.revision] = time.monotonic()
        self.asked.pop(self.revision - ASKED_KEPT, None)
        return self.revision

    def wait_for(self, revision: int) -> asyncio.Future[Applied]:
        """Resolves once this revision, or a later one, has taken effect."""
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]
        future: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        if self._last_applied is not None and self._last_applied.revision >= revision:
            future.set_result(self._last_applied)
        else:
            self._waiting.append((revision, future))
        return future

    def announce(self, message: dict[str, Any]) -> None:
        """Tells all viewers with a data channel, and all listeners."""
        for viewer in self.viewers.values():
            viewer.peer.send(message)
        for listener in self.listeners:
            listener.put(message)

    # ---- viewers -------------------------------------------------------------------------------

    def note_viewers(self, now: float) -> None:
        """Forgets viewers that are gone, and since when there is none."""
        gone = [viewer for viewer in self.viewers.values() if viewer.peer.closed]
        self.departed += [viewer.id for viewer in gone]
        self.viewers = {k: v for k, v in self.viewers.items() if not v.peer.closed}
        self._note_watchers(now - min((v.peer.quiet_seconds() for v in gone), default=0.0), now)
        if self.viewers or (self.queued and self.listeners):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now

    @property
    def publishing(self) -> bool:
        return self.publisher is not None and not self.publisher.peer.closed

    def idle(self, now: float) -> float:
        """Seconds without a viewer and without a publisher."""
        if self.publishing:
            self._published_at = now
        return min(self.lonely(now), now - self._published_at)

    def _note_watchers(self, left_at: float, now: float) -> None:
        """`left_at`: when those that are gone were last heard of."""
        here = any(not viewer.away for viewer in self.viewers.values())
        if here or self.recording is not None or (self.queued and self.listeners):
            self._unwatched_since = None
        elif self._unwatched_since is None:
            self._unwatched_since = min(now, left_at)

    def unwatched(self, now: float) -> float:
        """Seconds in which nobody looked and nothing was recorded."""
        return 0.0 if self._unwatched_since is None else now - self._unwatched_since

    def lonely(self, now: float) -> float:
        """Seconds without a viewer."""
        return 0.0 if self._alone_since is None else now - self._alone_since

    def end(self, reason: str) -> None:
        self.state = "closed"
        self.announce({"type": "ended", "reason": reason, "error": self.error})
        for listener in self.listeners:
            listener.wake.set()

    async def release(self) -> None:
        """Closes all connections. Call after `end`."""
        if not self.opened.done():
            self.opened.cancel()
        gone = {*self.viewers.values()} | ({self.publisher} if self.publisher else set())
        peers = [viewer.peer for viewer in gone]
        self.viewers, self.publisher = {}, None
        await asyncio.gather(*(peer.close() for peer in peers), return_exceptions=True)
        self.broadcast.close()
