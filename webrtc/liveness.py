"""When a connection is over: not connected in time, silent, or gone. Rules over instants only.

The caller gives what it has seen and does the closing; all instants are seconds on one clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onbeat.webrtc.settings import PeerSettings

QUIET_DEADLINE = 16.0
"""Seconds of silence allowed while only sound flows: receivers then report each 2.5 to 7.5 s
(RFC 3550, 6.2, with the half and the one and a half of 6.3.1)."""
FLOWS_WITHIN = 1.0
"""Seconds since the last packet in which a medium counts as being sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What was seen of one connection.

    heard_at: the last authenticated RTCP or message; connected_at: None before; sent: when packets
    of each medium last left; pinged: whether it has ever sent a heartbeat; media_at: the last
    media that came in, None if none has; only_publishes: nothing is sent to it.
    """

    created_at: float
    heard_at: float
    connected_at: float | None = None
    sent: Mapping[str, float] = field(default_factory=dict)
    pinged: bool = False
    media_at: float | None = None
    only_publishes: bool = False


def why_close(signs: Signs, settings: PeerSettings, now: float) -> str | None:
    """The reason to end it now, or None."""
    if signs.connected_at is None:
        late = now - signs.created_at > settings.connect_deadline
        return "not connected in time" if late else None
    if _is_silent(signs, settings, now):
        return "receiver silent"
    if signs.only_publishes and _stopped_sending(signs, settings, now):
        return "publisher silent"
    lost = signs.pinged and now - signs.heard_at > settings.heartbeat_deadline
    return "heartbeat lost" if lost else None


def _is_silent(signs: Signs, settings: PeerSettings, now: float) -> bool:
    """Nothing was heard for longer than a receiver of what is sent would take.

    Only while something is sent: a receiver of nothing has nothing to report.
    """
    deadline, silent = settings.silence_deadline, now - signs.heard_at
    if silent <= deadline or now - max(signs.sent.values(), default=float("-inf")) > FLOWS_WITHIN:
        return False
    video_flows = now - signs.sent.get("video", float("-inf")) < FLOWS_WITHIN
    return silent > (deadline if video_flows else max(deadline, QUIET_DEADLINE))


def _stopped_sending(signs: Signs, settings: PeerSettings, now: float) -> bool:
    """A publisher from which nothing has come for a while."""
    return now - max(signs.heard_at, signs.media_at or 0.0) > settings.silence_deadline
