"""How long until a browser shows the first frame: a running session, and a new one. JSON line last.

`python -m benchmarks.live.join [--joins 50] [--new 20]`

Headless Chromium on loopback against a real server with the embedded model, which is warm. From the
POST of the offer to the first presented frame; new sessions have a prompt that was never seen.
"""

import argparse
import json
from typing import Any
from urllib.parse import quote

from benchmarks.live.browser import Players, served_players
from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import whole
from tests.e2e.server_process import ServerProcess

COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "white")
THINGS = ("ball", "ring", "star", "heart")


def figures(times: list[float]) -> dict[str, float]:
    return {"p50": quantile(times, 0.5), "p95": quantile(times, 0.95), "max": quantile(times, 1)}


def end_others(server: ServerProcess, kept: str) -> None:
    """So that each new session finds the same room."""
    for session in server.get("/v1/overview")["sessions"]:
        if session["id"] != kept:
            server.delete(f"/v1/sessions/{session['id']}")


def measure(players: Players, server: ServerProcess, joins: int, new: int) -> dict[str, Any]:
    session = server.post("/v1/sessions", {"prompt": "a red ball over the sea"})
    url = server.url + session["whep_url"]
    keeper = players.join(url)
    players.first_frame_ms(keeper)
    running = []
    for turn in range(joins):
        players.wait(0.11 + 0.029 * (turn % 5))
        number = players.join(url)
        running.append(players.first_frame_ms(number))
        players.leave(number)
    fresh = []
    for turn in range(new):
        prompt = f"a {COLOURS[turn % 7]} {THINGS[turn % 4]} number {turn}"
        number = players.join(f"{server.url}/whep?prompt={quote(prompt)}")
        fresh.append(players.first_frame_ms(number))
        players.leave(number)
        end_others(server, session["id"])
        players.wait(0.3)
    return {"running_ms": figures(running), "new_ms": figures(fresh), "joins": joins, "new": new}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--joins", type=whole(), default=50)
    parser.add_argument("--new", type=whole(), default=20)
    args = parser.parse_args()
    with served_players(parser) as (server, players):
        found = measure(players, server, args.joins, args.new)
        print(json.dumps({"benchmark": "live/join", **found}))


if __name__ == "__main__":
    main()
