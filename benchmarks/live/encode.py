"""What a picture costs to encode, and what each further viewer costs. One JSON line last.

`python benchmarks/live/encode.py [--size 128] [--fps 20] [--seconds 6] [--viewers 1 2 4 8]`

Encoders run alone on one thread over moving, noisy pictures. The cost of viewers is the processor
time of this process per second of stream, receivers being in other processes that drop what they
get; the first differences between the counts are the price of one more viewer. A busy machine
makes times longer; processor time is what the machine charged, not the wall clock.
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
import numpy.typing as npt
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtcrtpreceiver import RTCRtpReceiver

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool, OpusEncoder, nominal_bitrate, video_encoder
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings

CHUNK = 4


def pictures(size: int, count: int) -> npt.NDArray[np.uint8]:
    """Discs over a gradient with grain: I420 [count, size * 3 // 2, size]."""
    rows, columns = np.ogrid[: size * 3 // 2, :size]
    shape = (count, size * 3 // 2, size)
    out = np.random.default_rng(0).integers(60, 66, shape, dtype=np.uint8)
    out += ((rows + columns) * 60 // size).astype(np.uint8)
    for number in range(count):
        x, y = size // 2 + size // 3 * np.array([np.cos(number / 9), np.sin(number / 7)])
        out[number][(columns - x) ** 2 + (rows - y) ** 2 < (size / 8) ** 2] = 200
    return out


def encode_cost(codec: str, size: int, fps: int) -> dict[str, float]:
    """Milliseconds of processor time per picture, and the bits per second that came out."""
    encoder = video_encoder(codec, nominal_bitrate(size, size, fps))
    frames = pictures(size, 200)
    encoder.encode(frames[0], 0, fps, True)
    times, bits = [], 0
    for number in range(1, 200):
        started = time.thread_time()
        packets = encoder.encode(frames[number], number * 90_000 // fps, fps, False)
        times.append(1e3 * (time.thread_time() - started))
        bits += 8 * sum(packet.size for packet in packets)
    return {
        "ms_p50": round(float(np.percentile(times, 50)), 3),
        "ms_p95": round(float(np.percentile(times, 95)), 3),
        "kbit_s": round(bits * fps / 199 / 1e3),
    }


def opus_cost() -> float:
    """Milliseconds of processor time per 20 ms of 24 kHz sound."""
    encoder = OpusEncoder(24_000)
    noise = np.random.default_rng(1).integers(-9_000, 9_000, (250, 480)).astype(np.int16)
    started = time.thread_time()
    for number, samples in enumerate(noise):
        encoder.encode(samples, number * 960)
    return round(1e3 * (time.thread_time() - started) / 250, 3)


async def receive(pipe: Connection) -> None:
    """One receiver that drops every packet after its statistics."""

    async def drop(self: RTCRtpReceiver, packet: object, arrival_time_ms: int) -> None:
        return None

    RTCRtpReceiver._handle_rtp_packet = drop  # type: ignore[method-assign]
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in ("audio", "video"):
        pc.addTransceiver(kind, direction="recvonly")
    await pc.setLocalDescription(await pc.createOffer())
    pipe.send(pc.localDescription.sdp)
    answer = await asyncio.to_thread(pipe.recv)
    await pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await asyncio.to_thread(pipe.recv)
    await pc.close()


def receiver_process(pipe: Connection) -> None:
    asyncio.run(receive(pipe))


class Audience:
    """Receivers in processes of their own, all watching `broadcast`."""

    def __init__(self, broadcast: Broadcast, codec: str) -> None:
        self._broadcast = broadcast
        self._settings = PeerSettings(video_codecs=(codec,), silence_deadline=600)
        self._members: list[tuple[Connection, BaseProcess, Peer]] = []

    async def add(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=receiver_process, args=(theirs,))
        process.start()
        offer = await asyncio.to_thread(ours.recv)
        peer = await answer_offer(offer, self._broadcast, settings=self._settings)
        ours.send(peer.answer)
        self._members.append((ours, process, peer))

    async def leave(self) -> None:
        for pipe, process, peer in self._members:
            pipe.send("stop")
            await peer.close()
            await asyncio.to_thread(process.join)


async def watch(codec: str, viewers: int, size: int, fps: int, seconds: float) -> dict[str, float]:
    """Share of a core that this process used while `viewers` watched one broadcast."""
    pool = EncoderPool()
    broadcast = Broadcast(width=size, height=size, fps=fps, sample_rate=24_000, encoders=pool)
    source = asyncio.create_task(push(broadcast, size, fps))
    audience = Audience(broadcast, codec)
    for _ in range(viewers):
        await audience.add()
    async with asyncio.timeout(20):
        while broadcast.stats().viewers < viewers:
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    measured = await measure(broadcast, seconds)
    await audience.leave()
    source.cancel()
    broadcast.close()
    pool.close()
    return {"viewers": viewers, **measured}


async def measure(broadcast: Broadcast, seconds: float) -> dict[str, float]:
    before, used, wall = broadcast.stats(), time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    used, wall = time.process_time() - used, time.monotonic() - wall
    after = broadcast.stats()
    due = max(1, after.frames_due - before.frames_due)
    return {
        "core_percent": round(100 * used / wall, 2),
        "on_time_ratio": round((after.frames_on_time - before.frames_on_time) / due, 4),
        "send_ms_p50": round(after.send_ms.p50, 3),
        "lateness_ms_p95": round(after.lateness_ms.p95, 2),
    }


async def push(broadcast: Broadcast, size: int, fps: int) -> None:
    frames = pictures(size, 40 * CHUNK).reshape(40, CHUNK, size * 3 // 2, size)
    sound = np.random.default_rng(1).integers(-900, 900, 24_000 * CHUNK // fps).astype(np.int16)
    first, index = time.monotonic() + 0.2, 0
    while True:
        due = first + index * CHUNK / fps
        await asyncio.sleep(max(0.0, due - 0.15 - time.monotonic()))
        broadcast.push(
            MediaChunk(
                index=index,
                frames=frames[index % 40],
                audio=sound,
                fps=fps,
                sample_rate=24_000,
                playout_at=due,
            )
        )
        index += 1


def report(codec: str, args: argparse.Namespace) -> dict[str, object]:
    cost = encode_cost(codec, args.size, args.fps)
    print(f"{codec}: {cost}")
    runs = []
    for viewers in args.viewers:
        runs.append(asyncio.run(watch(codec, viewers, args.size, args.fps, args.seconds)))
        print(f"{codec}: {runs[-1]}", flush=True)
    more = runs[-1]["viewers"] - runs[0]["viewers"]
    extra = (runs[-1]["core_percent"] - runs[0]["core_percent"]) / more if more else None
    return {"encode": cost, "shared": runs, "core_percent_per_extra_viewer": extra}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--fps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--viewers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--codecs", nargs="+", default=["VP8", "H264"])
    args = parser.parse_args()
    figures: dict[str, object] = {codec: report(codec, args) for codec in args.codecs}
    head = {"benchmark": "live/encode", "size": args.size, "fps": args.fps}
    print(json.dumps({**head, "opus_ms_per_20ms": opus_cost(), **figures}))


if __name__ == "__main__":
    main()
