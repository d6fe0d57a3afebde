"""Plain WHEP players in their own process: `python -m tests.e2e.whep_clients URL SECONDS PROMPT...`

Each posts an offer to /whep, receives sound and picture for a while without decoding, and reports
(one JSON line for all): how far apart the first packets of both came, and how far apart packets of
one media instant come, by the sender's own reports, early and late in the run. Milliseconds.
"""

import asyncio
import json
import statistics
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from aiortc import RTCSessionDescription

from tests.webrtc.conftest import Receiver

NTP_PER_SECOND = 2**32
TRIES = 8
RATES = {"audio": 48_000, "video": 90_000}


def post(url: str, offer: str, tries: int = TRIES) -> tuple[str, str]:
    """The answer, and the address of the resource that ends it. A full server is asked again, as
    its Retry-After says."""
    headers = {"Content-Type": "application/sdp"}
    request = urllib.request.Request(url, offer.encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:
            location = urllib.parse.urljoin(url, answer.headers["Location"])
            return answer.read().decode(), location
    except urllib.error.HTTPError as error:
        if error.code != 503 or tries == 1:
            raise
        time.sleep(float(error.headers["Retry-After"]))
    return post(url, offer, tries - 1)


def delete(url: str) -> None:
    request = urllib.request.Request(url, method="DELETE")
    urllib.request.urlopen(request, timeout=100).close()


async def play(url: str, prompt: str, seconds: float) -> dict[str, float]:
    receiver = Receiver(("audio", "video"), "VP8", None)
    address = f"{url}/whep?prompt={urllib.parse.quote(prompt)}"
    answer, location = await asyncio.to_thread(post, address, await receiver.offer())
    await receiver.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await asyncio.sleep(seconds)
    await asyncio.to_thread(delete, location)
    await receiver.pc.close()
    return report(receiver)


def lags(receiver: Any, kind: str) -> list[float]:
    """Arrival minus media instant (by the last sender report) of each packet, seconds."""
    ntp, reference = receiver.clocks[kind][-1]
    found = []
    for packet in receiver.packets[kind]:
        ticks = (packet.timestamp - reference + 2**31) % 2**32 - 2**31
        found.append(packet.at - (ntp / NTP_PER_SECOND + ticks / RATES[kind]))
    return found


def report(receiver: Any) -> dict[str, float]:
    sound, picture = lags(receiver, "audio"), lags(receiver, "video")
    first = {kind: packets[0].at for kind, packets in receiver.packets.items()}
    half = {"early": slice(None, 100), "late": slice(-100, None)}
    apart = {
        f"{name}_apart_ms": 1000 * (statistics.median(picture[s]) - statistics.median(sound[s]))
        for name, s in half.items()
    }
    return {
        "start_apart_ms": 1000 * (first["video"] - first["audio"]),
        **apart,
        "pictures": len({p.timestamp for p in receiver.packets["video"]}),
        "sounds": len(receiver.packets["audio"]),
    }


async def main(url: str, seconds: float, prompts: list[str]) -> None:
    print(json.dumps(await asyncio.gather(*(play(url, prompt, seconds) for prompt in prompts))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
