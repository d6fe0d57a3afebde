"""What an hour-long job takes of the server's memory, at a simulated model's speed. JSON line last.

`python -m benchmarks.jobs.long [--seconds 3600] [--format mp4] [--size 128]`

A server of its own process with a synthetic engine that gives chunks as fast as they are taken (at
most 200 a second); journal, segments, encoders and the store of results are those that serve. The
peak is the kernel's own (VmHWM), from the moment before the job is asked for to the end of its
download. It says nothing of the engine's memory: that is another process.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av

from onbeat.client import OnbeatClient
from onbeat.server.cli.flags import one_of, whole
from onbeat.server.jobs.formats import FORMATS

MIB = 1 << 20


def serve(folder: Path, size: int) -> None:
    """Until its input ends. Prints its port."""
    import threading

    import uvicorn

    from onbeat.server.api.app import create_app
    from onbeat.server.config import load_settings
    from tests.server.api import fake_engine
    from tests.server.api.fake_media import FakeMedia

    fake_engine.SIZE = size
    media = FakeMedia()
    settings = load_settings(data_dir=folder, max_video_seconds=3600)
    app = create_app(settings, fake_engine.FakeEngine(), lambda: media)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.05)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    sys.stdin.read()
    server.should_exit = True
    thread.join()


@contextmanager
def server(folder: Path, size: int) -> Iterator[tuple[int, str]]:
    """The process number and the address of a server."""
    command = [sys.executable, "-m", "benchmarks.jobs.long", "--serve", str(folder)]
    with subprocess.Popen(
        [*command, "--size", str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield process.pid, f"http://127.0.0.1:{port}"
        finally:
            process.stdin.close()
            process.wait(60)


def memory(pid: int, what: str) -> float:
    """MiB: "VmRSS" now, "VmHWM" at most since `forget_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == what:
            return int(value.split()[0]) / 1024
    raise LookupError(what)


def forget_peak(pid: int) -> None:
    """The kernel's VmHWM begins anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def measure(folder: Path, seconds: int, format: str, size: int) -> dict[str, Any]:
    """Memory in MiB."""
    out = folder / "result"
    with server(folder / "data", size) as (pid, address), OnbeatClient(address) as client:
        client.models()
        time.sleep(3)
        idle = memory(pid, "VmRSS")
        forget_peak(pid)
        began = time.monotonic()
        made = client.videos.create("a red ball", seconds=seconds, output_format=format)
        video = client.videos.wait(made.id).raise_for_failure()
        took = time.monotonic() - began
        made_peak = memory(pid, "VmHWM")
        size_bytes = client.videos.download(video.id, out)
        peak = memory(pid, "VmHWM")
        left = memory(pid, "VmRSS")
    return {
        "benchmark": "jobs.long",
        "video_seconds": seconds,
        "format": format,
        "size": size,
        "frames": video.num_frames,
        "file_mib": round(size_bytes / MIB, 1),
        "file_seconds": _seconds(out, format),
        "took_s": round(took, 1),
        "idle_mib": round(idle, 1),
        "peak_mib": round(peak, 1),
        "peak_while_made_mib": round(made_peak, 1),
        "after_mib": round(left, 1),
        "peak_over_idle_mib": round(peak - idle, 1),
    }


def _seconds(path: Path, format: str) -> float | None:
    """How long the file plays; None for a zip."""
    if format == "png":
        return None
    with av.open(str(path), "r") as file:
        assert file.duration is not None
        return file.duration / 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description="memory of an hour-long job")
    parser.add_argument("--seconds", type=whole(), default=3600)
    parser.add_argument("--format", type=one_of(FORMATS), default="mp4")
    parser.add_argument("--size", type=whole(16), default=128, help="side of the pictures")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.size)
        return
    with TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), given.seconds, given.format, given.size)))


if __name__ == "__main__":
    main()
