"""Clients that others publish on npm, in headless Chromium, against WHEP and WHIP."""

from typing import Any

import pytest

from tests.e2e.interop.conftest import KEY, RunPage
from tests.e2e.interop.hosting import Stage
from tests.e2e.interop.pattern import BITS, TONE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def rising(numbers: list[int]) -> None:
    """Pictures came in order: each number is later than the one before, around the wrap."""
    steps = [(b - a) % 2**BITS for a, b in zip(numbers, numbers[1:], strict=False)]
    assert steps and all(0 <= step < 2 ** (BITS - 1) for step in steps), numbers


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_whip_whep_plays(
    in_chromium: RunPage, stage: Stage, session: dict[str, Any], codec: str
) -> None:
    """The client of the drafts' author: trickle without a tag, events, ICE restart, key, DELETE."""
    found = in_chromium(
        what="watch",
        client="whip-whep",
        url=stage.url + session["whep_url"],
        key=KEY,
        codec=codec,
        restart=codec == "VP8",
        events=True,
    )
    rising(found["numbers"])
    assert found["codec"] == f"video/{codec}"
    assert ["active", {}] in found["events"]
    assert ["viewercount", {"viewercount": 1}] in found["events"]
    statuses = {(method, status) for method, status in found["requests"]}
    assert ("POST", 201) in statuses and ("DELETE", 200) in statuses
    assert (("PATCH", 200) in statuses) == (codec == "VP8"), "the restart"
    assert all(status < 300 for _, status in statuses), found["requests"]
    assert stage.request(f"/v1/sessions/{session['id']}")["viewers"] == 0


def test_the_eyevinn_player_plays(
    in_chromium: RunPage, stage: Stage, session: dict[str, Any]
) -> None:
    """It sends its key without a scheme."""
    found = in_chromium(
        what="watch", client="eyevinn", url=stage.url + session["whep_url"], key=KEY
    )
    rising(found["numbers"])
    assert found["requests"] == [["POST", 201], ["DELETE", 200]]


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_whip_whep_publishes(
    in_chromium: RunPage, stage: Stage, session: dict[str, Any], codec: str
) -> None:
    found = in_chromium(
        what="publish",
        client="whip-whep",
        url=f"{stage.url}{session['whip_url']}",
        key=KEY,
        codec=codec,
        restart=codec == "VP8",
        sound=True,
    )
    arrived(found["seen"])
    assert found["codec"] == f"video/{codec}"
    assert all(status < 300 for _, status in found["requests"]), found["requests"]
    assert (["PATCH", 200] in found["requests"]) == (codec == "VP8"), "the restart"


def test_the_eyevinn_client_publishes(
    in_chromium: RunPage, stage: Stage, session: dict[str, Any]
) -> None:
    """It asks by OPTIONS whether it may trickle, and sends its tag as ETag."""
    found = in_chromium(
        what="publish",
        client="eyevinn",
        url=f"{stage.url}{session['whip_url']}",
        key=KEY,
        sound=True,
    )
    arrived(found["seen"])
    assert ["OPTIONS", 200] in found["requests"] and ["PATCH", 204] in found["requests"]
    assert all(status < 300 for _, status in found["requests"]), found["requests"]


def arrived(seen: dict[str, Any], hertz: float = TONE) -> None:
    """What a publisher sent is what the session's input got, and it ended once."""
    rising(seen["numbers"])
    assert seen["size"] == [256, 144] and seen["times"] == sorted(seen["times"])
    assert seen["unread"] <= seen["frames"] // 4, "pictures are whole"
    assert abs(seen["pitch"] - hertz) < hertz / 30
    assert seen["events"][0] == "started" and len(seen["events"]) == 2
