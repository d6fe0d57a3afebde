"""`onbeat generate`: a prompt to an MP4 file, on the real engine inside this process."""

import math
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from onbeat.models.spec import ModelSpec
    from onbeat.server.engine.client import ChunkPayload
    from onbeat.server.engine.local import LocalEngine
    from onbeat.server.engine.messages import OpenStream
    from onbeat.server.jobs.job import JobRequest

MAX_SECONDS = 3600.0
MAX_SEED = 2**63 - 1
EVENT_TIMEOUT = 120.0


def generate(
    prompt: Annotated[str, typer.Argument(help="what to show")],
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write (.mp4)")],
    seconds: Annotated[float, typer.Option(help="length")] = 4.0,
    seed: Annotated[int | None, typer.Option(help="0 to 2^63 - 1; random if absent")] = None,
    steps: Annotated[int | None, typer.Option(help="steps of each chunk")] = None,
    model: Annotated[str, typer.Option(help="registered model")] = "toybox",
    reference: Annotated[
        Path | None, typer.Option(help="picture or short video that it goes on from")
    ] = None,
) -> None:
    """Render a prompt to an MP4 file (H.264 and AAC)."""
    from onbeat.models.registry import load_model
    from onbeat.server.engine.local import LocalEngine

    if seed is None:
        seed = secrets.randbelow(MAX_SEED + 1)
    loaded = load_model(model)
    media = None if reference is None else _reference(loaded.spec, reference)
    request = _request(loaded.spec, prompt, seconds, seed, steps, out)
    engine = LocalEngine(loaded)
    engine.start()
    try:
        recognised = _write(engine, loaded.spec, request, out, media)
    finally:
        engine.close()
    words = ", ".join(recognised) or "no word of the prompt"
    print(f"{out}: {request.seconds:.1f} s, seed {seed}, understood: {words}")


def _request(
    spec: "ModelSpec", prompt: str, seconds: float, seed: int, steps: int | None, out: Path
) -> "JobRequest":
    """Checks the flags; raises typer.BadParameter naming flag, value and what is allowed."""
    from onbeat.server.jobs.job import JobRequest

    if not prompt.strip():
        raise typer.BadParameter(f"prompt: {prompt!r} is blank; allowed: 1 to 2000 characters")
    if len(prompt) > 2000:
        raise typer.BadParameter(f"prompt: {len(prompt)} characters; allowed: 1 to 2000")
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise typer.BadParameter(f"seconds: {seconds}; allowed: above 0, at most {MAX_SECONDS:g}")
    if not 0 <= seed <= MAX_SEED:
        raise typer.BadParameter(f"seed: {seed}; allowed: 0 to {MAX_SEED}")
    if steps is not None and not 1 <= steps <= spec.max_steps:
        raise typer.BadParameter(f"steps: {steps}; allowed: 1 to {spec.max_steps}")
    if out.suffix.lower() != ".mp4":
        raise typer.BadParameter(f"out: {out} does not end in .mp4; allowed: an .mp4 file")
    if not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"out: the folder {out.absolute().parent} does not exist")
    try:
        _part(out).touch()
    except OSError as error:
        raise typer.BadParameter(f"out: {out} cannot be written ({error.strerror})") from error
    return JobRequest(
        model=spec.name,
        prompt=prompt,
        seed=seed,
        steps=steps or spec.default_steps,
        frames=max(1, round(seconds * spec.fps)),
        fps=spec.fps,
        width=spec.width,
        height=spec.height,
    )


def _reference(spec: "ModelSpec", path: Path) -> bytes:
    """The packed media of a file; raises typer.BadParameter naming what is wrong with it."""
    from onbeat.server.jobs.reference_file import BadReference, read_reference

    try:
        return read_reference(
            path.read_bytes(),
            width=spec.width,
            height=spec.height,
            fps=spec.fps,
            sample_rate=spec.sample_rate,
        )
    except OSError as error:
        raise typer.BadParameter(f"reference: {path} cannot be read ({error.strerror})") from error
    except BadReference as error:
        raise typer.BadParameter(str(error)) from error


def _part(out: Path) -> Path:
    """Where the file grows until it is complete."""
    return out.with_name(out.name + ".part")


def _write(
    engine: "LocalEngine",
    spec: "ModelSpec",
    request: "JobRequest",
    out: Path,
    reference: bytes | None,
) -> list[str]:
    """Runs the stream into `<out>.part`, then renames it; returns the recognised words."""
    from onbeat.server.engine.messages import OpenStream
    from onbeat.server.jobs.encode import Mp4Writer

    chunks = -(-request.frames // spec.chunk_frames)
    command = OpenStream(
        stream_id="generate",
        kind="job",
        prompt=request.prompt,
        seed=request.seed,
        steps=request.steps,
        total_chunks=chunks,
        reference=reference,
    )
    part = _part(out)
    recognised: list[str] = []
    try:
        with Mp4Writer(part, request, spec.sample_rate) as writer, _progress() as progress:
            task = progress.add_task("generating", total=chunks)
            for payload in _chunks(engine, command, recognised):
                writer.write(payload.frames, payload.audio)
                progress.advance(task)
            writer.finish()
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return recognised


def _chunks(
    engine: "LocalEngine", command: "OpenStream", recognised: list[str]
) -> Iterator["ChunkPayload"]:
    """The chunks of one stream in order. Exits with a message if the engine fails."""
    from onbeat.server.engine.messages import (
        ChunkReady,
        EngineDown,
        StreamEnded,
        StreamOpened,
        StreamRefused,
    )

    engine.send(command)
    while True:
        match engine.receive(EVENT_TIMEOUT):
            case StreamOpened() as opened:
                recognised.extend(opened.recognised)
            case ChunkReady() as event:
                yield engine.take(event)
            case StreamEnded(reason="finished"):
                return
            case StreamEnded() as ended:
                _fail(ended.error or ended.reason)
            case StreamRefused() | EngineDown() as event:
                _fail(event.reason)
            case None:
                _fail(f"the engine said nothing for {EVENT_TIMEOUT:.0f} s")
            case _:
                pass


def _fail(reason: str) -> None:
    print(f"onbeat generate: {reason}", file=sys.stderr)
    raise typer.Exit(1)


def _progress() -> Progress:
    """A bar on a terminal; silent elsewhere."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("chunks"),
        TimeRemainingColumn(),
        disable=not sys.stderr.isatty(),
    )
