"""How good the video codec is on unseen scenes: fidelity, and motion frame by frame.

What it is: PSNR over whole frames and over object pixels, and how far the steps of an object
between neighbouring frames are from the truth. What it is not: about generation.
"""

import math

import numpy as np
import torch
from torch import Tensor

from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.video_codec import VideoCodec

UNSEEN_SEED = 2**41
CHUNKS = 3


def psnr(got: Tensor, want: Tensor, weights: Tensor) -> float:
    """dB of frames in -1..1 [n, 3, h, w] against truth, pixels weighted by weights [n, 1, h, w]."""
    error = ((got - want).square() * weights).sum() / (3.0 * weights.sum())
    return -10.0 * math.log10(float(error) / 4.0)


def to_float(pixels: Tensor) -> Tensor:
    """uint8 [..., h, w, 3] -> float in -1..1 [..., 3, h, w]."""
    return pixels.movedim(-1, -3).float().div(127.5).sub(1.0).contiguous()


def to_pixels(frames: Tensor) -> Tensor:
    """Float in -1..1 [..., 3, h, w] -> uint8 [..., h, w, 3]."""
    return frames.add(1.0).mul(127.5).round().to(torch.uint8).movedim(-3, -1)


@torch.inference_mode()
def measure_codec(codec: VideoCodec, clips: int = 32) -> dict[str, float]:
    """psnr, psnr_object (dB), step_error_px and step_error_px_worst: the mean over all steps, and
    over those of the worst clip, of the error of an object's steps."""
    batch = sample_scenes(UNSEEN_SEED, clips, CHUNKS, change_probability=0.0, one_object=True)
    pixels, masks = render(batch, 0, CHUNKS * 4)
    truth, weights = to_float(pixels), masks[:, :, None]
    got = torch.cat([codec.decode(codec.encode(t[None]), codec.new_state()) for t in truth])
    errors = []
    for clip, want in zip(to_pixels(got), pixels, strict=True):
        steps = np.diff(detect(clip).centres, axis=0) - np.diff(detect(want).centres, axis=0)
        errors.append(float(np.nanmean(np.hypot(*steps.T))))
    flat = [x.flatten(0, 1) for x in (got, truth, weights)]
    return {
        "psnr": psnr(flat[0], flat[1], torch.ones_like(flat[2])),
        "psnr_object": psnr(*flat),
        "step_error_px": float(np.mean(errors)),
        "step_error_px_worst": float(np.max(errors)),
    }
