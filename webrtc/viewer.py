"""One viewer of a broadcast: two bounded queues of packets, as aiortc tracks.

It decides which packets the viewer may have (none before a keyframe, sound together with the first
picture, none after an overflow until the next keyframe). It encodes nothing and knows no SDP.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import Literal

from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from onbeat.webrtc.made import Made, Packet, restamped

VIDEO_QUEUE = 60
AUDIO_QUEUE = 100
MILLISECOND = 90
"""Ticks of the 90 kHz clock."""
SOUND_ALONE_AFTER = 2.0
"""Seconds. A viewer whose picture does not start hears the sound without it after this long."""


class PacketTrack(MediaStreamTrack):
    """A track whose `recv` hands out packets put by another task of the same loop.

    `on_start` is called at the first `recv`: only then is the peer connected. `send_seconds`
    collects how long the sender needed for each packet (packing, protection, sending), `on_sent`
    is told the time stamp of each packet that has left.
    """

    def __init__(
        self, kind: Literal["audio", "video"], size: int, on_start: Callable[[], None]
    ) -> None:
        super().__init__()
        self.kind = kind
        self.sent = 0
        self.last_pts: int | None = None
        self.send_seconds: deque[float] = deque(maxlen=64)
        self.on_sent: list[Callable[[int], None]] = []
        self._size, self._on_start = size, on_start
        self._packets: deque[Packet] = deque()
        self._arrived = asyncio.Event()
        self._started = False
        self._handed_at: float | None = None

    async def recv(self) -> Packet:
        self._note_send_time()
        if not self._started:
            self._started = True
            self._on_start()
        while not self._packets and self.readyState == "live":
            self._arrived.clear()
            await self._arrived.wait()
        if self.readyState != "live":
            raise MediaStreamError
        self.sent += 1
        self._handed_at = asyncio.get_running_loop().time()
        packet = self._packets.popleft()
        self.last_pts = packet.pts
        return packet

    def _note_send_time(self) -> None:
        if self._handed_at is not None:
            self.send_seconds.append(asyncio.get_running_loop().time() - self._handed_at)
            self._handed_at = None
            for told in self.on_sent:
                told(self.last_pts or 0)

    def put(self, packet: Packet) -> bool:
        """False, and nothing is queued, when the sender does not keep up."""
        if len(self._packets) >= self._size:
            return False
        self._packets.append(packet)
        self._arrived.set()
        return True

    def clear(self) -> None:
        self._packets.clear()

    def stop(self) -> None:
        super().stop()
        self._packets.clear()
        self._arrived.set()


class Viewer:
    """Made by a peer, known to one broadcast. `on_started(viewer)` when it can take packets.

    `level` is the rendition it gets. It goes over to `wanted` with a keyframe of that one, its time
    stamps rising all the while; aiortc numbers the packets of each viewer, so those run on.
    """

    counts = True

    def __init__(
        self,
        *,
        video_codec: str | None,
        audio: bool,
        on_started: Callable[["Viewer"], None],
        on_keyframe_wanted: Callable[["Viewer"], None],
    ) -> None:
        self.id = secrets.token_hex(4)
        self.video_codec: str | None = video_codec
        self._on_started = on_started
        self._on_keyframe_wanted = on_keyframe_wanted
        self.video = PacketTrack("video", VIDEO_QUEUE, self._begin) if video_codec else None
        self.audio = PacketTrack("audio", AUDIO_QUEUE, self._begin) if audio else None
        self.ended = asyncio.Event()
        self.level = self.wanted = 0
        self.started_at: float | None = None
        self.first_frame_at: float | None = None
        self.last_sent_at: dict[str, float] = {}
        self.overflows = 0
        self._needs_keyframe = True
        self._newest = -1

    def _begin(self) -> None:
        if self.started_at is None:
            self.started_at = asyncio.get_running_loop().time()
            self._on_started(self)

    @property
    def connected(self) -> bool:
        return self.started_at is not None and not self.ended.is_set()

    @property
    def listens(self) -> bool:
        return self.audio is not None

    def offer_video(self, made: Made, now: float) -> bool:
        """Whether the viewer got the picture. After a gap it gets none until a keyframe."""
        if self.video is None or not self.connected or not self._takes(made):
            return False
        if not self.video.put(self._rising(made)):
            self.overflows += 1
            self._needs_keyframe = True
            self.video.clear()
            self._on_keyframe_wanted(self)
            return False
        self.level = made.level
        self._needs_keyframe = False
        self.first_frame_at = self.first_frame_at or now
        self.last_sent_at["video"] = now
        return True

    def _takes(self, made: Made) -> bool:
        if made.keyframe:
            return made.level in (self.level, self.wanted)
        return made.level == self.level and not self._needs_keyframe

    def _rising(self, made: Made) -> Packet:
        """The packet; a millisecond after the last where its instant was sent already."""
        stamp = made.packet.pts or 0
        packet = made.packet
        if stamp <= self._newest:
            stamp = self._newest + MILLISECOND
            packet = restamped(packet, stamp)
        self._newest = stamp
        return packet

    def offer_audio(self, packet: Packet, now: float) -> bool:
        """Whether the viewer got the packet. Sound starts with the first picture."""
        if self.audio is None or not self.connected or self.started_at is None:
            return False
        waits = self.video is not None and self.first_frame_at is None
        if waits and asyncio.get_running_loop().time() - self.started_at < SOUND_ALONE_AFTER:
            return False
        if not self.audio.put(packet):
            self.audio.clear()
            return False
        self.last_sent_at["audio"] = now
        return True

    def end(self) -> None:
        """Stop both tracks. Idempotent; the peer watches `ended` and closes itself."""
        self.ended.set()
        for track in (self.video, self.audio):
            if track is not None:
                track.stop()
