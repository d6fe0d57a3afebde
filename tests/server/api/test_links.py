"""Who looks, and what their links carry: pausing, coming back, and the way down the ladder."""

from typing import Any

import pytest

from onbeat.server.api.links import DOWN_AFTER, UP_AFTER, LinkLadder, Verdict, ViewerLink
from onbeat.server.engine.messages import ControlStream
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.test_whep import Channel


@pytest.mark.parametrize(
    ("numbers", "loss", "verdict"),
    [
        ({}, 0.0, "good"),
        ({"fps_shown": 20.0}, 0.0, "good"),
        ({"fps_shown": 16.0}, 0.0, "fair"),
        ({"fps_shown": 5.0}, 0.0, "fair"),
        ({"fps_shown": 5.0}, 0.05, "poor"),
        ({"fps_shown": 5.0, "rtt_ms": 500.0}, 0.0, "poor"),
        ({"lost_ratio": 0.2}, 0.0, "poor"),
        ({}, 0.05, "fair"),
        ({"freeze_count": 1.0}, 0.0, "fair"),
        ({"freeze_count": 1.0, "lost_ratio": 0.05}, 0.0, "poor"),
    ],
)
def test_a_report_is_judged(numbers: dict[str, float], loss: float, verdict: str) -> None:
    link = ViewerLink()
    assert link.verdict(20.0, 0.0) is None
    link.report(numbers, 10.0)
    assert link.verdict(20.0, 11.0, loss) == verdict
    assert link.verdict(20.0, 30.0) is None


def test_old_freezes_do_not_count_again() -> None:
    link = ViewerLink()
    link.report({"freeze_count": 3.0}, 1.0)
    link.report({"freeze_count": 3.0}, 2.0)
    assert link.verdict(20.0, 2.0) == "good"


def drive(ladder: LinkLadder, verdicts: list[Verdict], start: float, seconds: float) -> float:
    now = start
    while now < start + seconds:
        ladder.update(verdicts, at_last_rendition=True, most=3, now=now)
        now += 0.5
    return now


def test_the_ladder_goes_down_slowly_and_up_more_slowly() -> None:
    ladder = LinkLadder()
    now = drive(ladder, ["poor", "poor"], 1.0, DOWN_AFTER)
    assert ladder.level == 0
    now = drive(ladder, ["poor"], now, 1.0)
    assert ladder.level == 1
    now = drive(ladder, ["poor"], now, 10 * DOWN_AFTER)
    assert ladder.level == 3
    now = drive(ladder, ["good"], now, UP_AFTER)
    assert ladder.level == 3
    now = drive(ladder, ["good"], now, 1.0)
    assert ladder.level == 2


def test_one_good_link_keeps_the_session_up_and_renditions_come_first() -> None:
    ladder = LinkLadder()
    drive(ladder, ["poor", "good"], 1.0, 60.0)
    assert ladder.level == 0 and ladder.verdict == "good"
    for second in range(60):
        ladder.update(["poor"], at_last_rendition=False, most=3, now=100.0 + second)
    assert ladder.level == 0


def pauses(server: Server, session: str) -> list[bool | None]:
    return [
        c.paused
        for c in server.engine.commands
        if isinstance(c, ControlStream) and c.stream_id == session and c.paused is not None
    ]


def test_a_session_rests_while_all_its_viewers_look_away(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=0.2)
    channel = Channel(server)
    session = channel.made["id"]
    url = f"/v1/sessions/{session}"
    channel.say({"type": "stats", "fps_shown": 20, "visible": True})
    channel.say({"type": "presence", "visible": False})
    until(lambda: server.http.get(url).json()["status"] == "paused")
    assert channel.peer.closed is False
    channel.say({"type": "presence", "visible": True, "playing": True})
    until(lambda: server.http.get(url).json()["status"] == "live")
    assert pauses(server, session)[-2:] == [True, False]
    assert server.media.broadcasts[0].refreshed == 1
    channel.say({"type": "presence", "visible": True, "playing": False})
    until(lambda: server.http.get(url).json()["status"] == "paused")


def test_one_viewer_who_looks_keeps_it_running(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=0.2)
    channel = Channel(server)
    url = f"/v1/sessions/{channel.made['id']}"
    server.http.post(
        channel.made["whep_url"],
        content="v=0\r\n",
        headers={"content-type": "application/sdp"},
    )
    channel.say({"type": "presence", "visible": False})
    until(lambda: len(server.engine.opened("live")) == 1)
    for _ in range(4):
        until(lambda: [m for m in channel.peer.sent if m["type"] == "status"])
        channel.peer.sent.clear()
    assert server.http.get(url).json()["status"] == "live"


def test_a_dead_link_counts_from_when_it_was_last_heard(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=30)
    channel = Channel(server)
    channel.peer.quiet, channel.peer.closed = 40.0, True
    url = f"/v1/sessions/{channel.made['id']}"
    until(lambda: server.http.get(url).json()["status"] == "paused")


def test_poor_links_hold_the_engines_ladder_down(start_server: StartServer) -> None:
    server = start_server()
    channel = Channel(server)

    def floors() -> list[int | None]:
        channel.say({"type": "stats", "fps_shown": 2, "lost_ratio": 0.2, "visible": True})
        sent = [c for c in server.engine.commands if isinstance(c, ControlStream)]
        return [c.floor_level for c in sent if c.floor_level is not None]

    assert until(floors) == [1]

    def poor() -> dict[str, Any] | None:
        floors()
        told = (m for m in channel.peer.sent if m["type"] == "status")
        return next((m for m in told if m["link"]["verdict"] == "poor"), None)

    assert until(poor)["resting"] is False
