"""Sound against picture as a browser plays them, over minutes and over mishaps. JSON line last.

`python -m benchmarks.live.sync [--minutes 10] [--calm] [--buffer MS] [--rows FILE]`

Headless Chromium plays one session of a real server. Once a second the difference of the instants
that getStats says are playing now, picture minus sound, in ms: positive when the picture is ahead.
Unless `--calm`, a prompt switch, a pause, a hidden tab and an engine that stands still for 1.5 s
come by turns, 15 s apart. Drift: the least-squares slope times the whole time.

Browsers leave up to 30 ms between both alone (they move one only beyond that) and widen the buffer
of the sound when it comes unevenly, as it does on a busy machine: as played, the offset follows
their buffers. `sent` is without those: each instant that plays now, less how long its last packets
lay in the buffer. `--buffer` has the page ask for one length of both buffers, `--rows` writes each
sample: seconds, both offsets, both buffers, ms; and when each mishap was.

On a busy machine run it by `benchmarks.live.ahead`. With one real-time priority for all, a forward
of the engine keeps a core from the threads that wake up meanwhile, sound leaves unevenly, and the
browser's buffers are what is measured.
"""

import argparse
import json
import os
import signal
import statistics
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.live.browser import Players, served_players
from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import number
from tests.e2e.server_process import ServerProcess

EVERY = 15.0
"""Seconds between mishaps."""
STILL = 1.5
SETTLE = 20.0
"""Seconds before the first sample: a browser's buffers find their length."""
KINDS = ("video", "audio")
BUFFER = """([number, ms]) => {
  for (const receiver of players[number].pc.getReceivers()) receiver.jitterBufferTarget = ms;
}"""
Floats = npt.NDArray[np.float64]


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


class Offsets:
    """Samples of one player: seconds, the offset as played, and as sent, the time in the buffers of
    picture and sound, ms."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float, float, float]] = []
        self._before: dict[str, Any] | None = None

    def add(self, at: float, found: dict[str, Any]) -> None:
        """Nothing before the first sender reports, or of a second in which nothing came."""
        before, self._before = self._before, found
        ends = [found[kind].get("estimatedPlayoutTimestamp") for kind in KINDS]
        waits = [buffered(found[kind], before[kind]) for kind in KINDS] if before else [None]
        if None in ends or None in waits:
            return
        played = ends[0] - ends[1]
        self.rows.append((at, played, played + waits[0] - waits[1], *waits))


def buffered(now: dict[str, Any], before: dict[str, Any]) -> float | None:
    """How long the last second's frames or samples lay in the buffer, ms."""
    count = now["jitterBufferEmittedCount"] - before["jitterBufferEmittedCount"]
    waited = now["jitterBufferDelay"] - before["jitterBufferDelay"]
    return 1e3 * waited / count if count > 0 else None


def watch(server: ServerProcess, players: Players, args: argparse.Namespace) -> dict[str, Any]:
    session = server.post("/v1/sessions", {"prompt": "a red ball over the sea"})
    player = players.join(server.url + session["whep_url"])
    players.first_frame_ms(player)
    if args.buffer is not None:
        players.page.evaluate(BUFFER, [player, args.buffer])
    players.wait(SETTLE)
    began, turn, seen = time.monotonic(), 0, Offsets()
    mishaps: list[tuple[float, str]] = []
    while (at := time.monotonic() - began) < 60 * args.minutes:
        if not args.calm and at >= EVERY * (turn + 1):
            mishaps.append((at, mishap(turn, server, session["id"], players)))
            turn += 1
        seen.add(time.monotonic() - began, players.inbound(player))
        players.wait(1)
    if args.rows is not None:
        args.rows.write_text(json.dumps({"mishaps": mishaps, "rows": seen.rows}))
    times, played, sent, picture, sound = np.array(seen.rows).T
    return {
        "samples": len(times),
        "played": figures(times, played),
        "sent": figures(times, sent),
        "buffers_ms": {"picture": buffer(picture), "sound": buffer(sound)},
        "mishaps": Counter(name for _, name in mishaps),
    }


def buffer(lengths: Floats) -> dict[str, float]:
    return {name: quantile(list(lengths), q) for name, q in (("p50", 0.5), ("p95", 0.95))}


def figures(times: Floats, offsets: Floats) -> dict[str, Any]:
    slope = float(np.polyfit(times, offsets, 1)[0])
    fifth = max(1, len(times) // 5)
    first, last = (statistics.median(offsets[part]) for part in (slice(fifth), slice(-fifth, None)))
    return {
        "median_ms": round(float(np.median(offsets)), 1),
        "p5_p95_ms": [quantile(list(offsets), 0.05), quantile(list(offsets), 0.95)],
        "drift_ms": round(slope * float(times[-1] - times[0]), 1),
        "last_fifth_minus_first_ms": round(last - first, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=number, default=10.0)
    parser.add_argument("--calm", action="store_true", help="without mishaps")
    parser.add_argument("--buffer", type=number, metavar="MS")
    parser.add_argument("--rows", type=Path, metavar="FILE")
    args = parser.parse_args()
    with served_players(parser) as (server, players):
        found = watch(server, players, args)
        print(json.dumps({"benchmark": "live/sync", "minutes": args.minutes, **found}))


if __name__ == "__main__":
    main()
