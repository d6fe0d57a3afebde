"""Guidance: only rows that ask for it are evaluated twice, and others keep their bits."""

from dataclasses import replace

import pytest
import torch

from onbeat.samplers import families
from onbeat.samplers.consistency import inputs_of, start_rows
from onbeat.samplers.guidance import embedded_scales, guide, guided_rows, with_unprompted
from onbeat.samplers.sampler import Guidance
from onbeat.samplers.state import ChunkState


class Tokens:
    name, tokens, dim, shift = "video", 3, 5, 1.0


def rows() -> list[ChunkState]:
    plain = families.rectified_flow(2, prediction="v")
    samplers = [
        plain,
        replace(plain, guidance=Guidance(kind="rows", scale=3.0)),
        replace(families.lcm(), guidance=Guidance(kind="embedded", scale=8.0)),
        replace(plain, guidance=Guidance(kind="rows", scale=0.0)),
        replace(plain, guidance=Guidance(kind="rows", scale=1.0)),
    ]
    return start_rows([Tokens()], range(5), range(5), range(5), [{"video": s} for s in samplers])


def test_rows_of_the_forward() -> None:
    states = rows()
    assert guided_rows(states) == [1, 3]  # scale 1 needs no second evaluation
    doubled = with_unprompted(states)
    assert doubled[:5] == states and doubled[5] is states[1] and doubled[6] is states[3]
    assert inputs_of(doubled)["video"].shape == (7, 3, 5)


def test_the_blend() -> None:
    states = rows()
    both = torch.randn(7, 3, 5, generator=torch.Generator().manual_seed(0))
    out = guide(states, {"video": both})["video"]
    assert torch.equal(out[[0, 2, 4]], both[[0, 2, 4]])
    assert torch.allclose(out[1], both[5] + 3.0 * (both[1] - both[5]))
    assert torch.equal(out[3], both[6])
    alone = guide(states[1:2], {"video": both[[1, 5]]})["video"]
    assert torch.equal(alone[0], out[1])
    with pytest.raises(ValueError, match="video has 5 rows; allowed: 7"):
        guide(states, {"video": both[:5]})


def test_blending_predictions_is_blending_x0() -> None:
    step = rows()[1].samplers["video"].table[0]
    x, p, u = 0.3, 1.1, -0.4
    clean = [step.clean_x * x + step.clean_prediction * value for value in (p, u)]
    both = step.clean_x * x + step.clean_prediction * (u + 3.0 * (p - u))
    assert both == pytest.approx(clean[1] + 3.0 * (clean[0] - clean[1]))


def test_embedded_scales() -> None:
    assert embedded_scales(rows())["video"].tolist() == [1.0, 1.0, 8.0, 1.0, 1.0]


def test_a_batch_without_guidance_is_untouched() -> None:
    states = rows()[:1]
    both = torch.ones(1, 3, 5)
    assert with_unprompted(states) == states
    assert torch.equal(guide(states, {"video": both})["video"], both)
