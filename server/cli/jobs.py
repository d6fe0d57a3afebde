"""`onbeat jobs`: jobs of a running server, listed, watched, ended, fetched. Speaks HTTP only."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from onbeat.client import OnbeatClient, Video

app = typer.Typer(help="The jobs of a running server.", no_args_is_help=True)

Server = Annotated[
    str,
    typer.Option("--server", envvar="ONBEAT_SERVER", help="address of the server"),
]
Key = Annotated[
    str | None, typer.Option("--api-key", envvar="ONBEAT_API_KEY", help="its key, if it wants one")
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
Id = Annotated[str, typer.Argument(help="id of a job")]
HERE = "http://127.0.0.1:8000"
SUFFIX = {"thumbnail": ".webp", "spritesheet": ".jpg"}
VARIANTS = ("video", "thumbnail", "spritesheet")
KINDS = {
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "application/zip": ".zip",
    "audio/wav": ".wav",
}


@app.command("list")
def list_jobs(
    limit: Annotated[int, typer.Option(min=1, help="how many at most")] = 20,
    oldest_first: Annotated[bool, typer.Option("--oldest-first")] = False,
    as_json: Json = False,
    server: Server = HERE,
    api_key: Key = None,
) -> None:
    """The newest jobs, one line each."""
    with _client(server, api_key) as client:
        found = list(client.videos.list(limit=limit, order="asc" if oldest_first else "desc"))
    if as_json:
        return print(json.dumps([_plain(video) for video in found]))
    for video in found:
        print(_line(video))


@app.command()
def show(job: Id, as_json: Json = False, server: Server = HERE, api_key: Key = None) -> None:
    """Everything that is known of a job."""
    with _client(server, api_key) as client:
        video = client.videos.get(job)
    if as_json:
        return print(json.dumps(_plain(video)))
    for name, value in _plain(video).items():
        if value not in (None, [], {}, ""):
            print(f"{name:20} {_shown(name, value)}")


@app.command()
def cancel(
    jobs: Annotated[list[str], typer.Argument(help="ids of jobs")],
    server: Server = HERE,
    api_key: Key = None,
) -> None:
    """End jobs that wait or run."""
    with _client(server, api_key) as client:
        for job in jobs:
            print(_line(client.videos.cancel(job)))


@app.command()
def watch(job: Id, server: Server = HERE, api_key: Key = None) -> None:
    """Follow a job until it ends; exit code 1 if it ends without a file."""
    with _client(server, api_key) as client:
        video = _followed(client, job)
    print(_line(video))
    if video.status != "completed":
        raise typer.Exit(1)


@app.command()
def download(
    job: Id,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="file to write; - for standard output")
    ] = None,
    variant: Annotated[str, typer.Option(help="video, thumbnail or spritesheet")] = "video",
    wait: Annotated[bool, typer.Option("--wait", help="wait until the job has ended")] = False,
    server: Server = HERE,
    api_key: Key = None,
) -> None:
    """Fetch the file of a completed job; a broken connection is taken up where it broke."""
    from onbeat.client.download import check_target

    if variant not in VARIANTS:
        raise typer.BadParameter(f"variant: {variant!r}; allowed: {', '.join(VARIANTS)}")
    with _client(server, api_key) as client:
        if out not in (None, "-"):
            check_target(Path(out))  # before the job is waited for
        if wait:
            _followed(client, job).raise_for_failure()
        if out == "-":
            client.videos.download(job, sys.stdout.buffer, variant=variant)  # type: ignore[arg-type]
            sys.stdout.buffer.flush()
            return
        target = Path(out or job + SUFFIX.get(variant, _kind(client, job)))
        with _bytes_bar() as told:
            size = client.videos.download(job, target, variant=variant, progress=told)  # type: ignore[arg-type]
    print(f"{target}: {size} bytes")


# ---- helpers -----------------------------------------------------------------------------------


@contextmanager
def _client(server: str, api_key: str | None) -> Iterator["OnbeatClient"]:
    """A client whose errors are one line and exit code 1."""
    from onbeat.client import ConnectionFailed, OnbeatClient, OnbeatError

    try:
        with OnbeatClient(server, api_key=api_key) as client:
            yield client
    except BrokenPipeError:
        raise typer.Exit(1) from None
    except ConnectionFailed as error:
        hint = "is the server running? --server or ONBEAT_SERVER names its address"
        print(f"onbeat jobs: {error}; {hint}", file=sys.stderr)
        raise typer.Exit(1) from error
    except (OnbeatError, OSError) as error:
        print(f"onbeat jobs: {error}", file=sys.stderr)
        raise typer.Exit(1) from error


def _kind(client: "OnbeatClient", job: str) -> str:
    """The suffix of a job's video, from its type."""
    video = client.videos.get(job)
    return KINDS.get(video.media_type or "video/mp4", ".mp4")


def _plain(video: "Video") -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(video)
    return plain


def _shown(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    return ", ".join(value) if isinstance(value, list) else str(value)


def _line(video: "Video") -> str:
    prompt = " ".join((video.prompt or "").split())
    return f"{video.id}  {_state(video):24} {video.seconds:7.2f} s  {prompt[:60]}"


def _state(video: "Video") -> str:
    match video.status:
        case "queued" if video.queue_position is not None:
            return f"queued, {video.queue_position} in line"
        case "in_progress":
            return f"in progress, {video.progress} %"
        case "failed" if video.error is not None:
            return f"failed: {video.error.code}"
    return video.status


def _followed(client: "OnbeatClient", job: str) -> "Video":
    """The job once it has ended; a bar on a terminal, a line per change of state elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    last = ""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Remaining(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(job, total=100)

        def seen(video: "Video") -> None:
            nonlocal last
            bar.update(task, completed=video.progress, description=_state(video))
            step = f"{video.status} {video.progress // 10} {video.queue_position}"
            if not sys.stderr.isatty() and step != last:
                print(_line(video), file=sys.stderr)
            last = step

        return client.videos.wait(job, seen=seen)


@contextmanager
def _bytes_bar() -> Iterator[Any]:
    """Called with bytes that are there and bytes in all; a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    bar = Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda got, size: bar.update(task, completed=got, total=size)
