"""Sound against picture as a browser plays them, over minutes and over mishaps. JSON line last.

`python -m benchmarks.live.sync [--minutes 10] [--calm]`

Headless Chromium plays one session of a real server. Once a second the difference of the instants
that getStats says are playing now, picture minus sound, in ms: positive when the picture is ahead.
Unless `--calm`, a prompt switch, a pause, a hidden tab and an engine that stands still for 1.5 s
come by turns, 15 s apart. Drift: the least-squares slope times the whole time.
"""

import argparse
import json
import os
import signal
import statistics
import time
import urllib.request
from typing import Any

import numpy as np

from benchmarks.live.browser import Players, served_players
from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import number
from tests.e2e.server_process import ServerProcess

EVERY = 15.0
"""Seconds between mishaps."""
STILL = 1.5


def patch(server: ServerProcess, session: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{server.url}/v1/sessions/{session}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method="PATCH",
    )
    urllib.request.urlopen(request, timeout=20).close()


def mishap(turn: int, server: ServerProcess, session: str, players: Players) -> str:
    """The next of them by turns; takes up to 3 s."""
    name = ("prompt", "pause", "hidden", "stall")[turn % 4]
    if name == "prompt":
        patch(server, session, {"prompt": f"a {('red', 'blue', 'green')[turn // 4 % 3]} ball"})
    elif name == "pause":
        patch(server, session, {"paused": True})
        players.wait(3)
        patch(server, session, {"paused": False})
    elif name == "hidden":
        front = players.context.new_page()
        front.bring_to_front()
        front.wait_for_timeout(3000)
        front.close()
        players.page.bring_to_front()
    else:
        pid = server.get("/v1/overview")["engine"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STILL)
        os.kill(pid, signal.SIGCONT)
    return name


def offset(players: Players, player: int) -> float | None:
    """None before the first sender reports."""
    found = players.inbound(player)
    ends = [found[kind].get("estimatedPlayoutTimestamp") for kind in ("video", "audio")]
    return None if None in ends else float(ends[0] - ends[1])


def watch(server: ServerProcess, players: Players, minutes: float, calm: bool) -> dict[str, Any]:
    session = server.post("/v1/sessions", {"prompt": "a red ball over the sea"})
    player = players.join(server.url + session["whep_url"])
    players.first_frame_ms(player)
    players.wait(5)
    began, turn, seen = time.monotonic(), 0, list[tuple[float, float]]()
    mishaps: list[str] = []
    while (at := time.monotonic() - began) < 60 * minutes:
        if not calm and at >= EVERY * (turn + 1):
            mishaps.append(mishap(turn, server, session["id"], players))
            turn += 1
        found = offset(players, player)
        if found is not None:
            seen.append((time.monotonic() - began, found))
        players.wait(1)
    return {**figures(seen), "mishaps": {name: mishaps.count(name) for name in set(mishaps)}}


def figures(seen: list[tuple[float, float]]) -> dict[str, Any]:
    times, offsets = np.array(seen).T
    slope = float(np.polyfit(times, offsets, 1)[0])
    fifth = max(1, len(seen) // 5)
    first, last = (statistics.median(offsets[part]) for part in (slice(fifth), slice(-fifth, None)))
    return {
        "samples": len(seen),
        "median_ms": round(float(np.median(offsets)), 1),
        "p5_p95_ms": [quantile(list(offsets), 0.05), quantile(list(offsets), 0.95)],
        "drift_ms": round(slope * float(times[-1] - times[0]), 1),
        "last_fifth_minus_first_ms": round(last - first, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=number, default=10.0)
    parser.add_argument("--calm", action="store_true", help="without mishaps")
    args = parser.parse_args()
    with served_players(parser) as (server, players):
        found = watch(server, players, args.minutes, args.calm)
        print(json.dumps({"benchmark": "live/sync", "minutes": args.minutes, **found}))


if __name__ == "__main__":
    main()
