"""The state of one chunk of one stream while it is denoised: plain data, nothing live.

It can be stopped after any step, written to bytes, and resumed in another process, on another
device or beside other rows with the same result.
"""

from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from onbeat.samplers.sampler import Sampler, shared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChunkState:
    """`step` of `steps` evaluations are done; `latents` are x at that noise level.

    latents: per modality, in the model's order, float32 [n, d]. x0: the last prediction of the
    clean latents (None before the first step): a valid picture after every step.
    samplers: how each modality is sampled, same keys; plain data, and written with the state.
    """

    seed: int
    stream: int
    chunk: int
    step: int
    steps: int
    samplers: dict[str, Sampler]
    latents: dict[str, Tensor]
    x0: dict[str, Tensor] | None = None

    @property
    def done(self) -> bool:
        return self.step == self.steps

    def to_bytes(self) -> bytes:
        """MessagePack; exact to the bit."""
        return msgspec.msgpack.encode(
            _Wire(
                seed=self.seed,
                stream=self.stream,
                chunk=self.chunk,
                step=self.step,
                steps=self.steps,
                samplers=self.samplers,
                latents=_pack(self.latents),
                x0=None if self.x0 is None else _pack(self.x0),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> "ChunkState":
        """Reads `to_bytes`. Raises msgspec.DecodeError (a ValueError) if `data` is not a state."""
        wire = msgspec.msgpack.decode(data, type=_Wire)
        return cls(
            seed=wire.seed,
            stream=wire.stream,
            chunk=wire.chunk,
            step=wire.step,
            steps=wire.steps,
            samplers={name: shared(sampler) for name, sampler in wire.samplers.items()},
            latents=_unpack(wire.latents, device),
            x0=None if wire.x0 is None else _unpack(wire.x0, device),
        )


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shape: list[int]
    data: bytes
    """Little-endian float32."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seed: int
    stream: int
    chunk: int
    step: int
    steps: int
    samplers: dict[str, Sampler]
    latents: dict[str, _Array]
    x0: dict[str, _Array] | None


def _pack(tensors: dict[str, Tensor]) -> dict[str, _Array]:
    return {
        name: _Array(list(x.shape), x.cpu().numpy().astype("<f4", copy=False).tobytes())
        for name, x in tensors.items()
    }


def _unpack(arrays: dict[str, _Array], device: torch.device | str) -> dict[str, Tensor]:
    return {
        name: torch.frombuffer(bytearray(a.data), dtype=torch.float32).view(a.shape).to(device)
        for name, a in arrays.items()
    }
