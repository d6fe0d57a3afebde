"""Drives a running server with the official `openai` client, unmodified; any version with `videos`.

Usage: python openai_client_check.py http://127.0.0.1:8000 [--seconds 1] [--jobs 120]
Needs nothing but `openai`; with `av` installed the file is decoded too. Ends with one JSON line;
a failed check is an AssertionError and exit status 1.
"""

import argparse
import functools
import importlib.util
import io
import json
import secrets
import warnings
from typing import Any

import openai
from openai import ConflictError, NotFoundError, OpenAI, UnprocessableEntityError

warnings.filterwarnings("ignore", message="The Sora API", category=DeprecationWarning)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the server, without /v1")
    parser.add_argument("--seconds", default="1", help="length of the videos")
    parser.add_argument("--jobs", type=int, default=0, help="jobs to page through")
    options = parser.parse_args()
    print(json.dumps(check(options.url, options.seconds, options.jobs)))


def check(url: str, seconds: str, jobs: int) -> dict[str, Any]:
    """All checks; what was seen."""
    client = OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    size = client.models.list().data[0].model_extra["sizes"][0]  # type: ignore[index]
    first = made_and_polled(client, seconds, size)
    report = files(client, first, seconds, size)
    second = with_extras(client, seconds)
    third = remixed(client, second)
    paging(client, {first.id, second.id, third.id})
    report["paged"] = paging_through(client, jobs)
    begun_from_a_picture(client, first, seconds)
    sent_twice(client, seconds)
    refusals(client, first.id)
    deleting(client, (first, second, third))
    return report | {"openai": openai.__version__, "checks": "passed"}


def made_and_polled(client: OpenAI, seconds: str, size: str) -> Any:
    video: Any = client.videos.create_and_poll(
        prompt="a red ball on white",
        seconds=seconds,  # type: ignore[arg-type]
        size=size,  # type: ignore[arg-type]
    )
    assert video.status == "completed", video
    assert video.object == "video" and video.progress == 100 and video.error is None
    assert (video.seconds, video.size) == (seconds, size)
    assert isinstance(video.created_at, int) and video.completed_at >= video.created_at
    assert video.inference_time_s > 0 and video.queue_position is None
    assert client.videos.retrieve(video.id).id == video.id
    return video


def files(client: OpenAI, video: Any, seconds: str, size: str) -> dict[str, Any]:
    data = client.videos.download_content(video.id).read()
    assert data[4:8] == b"ftyp" and 0 < data.find(b"moov") < data.find(b"mdat")
    thumbnail = client.videos.download_content(video.id, variant="thumbnail").read()
    assert thumbnail[:4] == b"RIFF" and thumbnail[8:12] == b"WEBP"
    sheet = client.videos.download_content(video.id, variant="spritesheet").read()
    assert sheet[:3] == b"\xff\xd8\xff"
    report = {"bytes": len(data), "decoded": False}
    if importlib.util.find_spec("av") is not None:
        report |= {"decoded": True} | decode(data, float(seconds), size, video.fps)
    return report


def decode(data: bytes, seconds: float, size: str, fps: int) -> dict[str, Any]:
    import av

    with av.open(io.BytesIO(data), "r") as file:
        video, audio = file.streams.video[0], file.streams.audio[0]
        assert (video.codec_context.name, audio.codec_context.name) == ("h264", "aac")
        assert f"{video.width}x{video.height}" == size and video.average_rate == fps
        frames = [frame.to_ndarray(format="gray") for frame in file.decode(video)]
        assert abs((file.duration or 0) / 1e6 - seconds) < 0.06
    assert len(frames) == round(seconds * fps)
    spread = float(frames[0].std())
    moved = float(abs(frames[-1].astype(float) - frames[0].astype(float)).mean())
    assert spread > 1 and moved > 0.1, "the frames are constant"
    return {"frames": len(frames), "spread": round(spread, 2), "moved": round(moved, 2)}


def with_extras(client: OpenAI, seconds: str) -> Any:
    """Extras travel as flat and bracketed form fields, or as JSON on request."""
    extras = {"seed": 77, "generate_audio": False, "metadata": {"shot": "3"}}
    form: Any = client.videos.create(
        prompt="a blue ball",
        seconds=seconds,  # type: ignore[arg-type]
        extra_body=extras,
    )
    assert (form.seed, form.generate_audio, form.metadata) == (77, False, {"shot": "3"})
    poll = client.videos.with_raw_response.retrieve(form.id)
    assert poll.parse().status != "queued" or int(poll.headers["openai-poll-after-ms"]) > 0
    done: Any = client.videos.poll(form.id)
    assert done.status == "completed" and done.seed == 77
    return done


def remixed(client: OpenAI, source: Any) -> Any:
    video: Any = client.videos.remix(source.id, prompt="a green ball")
    assert video.remixed_from_video_id == source.id and video.prompt == "a green ball"
    done: Any = client.videos.poll(video.id)
    assert done.status == "completed" and done.seed == source.seed
    return done


def begun_from_a_picture(client: OpenAI, source: Any, seconds: str) -> None:
    """A file goes as a part of the form; bytes come without a name or a type."""
    if "strength" not in client.models.list().data[0].model_extra["controls"]:  # type: ignore[index]
        return
    picture = client.videos.download_content(source.id, variant="spritesheet").read()
    for given in (picture, ("ball.jpg", picture, "image/jpeg")):
        video: Any = client.videos.create_and_poll(
            prompt="a red ball",
            seconds=seconds,  # type: ignore[arg-type]
            input_reference=given,
        )
        assert video.status == "completed", video
        client.videos.delete(video.id)


def sent_twice(client: OpenAI, seconds: str) -> None:
    """As the client's own retries do after a lost answer."""
    asked: Any = {"prompt": "a ball", "seconds": seconds}
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    ids = {client.videos.create(**asked, extra_headers=headers).id for _ in range(2)}
    assert len(ids) == 1
    client.videos.delete(ids.pop())


def paging_through(client: OpenAI, jobs: int) -> int:
    """Page after page, by the client itself, in both orders: each job once."""
    asked: Any = {"prompt": "a ball", "seconds": "0.2"}
    ids = [client.videos.create(**asked).id for _ in range(jobs)]
    newest = [video.id for video in client.videos.list(limit=50)]
    oldest = [video.id for video in client.videos.list(limit=7, order="asc")]
    assert newest[:jobs] == ids[::-1] and len(newest) == len(set(newest))
    assert oldest == newest[::-1]
    for identifier in ids:
        client.videos.delete(identifier)
    return len(newest)


def paging(client: OpenAI, ids: set[str]) -> None:
    assert ids <= {video.id for video in client.videos.list(limit=1)}, "page after page"
    page = client.videos.list(limit=1, order="asc")
    assert len(page.data) == 1 and page.has_more


def refusals(client: OpenAI, known: str) -> None:
    refused(lambda: client.videos.retrieve("video_0"), NotFoundError, "video_not_found", "id")
    wrong: Any = {"prompt": "a ball", "size": "7x7"}
    refused(
        lambda: client.videos.create(**wrong), UnprocessableEntityError, "invalid_value", "size"
    )
    odd: Any = {"prompt": "a ball", "extra_body": {"cfg": 3}}
    refused(lambda: client.videos.create(**odd), UnprocessableEntityError, "unknown_field", "cfg")
    early: Any = client.videos.create(prompt="a ball", seconds="60")  # type: ignore[arg-type]
    refused(
        lambda: client.videos.download_content(early.id), ConflictError, "video_not_ready", "id"
    )
    client.videos.delete(early.id)
    variant: Any = "gif"
    refused(
        lambda: client.videos.download_content(known, variant=variant),
        UnprocessableEntityError,
        "invalid_value",
        "variant",
    )


def refused(call: Any, kind: type[openai.APIStatusError], code: str, param: str) -> None:
    try:
        call()
    except kind as error:
        assert (error.code, error.param) == (code, param), error
        assert error.type == "invalid_request_error" and error.message
        return
    raise AssertionError(f"not refused: {code}")


def deleting(client: OpenAI, videos: tuple[Any, ...]) -> None:
    for video in videos:
        gone = client.videos.delete(video.id)
        assert gone.deleted and gone.object == "video.deleted" and gone.id == video.id
        again = functools.partial(client.videos.delete, video.id)
        refused(again, NotFoundError, "video_not_found", "id")


if __name__ == "__main__":
    main()
