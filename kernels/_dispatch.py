"""Which version of an op runs, and how small tables get to its device: what knows about devices.

CUDA tensors take the Triton version, every other device the torch reference. There is no switch and
no fallback: on a CUDA machine without triton the import fails with its own message.
"""

import torch
from torch import Tensor


def use_triton(tensor: Tensor) -> bool:
    """True if the op on `tensor` should run its Triton version."""
    return tensor.is_cuda


def place(table: Tensor, device: torch.device | str) -> Tensor:
    """A table made on the CPU, on `device`, without waiting for it: pinned memory on the way to a
    CUDA device, so that the copy queues behind the work that is under way there."""
    if torch.device(device).type == "cuda":
        return table.pin_memory().to(device, non_blocking=True)
    return table.to(device)
