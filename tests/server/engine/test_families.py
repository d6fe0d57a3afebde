"""Models of any sampler family run in the engine: each tells the exact network of known data."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import Family, Latents, Modality
from onbeat.samplers.predictions import clean_scales, input_scale
from onbeat.samplers.sampler import level_told
from onbeat.samplers.serving import FAMILIES, check_served, served_samplers
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import MemorySlots, slot_bytes
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC, FakeModel

CONTEXT = {"vp": 10.0, "edm": 0.05}
"""Level of commits by path; elsewhere 0.02."""


def spec_of(family: Family, context: float | None = None) -> object:
    kind = FAMILIES[family](1, 1.0).path.kind
    return replace(
        SPEC,
        modalities=tuple(replace(m, family=family) for m in SPEC.modalities),
        context_noise=CONTEXT.get(kind, 0.02) if context is None else context,
    )


class Known(FakeModel):
    """The clean latents are one number, which the prompt tells; what the network puts out is worked
    out from what it was fed and told, so that a wrong scale, time or target shows."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.spec = spec_of(family)  # type: ignore[assignment]
        self.spread: list[float] = []
        """Of the noise in committed rows over what their level says."""

    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        assert tuple(times) == self.spec.time_names
        found = served_samplers(self.spec.modalities, 1)
        out = {}
        for m in self.spec.modalities:
            rows = zip(latents[m.name], times[m.name], pooled, kv.write_pages, strict=True)
            out[m.name] = torch.stack([self._row(found[m.name], *row) for row in rows])
            if m.target_name is not None:
                steps = kv.write_pages < 0
                assert (times[m.target_name] < times[m.name])[steps].all()
        return out

    def _row(self, sampler, fed: Tensor, told: Tensor, pooled: Tensor, page: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        t = level_told(sampler.time_input, float(told))
        parts = (sampler.path, sampler.prediction, sampler.boundary)
        level = round(t) if sampler.path.kind == "vp" else t
        x = fed / input_scale(*parts, level)
        clean = float(pooled.mean()) / 97
        if page >= 0:
            a, b = sampler.path.scales(level)
            self.spread.append(float((x - a * clean).std()) / b)
        cx, cp = clean_scales(*parts, level)
        return (clean - cx * x) / cp


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_any_family_streams_what_it_knows(family: Family) -> None:
    model = Known(family)
    rig = Rig(EngineSettings(decode_lane=False), model=model)
    for i, prompt in enumerate(("red ball", "blue ball")):
        rig.open(f"s{i}", prompt=prompt, seed=i, steps=1 + i)
    rig.run(1.2)
    for i, prompt in enumerate(("red ball", "blue ball")):
        want = float(model.encode_prompt(prompt).pooled.mean()) / 97
        chunks = [x for (name, _), x in rig.latents.items() if name == f"s{i}"]
        assert len(chunks) >= 4
        for data in chunks:
            got = np.frombuffer(data, "<f4")
            np.testing.assert_allclose(got, want, atol=2e-3 * max(1.0, abs(want)))
    assert len(model.spread) > 8 and np.mean(model.spread) == pytest.approx(1.0, abs=0.3)
    rig.check()


def test_a_model_that_cannot_be_sampled_is_refused_at_the_start() -> None:
    known = Known("lcm")
    known.spec = spec_of("lcm", context=0.5)  # type: ignore[assignment]
    slots = MemorySlots(slots=2, slot_bytes=slot_bytes(known.spec))
    with pytest.raises(ValueError, match="t is 0.5; allowed on the path 'vp'"):
        make_engine(known, EngineSettings(decode_lane=False), slots, lambda event: None)
    with pytest.raises(ValueError, match="steps is 5; allowed: 1 to 4"):
        check_served([Modality(name="video", tokens=1, dim=1, shift=1.0, family="rcm")], 5, 0.02)


def test_an_unknown_family_is_named() -> None:
    odd = Modality(name="video", tokens=1, dim=1, shift=1.0, family="dmd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="family of video is 'dmd'; allowed: rectified_flow"):
        served_samplers([odd], 2)
