"""The bytes of a chunk's state: exact, and refused if broken."""

from dataclasses import replace

import msgspec
import pytest
import torch

from onbeat.samplers.families import lcm, rectified_flow
from onbeat.samplers.state import ChunkState


def state() -> ChunkState:
    values = torch.tensor([[0.1, -0.0, float("inf")], [1e-45, 3.4e38, float("nan")]])
    return ChunkState(
        seed=2**63 - 1,
        stream=2**32 - 1,
        chunk=7,
        step=1,
        steps=4,
        samplers={"video": rectified_flow(4, 3.0), "audio": lcm(4)},
        latents={"video": values, "audio": torch.zeros(2, 2, 2)[:, 0]},
    )


def bits(x: torch.Tensor) -> list[int]:
    return x.contiguous().view(torch.int32).flatten().tolist()


@pytest.mark.parametrize("with_x0", [False, True])
def test_round_trip_is_exact(with_x0: bool) -> None:
    before = replace(state(), x0={"video": torch.ones(1), "audio": -torch.ones(1)})
    before = before if with_x0 else state()
    after = ChunkState.from_bytes(before.to_bytes())
    for name in ("seed", "stream", "chunk", "step", "steps", "samplers"):
        assert getattr(after, name) == getattr(before, name)
    assert list(after.latents) == ["video", "audio"]
    for name, x in before.latents.items():
        assert after.latents[name].shape == x.shape
        assert bits(after.latents[name]) == bits(x)
    assert (after.x0 is None) == (before.x0 is None)
    assert after.to_bytes() == before.to_bytes()


def test_done_means_all_steps_taken() -> None:
    assert not state().done
    assert replace(state(), step=4).done


def test_broken_bytes_are_refused() -> None:
    data = state().to_bytes()
    with pytest.raises(ValueError):
        ChunkState.from_bytes(data[:-1])
    with pytest.raises(ValueError, match="steps"):
        ChunkState.from_bytes(
            msgspec.msgpack.encode({"seed": 1, "stream": 2, "chunk": 3, "step": 1})
        )
