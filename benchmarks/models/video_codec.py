"""The video codec of toybox by itself: fidelity, motion, and milliseconds per frame on one thread.

Run: python -m benchmarks.models.video_codec WEIGHTS, with the model.safetensors of `onbeat train
toybox --stage ae`. Prints one line of JSON. What it is not: quality of generation (`onbeat
quality`).
"""

import copy
import json
import sys
import time
from pathlib import Path
from statistics import median

import torch
from safetensors.torch import load_file

from onbeat.models.toybox.quality_codec import measure_codec
from onbeat.models.toybox.video_codec import VideoCodec, prepare_to_serve

REPEATS = 100


def decode_ms(codec: VideoCodec, frames: int = 4) -> float:
    """Median milliseconds per frame of decoding one chunk."""
    latents, state, times = torch.randn(1, frames, 16, 8, 8), codec.new_state(), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        codec.decode(latents, state)
        times.append(time.perf_counter() - began)
    return 1000.0 * median(times) / frames


def main(weights: Path) -> None:
    torch.set_num_threads(1)
    codec = VideoCodec().eval()
    codec.load_state_dict(load_file(weights))
    served = prepare_to_serve(copy.deepcopy(codec))
    with torch.inference_mode():
        figures = measure_codec(codec) | {
            f"served_{k}": v for k, v in measure_codec(served).items()
        }
        figures["decode_ms_per_frame"] = decode_ms(served)
    print(json.dumps({k: round(v, 3) for k, v in figures.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
