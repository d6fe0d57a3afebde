"""Where noise is used, as keys: a draw is a pure function of its key and of nothing else.

There is no generator object and nothing to advance, so a result does not depend on batch mates, on
the point of resumption or on the order of calls.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from onbeat.kernels.philox_normal import KEY_COLUMNS, philox_normal

INITIAL = 0
"""Step id of the noise that a chunk starts from; the noise after evaluation i has id i + 1."""
COMMIT = 0xFFFF
"""Step id of the noise under which a finished chunk is committed to the cache."""

_LIMITS = {"seed": 63, "stream": 32, "chunk": 32, "modality": 8, "step": 24}
_BITS = np.array([*_LIMITS.values(), 0])


def renoise_step(evaluation: int) -> int:
    """Step id of the noise added after evaluation `evaluation` (0 is a chunk's first)."""
    return evaluation + 1


def noise_keys(
    seeds: Sequence[int],
    streams: Sequence[int],
    chunks: Sequence[int],
    modality: int,
    steps: Sequence[int],
) -> Tensor:
    """Keys int64 [r, 6] of `philox_normal`, one per row. `modality` is its position in the model.

    Raises ValueError for a number that the key's layout cannot hold.
    """
    count = len(seeds)
    rows = list(zip(seeds, streams, chunks, [modality] * count, steps, [0] * count, strict=True))
    try:
        keys = np.array(rows, dtype=np.int64).reshape(-1, len(KEY_COLUMNS))
    except OverflowError:
        keys = None
    if keys is None or (keys >> _BITS).any():
        for row in rows:
            check_key(*row[:-1])
    assert keys is not None, rows
    return torch.from_numpy(keys)


def check_key(seed: int, stream: int, chunk: int, modality: int, step: int) -> None:
    """Raises ValueError if a part of a key does not fit into its bits."""
    for (name, bits), value in zip(
        _LIMITS.items(), (seed, stream, chunk, modality, step), strict=True
    ):
        if value < 0 or value >> bits:
            raise ValueError(f"{name} is {value}; allowed: 0 to 2^{bits} - 1")


def draw(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """Standard normal float32 [r, *shape] on the device of `keys`."""
    return philox_normal(keys, math.prod(shape)).view(keys.shape[0], *shape)
