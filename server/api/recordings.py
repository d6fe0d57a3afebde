"""Recordings of live sessions: begun, ended, finished, told to those who watch.

It taps the encoded packets that viewers get, so that a recording costs no second encode; it keeps
the session running without viewers. What it is not: HTTP (recordings_routes.py), or files (jobs).
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Literal

from msgspec import structs
from pydantic import BaseModel

from onbeat.server.api.errors import ApiError, invalid, not_found
from onbeat.server.api.fields import Number, Strict
from onbeat.server.api.media import TapLike
from onbeat.server.api.paging import PageQuery
from onbeat.server.api.session import Session
from onbeat.server.api.sessions import SessionManager
from onbeat.server.config import Settings
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.keeping import NoRoom
from onbeat.server.jobs.muxing import CONTAINER
from onbeat.server.jobs.recording import RecordingWriter, Written
from onbeat.server.jobs.recordings import RecordingInfo, RecordingStatus, RecordingStore
from onbeat.server.vocabulary import new_id, prompt_text
from onbeat.webrtc.tap import EncodedSound, EncodedVideo

log = logging.getLogger("onbeat.recording")

FOLDER = "recordings"
CODEC: dict[str, str | None] = {"auto": None, "mp4": "H264", "webm": "VP8"}
"""What is asked of the transport; None: what most viewers have."""


class RecordingCreate(Strict):
    """What POST /v1/sessions/{id}/recordings takes."""

    format: Literal["auto", "mp4", "webm"] = "auto"
    """auto: what viewers have needs no second encode; H.264 becomes MP4, VP8 WebM."""
    audio: bool = True
    max_seconds: Number | None = None


class RecordingView(BaseModel):
    """A recording as the API shows it."""

    id: str
    object: Literal["recording"] = "recording"
    session_id: str
    status: RecordingStatus
    reason: str | None
    """Why it ended."""
    format: str
    video_codec: str
    audio: bool
    width: int
    height: int
    fps: int
    frames: int
    seconds: float
    bytes: int
    created_at: int
    prompt: str | None
    """The session's words when it began; None of old ones."""
    url: str
    content_url: str


class RecordingPage(BaseModel):
    object: Literal["list"] = "list"
    data: list[RecordingView]
    first_id: str | None
    last_id: str | None
    has_more: bool


@dataclass(slots=True, kw_only=True)
class Running:
    """A recording under way. `done` is set once its file is final."""

    info: RecordingInfo
    session: Session
    tap: TapLike
    writer: RecordingWriter
    done: asyncio.Event


class Recordings:
    """Of all sessions. Runs on the event loop; the disk is reached from threads."""

    def __init__(self, settings: Settings, sessions: SessionManager, artifacts: Artifacts) -> None:
        self._sessions, self._max_seconds = sessions, settings.max_recording_seconds
        self.store = RecordingStore(
            settings.data_dir / FOLDER,
            artifacts,
            max_bytes=settings.recordings_max_mib << 20,
            min_free=settings.recordings_min_free_mib << 20,
        )
        self._running: dict[str, Running] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        return len(self._running)

    def start(self) -> None:
        """Finishes what an ended process left, beside everything else."""
        self.store.start()

    async def close(self) -> None:
        """Ends all recordings and waits until their files are final."""
        ending = list(self._running.values())
        for running in ending:
            running.tap.close()
            running.writer.stop("server_ended")
        for running in ending:
            await running.done.wait()
        await asyncio.to_thread(self.store.close)

    # ---- begin and end -------------------------------------------------------------------------

    async def begin(self, session: Session, body: RecordingCreate) -> RecordingView:
        """Raises ApiError: 409 if one runs, 422, 507 if there is no room."""
        seconds = self._seconds(body.max_seconds)
        if session.recording is not None:
            message = f"The session is being recorded already: {session.recording}."
            raise ApiError(409, "already_recording", message)
        recording_id = session.recording = new_id("recording")
        try:
            await asyncio.to_thread(self._check_room)
            info = await self._begin(session, body, recording_id, seconds)
        except BaseException:
            session.recording = None
            raise
        self._sessions.watched(session)
        session.announce({"type": "recording", "id": info.id, "status": info.status})
        return self.view(info)

    async def _begin(
        self, session: Session, body: RecordingCreate, recording_id: str, seconds: float
    ) -> RecordingInfo:
        sink = _Relay()
        tap = session.broadcast.tap(sink, video_codec=CODEC[body.format], audio=body.audio)
        codec = tap.video_codec
        assert codec is not None, "a tap has the codec that it asked for"
        info = RecordingInfo(
            id=recording_id,
            session_id=session.id,
            status="recording",
            format=CONTAINER[codec],
            video_codec=codec,
            audio=body.audio,
            width=session.ready.width,
            height=session.ready.height,
            fps=session.rate.asked,
            created_at=int(time.time()),
            prompt=prompt_text(session.prompt),
        )
        try:
            await asyncio.to_thread(self.store.write, info)
        except OSError as error:
            tap.close()
            log.warning("recording %s cannot be written: %s", info.id, error)
            message = f"It cannot be written: {error.strerror or 'see the log'}."
            raise ApiError(507, "insufficient_storage", message) from error
        if session.state == "closed":
            tap.close()
            await asyncio.to_thread(self.store.remove, info.id)
            raise not_found("session", session.id)
        self._run(info, session, tap, sink, seconds)
        return info

    def _run(
        self, info: RecordingInfo, session: Session, tap: TapLike, sink: "_Relay", seconds: float
    ) -> None:
        def ended(written: Written) -> None:
            self._loop.call_soon_threadsafe(self._ended, info.id, written)

        writer = RecordingWriter(
            self.store.part(info),
            audio=info.audio,
            max_seconds=seconds,
            room=self.store.room,
            ended=ended,
        )
        self._running[info.id] = Running(
            info=info, session=session, tap=tap, writer=writer, done=asyncio.Event()
        )
        sink.open(writer)
        tap.request_keyframe()

    def _seconds(self, asked: float | None) -> float:
        if asked is None:
            return self._max_seconds
        if not 0 < asked <= self._max_seconds:
            raise invalid("max_seconds", asked, f"allowed: above 0 up to {self._max_seconds:g}")
        return asked

    def _check_room(self) -> None:
        try:
            self.store.check_room()
        except NoRoom as error:
            raise ApiError(507, "insufficient_storage", str(error)) from error

    async def stop(self, recording_id: str) -> RecordingView:
        """The finished recording; one that has ended already is just told. Raises ApiError 404."""
        running = self._running.get(recording_id)
        if running is not None:
            running.tap.close()
            running.writer.stop()
            await running.done.wait()
        return self.view(self.get(recording_id))

    async def delete(self, recording_id: str) -> None:
        """Ends and removes it. Raises ApiError 404, OSError."""
        await self.stop(recording_id)
        await asyncio.to_thread(self.store.remove, recording_id)

    def _ended(self, recording_id: str, written: Written) -> None:
        task = self._loop.create_task(self._finish(self._running[recording_id], written))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, running: Running, written: Written) -> None:
        running.tap.close()
        running.info = structs.replace(
            running.info,
            status="finishing",
            frames=written.frames,
            seconds=round(written.seconds, 4),
        )
        try:
            done = await asyncio.to_thread(self.store.finish, running.info, written.reason)
        except OSError as error:
            log.warning("recording %s waits for its place: %s", running.info.id, error)
            done = structs.replace(running.info, reason=written.reason)
        self._running.pop(running.info.id)
        running.session.recording = None
        running.done.set()
        message = {"type": "recording", "id": done.id, "status": done.status}
        running.session.announce(message | {"reason": done.reason})

    # ---- looking -------------------------------------------------------------------------------

    def get(self, recording_id: str) -> RecordingInfo:
        """As it is now. Raises ApiError 404."""
        running = self._running.get(recording_id)
        if running is not None:
            writer = running.writer
            return structs.replace(
                running.info, frames=writer.frames, seconds=writer.seconds, bytes=writer.size
            )
        info = self.store.get(recording_id)
        if info is None:
            raise not_found("recording", recording_id)
        return info

    def page(self, query: PageQuery, session_id: str | None = None) -> RecordingPage:
        """By age; of one session, or of all. Raises ApiError 404 for an unknown `after`."""
        try:
            found = self.store.page(
                session_id=session_id,
                after=query.after,
                limit=query.limit + 1,
                newest_first=query.newest_first,
            )
        except KeyError as error:
            raise query.unknown("recording") from error
        data = [self.view(self.get(info.id)) for info in found[: query.limit]]
        return RecordingPage(
            data=data,
            first_id=data[0].id if data else None,
            last_id=data[-1].id if data else None,
            has_more=len(found) > query.limit,
        )

    def any_of(self, session_id: str) -> bool:
        """Whether there is one of this session, which may have ended."""
        return any(info.session_id == session_id for info in self.store.all())

    def view(self, info: RecordingInfo) -> RecordingView:
        url = f"/v1/recordings/{info.id}"
        return RecordingView(**structs.asdict(info), url=url, content_url=f"{url}/content")


class _Relay:
    """What a tap gives before the file's name is known waits for its writer."""

    def __init__(self) -> None:
        self._writer: RecordingWriter | None = None
        self._early: list[EncodedVideo | EncodedSound] = []

    def open(self, writer: RecordingWriter) -> None:
        self._writer = writer
        for item in self._early:
            if isinstance(item, EncodedVideo):
                writer.video(item)
            else:
                writer.sound(item)
        self._early.clear()

    def video(self, picture: EncodedVideo) -> None:
        if self._writer is None:
            self._early.append(picture)
        else:
            self._writer.video(picture)

    def sound(self, sound: EncodedSound) -> None:
        if self._writer is None:
            self._early.append(sound)
        else:
            self._writer.sound(sound)

    def ended(self, reason: str) -> None:
        if self._writer is not None:
            self._writer.ended(reason)
