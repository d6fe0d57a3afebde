"""`onbeat generate`: a prompt to a file or to a player, on the real engine inside this process."""

import math
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from onbeat.server.cli.rendering import shown_progress

if TYPE_CHECKING:
    from onbeat.models.spec import ModelSpec
    from onbeat.server.engine.client import ChunkPayload
    from onbeat.server.engine.local import LocalEngine
    from onbeat.server.engine.messages import ChunkReady, OpenStream
    from onbeat.server.jobs.encode import Pictures, Sound
    from onbeat.server.jobs.formats import Format
    from onbeat.server.jobs.job import JobRequest

MAX_SECONDS = 3600.0
MAX_SEED = 2**63 - 1
EVENT_TIMEOUT = 120.0
PIPE = "-"
SUFFIXES: dict[str, "Format"] = {".mp4": "mp4", ".webm": "webm", ".zip": "png", ".wav": "wav"}


class Writer(Protocol):
    """Where chunks go."""

    def write(self, frames: "Pictures", audio: "Sound") -> None: ...

    def finish(self) -> None: ...


def generate(
    prompt: Annotated[str, typer.Argument(help="what to show")],
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="file to write (.mp4, .webm, .zip, .wav); - for a pipe"),
    ],
    seconds: Annotated[float, typer.Option(help="length")] = 4.0,
    seed: Annotated[int | None, typer.Option(help="0 to 2^63 - 1; random if absent")] = None,
    steps: Annotated[int | None, typer.Option(help="steps of each chunk")] = None,
    model: Annotated[str, typer.Option(help="registered model")] = "toybox",
    reference: Annotated[
        Path | None, typer.Option(help="picture or short video that it goes on from")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="mp4, webm, png or wav; absent: as the file's name ends")
    ] = None,
) -> None:
    """Render a prompt to a file: MP4 (H.264, AAC), WebM (VP9, Opus), PNG frames in a zip, or WAV.

    With `-o -` the video goes to standard output while it is made: `onbeat generate "a red ball"
    -o - | ffplay -`.
    """
    from onbeat.models.registry import load_model
    from onbeat.server.engine.local import LocalEngine

    kind = _format(out, format)
    if seed is None:
        seed = secrets.randbelow(MAX_SEED + 1)
    loaded = load_model(model)
    media = None if reference is None else _reference(loaded.spec, reference)
    request = _request(loaded.spec, prompt, seconds, seed, steps, kind)
    if out != PIPE:
        _check_target(Path(out))
    engine = LocalEngine(loaded)
    engine.start()
    try:
        recognised = _write(engine, loaded.spec, request, out, media)
    finally:
        engine.close()
    words = ", ".join(recognised) or "no word of the prompt"
    told = sys.stderr if out == PIPE else sys.stdout
    print(f"{out}: {request.seconds:.1f} s, seed {seed}, understood: {words}", file=told)


def _format(out: str, given: str | None) -> "Format":
    """What is written; raises typer.BadParameter naming the flag."""
    from onbeat.server.jobs.formats import FORMATS
    from onbeat.server.jobs.live_writer import LIVE

    allowed = LIVE if out == PIPE else FORMATS
    if given is not None and given not in allowed:
        words = ", ".join(allowed) + (" for a pipe" if out == PIPE else "")
        raise typer.BadParameter(f"format: {given!r}; allowed: {words}")
    by_name = SUFFIXES.get(Path(out).suffix.lower())
    for known in FORMATS:
        if known == given:
            return known
    if out == PIPE:
        return "mp4"
    if by_name is None:
        raise typer.BadParameter(f"out: {out} ends in none of {', '.join(SUFFIXES)}; use --format")
    return by_name


def _check_target(out: Path) -> None:
    """Raises typer.BadParameter before anything is made if the file cannot be written."""
    if not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"out: the folder {out.absolute().parent} does not exist")
    part = out.with_name(out.name + ".part")
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise typer.BadParameter(f"out: {out} cannot be written ({error.strerror})") from error


def _request(
    spec: "ModelSpec",
    prompt: str,
    seconds: float,
    seed: int,
    steps: int | None,
    format: "Format",
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
    return JobRequest(
        model=spec.name,
        prompt=prompt,
        seed=seed,
        steps=steps or spec.default_steps,
        frames=max(1, round(seconds * spec.fps)),
        fps=spec.fps,
        width=spec.width,
        height=spec.height,
        format=format,
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


def _write(
    engine: "LocalEngine",
    spec: "ModelSpec",
    request: "JobRequest",
    out: str,
    reference: bytes | None,
) -> list[str]:
    """Runs the stream into a file or a pipe; returns the recognised words."""
    from onbeat.server.engine.messages import OpenStream
    from onbeat.server.engine.streams import all_steps

    chunks = -(-request.frames // spec.chunk_frames)
    steps = all_steps(chunks, request.steps, spec)
    command = OpenStream(
        stream_id="generate",
        kind="job",
        prompt=request.prompt,
        seed=request.seed,
        steps=request.steps,
        total_chunks=chunks,
        reference=reference,
    )
    recognised: list[str] = []
    try:
        with _writer(spec, request, out) as writer:
            with shown_progress(chunks, steps, spec.chunk_frames, spec.fps) as advance:
                _run(engine, command, writer, recognised, advance)
            writer.finish()
    except BrokenPipeError:
        sys.stdout = None  # nothing is left to flush into it
        _fail("the reader of the pipe has gone")
    except OSError as error:
        _fail(f"{out} cannot be written: {error.strerror}")
    return recognised


@contextmanager
def _writer(spec: "ModelSpec", request: "JobRequest", out: str) -> Iterator[Writer]:
    if out == PIPE:
        from onbeat.server.jobs.live_writer import LiveWriter

        with LiveWriter(sys.stdout.buffer, request, spec.sample_rate, request.format) as live:
            yield live
    else:
        from onbeat.server.jobs.draft import Draft

        with Draft(
            Path(out).absolute(),
            request,
            format=request.format,
            chunk_frames=spec.chunk_frames,
            sample_rate=spec.sample_rate,
        ) as draft:
            yield draft


def _run(
    engine: "LocalEngine",
    command: "OpenStream",
    writer: Writer,
    recognised: list[str],
    advance: Callable[[int], None],
) -> None:
    for event, payload in _chunks(engine, command, recognised):
        writer.write(payload.frames, payload.audio)
        advance(event.steps)


def _chunks(
    engine: "LocalEngine", command: "OpenStream", recognised: list[str]
) -> Iterator[tuple["ChunkReady", "ChunkPayload"]]:
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
                yield event, engine.take(event)
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
