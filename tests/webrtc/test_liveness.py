"""When a connection is over, by instants given by hand."""

from typing import Any

import pytest

from onbeat.webrtc.liveness import QUIET_DEADLINE, Signs, why_close
from onbeat.webrtc.settings import PeerSettings

SETTINGS = PeerSettings(connect_deadline=15, silence_deadline=4.5, heartbeat_deadline=4.5)
T0 = 1_000.0


def reason(after: float, *, connected: bool = True, **seen: Any) -> str | None:
    """`after`: seconds since anything was heard of it; what is sent is sent just then."""
    now = T0 + after
    sent = {kind: now - 0.02 for kind in seen.pop("sends", ())}
    at = T0 if connected else None
    signs = Signs(created_at=T0, heard_at=T0, connected_at=at, sent=sent, **seen)
    return why_close(signs, SETTINGS, now)


@pytest.mark.parametrize(
    ("after", "seen", "expected"),
    [
        (14.9, {"connected": False}, None),
        (15.1, {"connected": False}, "not connected in time"),
        (4.4, {"sends": ("video", "audio")}, None),
        (4.6, {"sends": ("video", "audio")}, "receiver silent"),
        (QUIET_DEADLINE - 0.1, {"sends": ("audio",)}, None),
        (QUIET_DEADLINE + 0.1, {"sends": ("audio",)}, "receiver silent"),
        (600.0, {}, None),
        (4.4, {"pinged": True}, None),
        (4.6, {"pinged": True}, "heartbeat lost"),
        (4.6, {"only_publishes": True}, "publisher silent"),
        (9.0, {"only_publishes": True, "media_at": T0 + 5.0}, None),
        (9.6, {"only_publishes": True, "media_at": T0 + 5.0}, "publisher silent"),
    ],
)
def test_the_rules(after: float, seen: dict[str, Any], expected: str | None) -> None:
    assert reason(after, **seen) == expected


def test_who_gets_nothing_at_the_moment_need_not_report() -> None:
    signs = Signs(created_at=T0, heard_at=T0, connected_at=T0, sent={"video": T0 + 3.0})
    assert why_close(signs, SETTINGS, T0 + 6.0) is None, "the picture has rested since"
    assert why_close(signs, SETTINGS, T0 + 600.0) is None
