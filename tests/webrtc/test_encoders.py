"""Bytes of the encoders: keyframes on demand, parameter sets, rates, 20 ms of sound."""

import av
import numpy as np
import pytest

from onbeat.webrtc.encoders import OpusEncoder, nominal_bitrate, video_encoder


def picture(number: int) -> np.ndarray:
    rows, columns = np.indices((192, 128))
    noise = np.random.default_rng(number).integers(0, 40, (192, 128))
    return ((rows + 2 * columns + 5 * number) % 160 + 30 + noise).astype(np.uint8)


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_keyframes_only_when_asked_even_for_the_same_picture(codec: str) -> None:
    encoder = video_encoder(codec, 400_000)
    same = picture(0)
    got = []
    for number in range(12):
        packets = encoder.encode(same, number * 4500, 20, number in (0, 6))
        assert len(packets) == 1 and packets[0].pts == number * 4500
        got.append(packets[0].is_keyframe)
    assert got == [number in (0, 6) for number in range(12)]


@pytest.mark.parametrize("codec", ["VP8", "H264"])
@pytest.mark.parametrize("fps", [10, 20, 40])
def test_the_rate_holds_at_the_real_frame_rate(codec: str, fps: int) -> None:
    encoder = video_encoder(codec, 400_000)
    sizes = [
        sum(p.size for p in encoder.encode(picture(n), n * 90_000 // fps, fps, n == 0))
        for n in range(3 * fps)
    ]
    rate = 8 * sum(sizes[fps:]) / 2
    assert 0.6 * 400_000 < rate < 1.35 * 400_000, rate


@pytest.mark.parametrize(("codec", "keyframes"), [("VP8", 1), ("H264", 0)])
def test_a_lower_rate_acts_on_the_next_pictures(codec: str, keyframes: int) -> None:
    """libvpx needs a new encoder, hence one keyframe; x264 changes in place."""
    encoder = video_encoder(codec, 600_000)
    sizes, keys = [], []
    for number in range(60):
        if number == 20:
            encoder.bitrate = 200_000
        packets = encoder.encode(picture(number), number * 4500, 20, number == 0)
        sizes.append(sum(p.size for p in packets))
        keys.append(packets[0].is_keyframe)
    assert sum(sizes[40:]) < 0.5 * sum(sizes[10:20]) * 2
    assert sum(keys[1:]) == keyframes


def test_nominal_rate_grows_with_the_picture_within_bounds() -> None:
    assert nominal_bitrate(128, 128, 20) == 400_000
    assert nominal_bitrate(512, 512, 20) < nominal_bitrate(832, 480, 20) <= 4_000_000
    assert nominal_bitrate(4096, 4096, 60) == 4_000_000


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="AV1.*H264.*VP8"):
        video_encoder("AV1", 1)


@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
def test_sound_survives_and_each_packet_is_20_ms(rate: int) -> None:
    encoder = OpusEncoder(rate)
    decoder = av.CodecContext.create("libopus", "r")
    heard = []
    for number in range(25):
        times = (number * rate // 50 + np.arange(rate // 50)) / rate
        tone = (8_000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)
        packets = encoder.encode(tone, number * 960)
        assert [packet.pts for packet in packets] == [number * 960]
        for frame in decoder.decode(av.Packet(bytes(packets[0]))):
            assert frame.samples == 960
            heard.append(frame.to_ndarray().astype(np.float64).reshape(-1))
    loudness = np.sqrt(np.mean(np.concatenate(heard[5:]) ** 2))
    full = 8_000 if np.abs(heard[9]).max() > 2 else 8_000 / 32_768
    assert 0.8 * full / np.sqrt(2) < loudness < 1.2 * full / np.sqrt(2)
