"""Which version of an op runs: the one place that knows about devices.

CUDA tensors take the Triton version, every other device the torch reference. There is no switch and
no fallback: on a CUDA machine without triton the import fails with its own message.
"""

from torch import Tensor


def use_triton(tensor: Tensor) -> bool:
    """True if the op on `tensor` should run its Triton version."""
    return tensor.is_cuda
