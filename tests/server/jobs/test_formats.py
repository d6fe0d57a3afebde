"""Every format of a result: all frames, all sound, what made it, and equal bytes each time."""

import hashlib
import io
import json
import wave
import zipfile
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from onbeat.server.jobs.draft import Draft
from onbeat.server.jobs.encode import Pictures, Sound
from onbeat.server.jobs.formats import FORMATS, Format
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.live_writer import LIVE, LiveWriter
from tests.server.api.fake_engine import CHUNK_FRAMES, FPS, SAMPLE_RATE, SIZE

FRAMES = 90
"""More than a segment, and no whole number of chunks."""
PROMPT = "a red ball ü"


def asked(format: Format, *, audio: bool = True) -> JobRequest:
    return JobRequest(
        model="toybox",
        prompt=PROMPT,
        seed=11,
        steps=2,
        frames=FRAMES,
        fps=FPS,
        width=SIZE,
        height=SIZE,
        audio=audio,
        format=format,
    )


def chunk(index: int) -> tuple[Pictures, Sound]:
    """Flat grey that rises by a level each frame; a tone."""
    numbers = np.arange(CHUNK_FRAMES) + index * CHUNK_FRAMES
    frames = np.full((CHUNK_FRAMES, SIZE * 3 // 2, SIZE), 128, np.uint8)
    frames[:, :SIZE] = (40 + numbers)[:, None, None]
    samples = CHUNK_FRAMES * SAMPLE_RATE // FPS
    times = (np.arange(samples) + index * samples) / SAMPLE_RATE
    return frames, (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)


def drafted(target: Path, request: JobRequest) -> bytes:
    with Draft(
        target, request, format=request.format, chunk_frames=CHUNK_FRAMES, sample_rate=SAMPLE_RATE
    ) as draft:
        for index in range(-(-FRAMES // CHUNK_FRAMES)):
            draft.write(*chunk(index))
        draft.finish()
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    return target.read_bytes()


def streamed(request: JobRequest) -> bytes:
    out = io.BytesIO()
    with LiveWriter(out, request, SAMPLE_RATE, request.format) as writer:
        for index in range(-(-FRAMES // CHUNK_FRAMES)):
            writer.write(*chunk(index))
        writer.finish()
    return out.getvalue()


def check_pictures(data: bytes) -> None:
    with av.open(io.BytesIO(data), "r") as file:
        tick = file.streams.video[0].time_base
        assert tick is not None
        shown = list(file.decode(video=0))
        times = [float(frame.pts * tick) for frame in shown if frame.pts is not None]
        greys = [frame.to_ndarray(format="yuv420p")[:SIZE].mean() for frame in shown]
    assert times == pytest.approx([n / FPS for n in range(FRAMES)], abs=0.001)
    assert greys == pytest.approx([40 + n for n in range(FRAMES)], abs=1.5)


def check_sound(data: bytes, slack: float) -> None:
    with av.open(io.BytesIO(data), "r") as file:
        rate = file.streams.audio[0].rate
        resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
        heard = [f for frame in file.decode(audio=0) for f in resampler.resample(frame)]
        sound = np.concatenate([frame.to_ndarray()[0] for frame in heard]).astype(float)
    assert len(sound) / rate == pytest.approx(FRAMES / FPS, abs=slack)
    middle = sound[rate : 2 * rate]
    assert np.argmax(np.abs(np.fft.rfft(middle))) == pytest.approx(440, abs=1)


def check_tags(data: bytes) -> None:
    with av.open(io.BytesIO(data), "r") as file:
        tags = {name.lower(): value for name, value in file.metadata.items()}
    assert tags["title"] == PROMPT
    assert tags["comment"] == "onbeat model=toybox seed=11 steps=2"


@pytest.mark.parametrize("format", FORMATS)
def test_equal_chunks_give_equal_files(format: Format, tmp_path: Path) -> None:
    sums = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        data = drafted(tmp_path / name / "x", asked(format))
        sums.add(hashlib.sha256(data).hexdigest())
    assert len(sums) == 1


@pytest.mark.parametrize("format", ["mp4", "webm"])
def test_a_video_has_every_frame_its_sound_and_its_tags(format: Format, tmp_path: Path) -> None:
    data = drafted(tmp_path / "x", asked(format))
    check_pictures(data)
    check_sound(data, slack=0.06)
    check_tags(data)
    with av.open(io.BytesIO(data), "r") as file:
        codecs = [stream.codec_context.name for stream in file.streams]
    assert codecs == {"mp4": ["h264", "aac"], "webm": ["libvpx-vp9", "opus"]}[format] or (
        codecs == ["vp9", "opus"]
    )
    if format == "mp4":
        assert data.find(b"moov") < data.find(b"mdat"), "the index comes first"
    else:
        assert data.find(b"\x1c\x53\xbb\x6b") < data.find(b"\x1f\x43\xb6\x75"), "cues come first"


def test_without_sound_there_is_no_track(tmp_path: Path) -> None:
    for format in ("mp4", "webm"):
        data = drafted(tmp_path / "x", asked(format, audio=False))
        with av.open(io.BytesIO(data), "r") as file:
            assert [stream.type for stream in file.streams] == ["video"]
    with zipfile.ZipFile(io.BytesIO(drafted(tmp_path / "x", asked("png", audio=False)))) as file:
        assert "sound.wav" not in file.namelist()


def test_a_zip_has_pictures_sound_and_what_made_them(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(drafted(tmp_path / "x", asked("png")))) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert names[:FRAMES] == [f"frames/{n:06}.png" for n in range(1, FRAMES + 1)]
        made = json.loads(file.read("generation.json"))
        assert (made["prompt"], made["seed"], made["steps"]) == (PROMPT, 11, 2)
        for index in (0, 50, FRAMES - 1):
            picture = Image.open(io.BytesIO(file.read(names[index])))
            expected = (40 + index - 16) * 255 / 219  # limited to full range
            assert picture.mode == "RGB" and picture.size == (SIZE, SIZE)
            assert np.asarray(picture).mean() == pytest.approx(expected, abs=2)
        with wave.open(io.BytesIO(file.read("sound.wav"))) as sound:
            assert sound.getnframes() == FRAMES * SAMPLE_RATE // FPS
            first = np.frombuffer(sound.readframes(100), "<i2")
    assert np.array_equal(first, chunk(0)[1][:100])


def test_a_wave_is_the_sound_to_the_bit(tmp_path: Path) -> None:
    data = drafted(tmp_path / "x", asked("wav"))
    check_tags(data)
    with wave.open(io.BytesIO(data)) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (SAMPLE_RATE, 1)
        heard = np.frombuffer(sound.readframes(10**9), "<i2")
    made = np.concatenate([chunk(index)[1] for index in range(23)])
    assert np.array_equal(heard, made[: FRAMES * SAMPLE_RATE // FPS])


@pytest.mark.parametrize("format", LIVE)
def test_a_stream_plays_while_it_grows(format: Format) -> None:
    data = streamed(asked(format))
    check_tags(data)
    check_sound(data, slack=0.1)
    if format == "wav":
        return
    check_pictures(data)
    cut = data[: len(data) // 2]
    with av.open(io.BytesIO(cut), "r") as file:
        shown = 0
        try:
            for _ in file.decode(video=0):
                shown += 1
        except av.error.FFmpegError:
            pass
    assert shown > FRAMES // 4, "half of it shows what it has"


class Closed(io.BytesIO):
    """A reader who leaves after so many bytes."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        if self.tell() > 2000:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(data)


def test_a_reader_who_leaves_ends_it() -> None:
    request = asked("mp4")
    with pytest.raises(BrokenPipeError), LiveWriter(Closed(), request, SAMPLE_RATE, "mp4") as out:
        for index in range(23):
            out.write(*chunk(index))
        out.finish()


def test_a_draft_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        Draft(
            tmp_path / "x.mp4",
            asked("mp4"),
            format="mp4",
            chunk_frames=CHUNK_FRAMES,
            sample_rate=SAMPLE_RATE,
        ) as draft,
    ):
        draft.write(*chunk(0))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
