"""Times the colour conversion of a chunk of four frames.

Baseline: the libswscale conversion of PyAV, frame by frame (CPU), to and from numpy.
Run: python -m benchmarks.kernels.rgb_to_i420 [--threads N]. Prints one JSON line last.
"""

from functools import partial

import av
import torch
from torch import Tensor

from benchmarks.kernels._timing import arguments, compare, report
from onbeat.kernels.rgb_to_i420 import rgb_to_i420


def swscale(frames: Tensor) -> list[object]:
    pictures = [av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames.numpy()]
    return [picture.reformat(format="yuv420p").to_ndarray() for picture in pictures]


def main() -> None:
    device, results = arguments(), []
    for height, width in ((128, 128), (480, 832)):
        frames = torch.randint(0, 256, (4, height, width, 3), device=device).to(torch.uint8)
        times = compare(partial(rgb_to_i420, frames), partial(swscale, frames.cpu()), device)
        results.append({"height": height, "width": width, **times})
    report("rgb_to_i420", "libswscale through PyAV", device, results)


if __name__ == "__main__":
    main()
