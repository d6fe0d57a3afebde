"""Weighted prompts, blends over chunks, and new scenes: what of a stream each of them changes."""

import pytest
import torch

from onbeat.server.engine.ladder import Ladder
from onbeat.server.engine.messages import ControlStream
from onbeat.server.engine.prompts import Blend, encode, mixed
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.vocabulary import PromptPart, prompt_text
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC, FakeModel

OPEN = EngineSettings(decode_lane=False, admission=False)
PARTS = (PromptPart(text="red ball", weight=3.0), PromptPart(text="blue", weight=1.0))


def running() -> Rig:
    rig = Rig(OPEN)
    rig.open("a", prompt="red ball")
    rig.run(3.0)
    return rig


def seen(rig: Rig, seconds: float) -> dict[int, float]:
    """The pooled vector under which each chunk was made."""
    stream, found = rig.engine.roster.streams["a"], {}
    end = rig.clock.now() + seconds
    while rig.clock.now() < end:
        if not rig.engine.tick():
            rig.clock.advance(0.001)
        if stream.state is not None:
            found[stream.chunk] = float(stream.now.encoded.pooled[0])
    return found


def test_a_weighted_prompt_is_the_mean_of_its_texts() -> None:
    model = FakeModel()
    red, blue = model.encode_prompt("red ball"), model.encode_prompt("blue")
    both = encode(PARTS, model.encode_prompt)
    assert torch.allclose(both.pooled, 0.75 * red.pooled + 0.25 * blue.pooled)
    assert both.recognised == ("red", "ball", "blue")
    assert both.digest == encode(PARTS, model.encode_prompt).digest
    assert prompt_text(PARTS) == "red ball (3) + blue (1)"
    assert mixed([(red, 2.0), (blue, 0.0)]) is red


def test_a_blend_ends_at_its_target() -> None:
    model = FakeModel()
    red, blue = model.encode_prompt("red ball"), model.encode_prompt("blue")
    blend: Blend | None = Blend(origin=red, target=blue, chunks=4)
    parts = []
    while blend is not None:
        parts.append(blend.encoded)
        blend = blend.next()
    assert len(parts) == 4 and parts[-1] is blue
    assert torch.allclose(parts[0].pooled, 0.75 * red.pooled + 0.25 * blue.pooled)


def test_a_stream_blends_chunk_by_chunk_and_keeps_its_history() -> None:
    rig = running()
    change = ControlStream(
        stream_id="a", revision=1, prompt="blue", transition="blend", blend_chunks=4
    )
    rig.engine.submit(change)
    made = seen(rig, 3.0)
    (applied,) = rig.applied()
    old, new = (float(rig.model.encode_prompt(p).pooled[0]) for p in ("red ball", "blue"))
    got = [made[applied.chunk + part] for part in range(5)]
    assert got == pytest.approx([old + (new - old) * part / 4 for part in (1, 2, 3, 4, 4)])
    stream = rig.engine.roster.streams["a"]
    assert len(stream.history) == SPEC.window_chunks and stream.pending is None
    assert not rig.dropped() and rig.on_time_ratio() == 1.0
    rig.check()


def test_a_blend_may_turn_before_its_end() -> None:
    rig = running()
    for revision, prompt in enumerate(("blue", "red ball"), 1):
        rig.engine.submit(
            ControlStream(
                stream_id="a",
                revision=revision,
                prompt=prompt,
                transition="blend",
                blend_chunks=8,
            )
        )
        rig.run(0.5)
    rig.run(3.0)
    stream = rig.engine.roster.streams["a"]
    assert stream.now.encoded.pooled[0] == rig.model.encode_prompt("red ball").pooled[0]
    assert stream.now.revision == 2
    rig.check()


def test_a_fork_goes_on_with_a_blend() -> None:
    rig = running()
    rig.engine.submit(
        ControlStream(stream_id="a", revision=1, prompt="blue", transition="blend", blend_chunks=20)
    )
    rig.run(1.0)
    rig.open("b", prompt="blue", fork_of="a")
    rig.run(6.0)
    fork = rig.engine.roster.streams["b"]
    assert fork.now.encoded.pooled[0] == rig.model.encode_prompt("blue").pooled[0]
    rig.check()


@pytest.mark.parametrize("transition", ["cut", "recache", None])
def test_a_reset_begins_a_new_scene(transition: str | None) -> None:
    rig = running()
    prompt = "blue" if transition else None
    rig.engine.submit(
        ControlStream(
            stream_id="a",
            revision=1,
            prompt=prompt,
            transition=transition,  # type: ignore[arg-type]
            reset=True,
        )
    )
    stream = rig.engine.roster.streams["a"]
    while stream.now.revision == 0:
        if not rig.engine.tick():
            rig.clock.advance(0.001)
    assert not stream.history and not stream.now.reset
    rig.run(1.0)
    (applied,) = rig.applied()
    assert {e.chunk: e.revision for e in rig.ready("a")}[applied.chunk] == 1
    rig.check()


def test_a_ladder_stays_below_its_floor() -> None:
    ladder = Ladder(calm_chunks=2)
    ladder.hold(1, 4)
    assert ladder.current(4).steps == 3
    for _ in range(20):
        ladder.ended()
    assert ladder.level == 1
    ladder.hold(9, 4)
    assert ladder.current(4).steps == 1
    ladder.hold(0, 4)
    for _ in range(20):
        ladder.ended()
    assert ladder.level == 0


def test_a_stream_is_held_down_and_let_up_by_controls() -> None:
    rig = running()
    rig.engine.submit(ControlStream(stream_id="a", revision=0, floor_level=1))
    rig.run(2.0)
    held = [e.steps for e in rig.ready("a")][-1]
    rig.engine.submit(ControlStream(stream_id="a", revision=0, floor_level=0))
    rig.run(6.0)
    assert held == SPEC.default_steps - 1
    assert [e.steps for e in rig.ready("a")][-1] == SPEC.default_steps
