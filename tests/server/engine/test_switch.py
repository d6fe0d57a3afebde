"""Prompt switches: cut or recache, when they are taken up, and what neighbours notice."""

import pytest
import torch

from onbeat.server.engine.messages import ControlStream
from onbeat.server.engine.pieces import PIECE_ROWS
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.switch import PATIENCE_CHUNKS
from tests.server.engine.drive import Rig, affine
from tests.server.engine.fake import SPEC

OPEN = EngineSettings(decode_lane=False, admission=False)
BLUE = ControlStream(stream_id="a", revision=1, prompt="blue ball", transition="recache")


def running(neighbours: int, first: float = 0.004, each: float = 0.002) -> Rig:
    rig = Rig(OPEN, step_cost=affine(first, each))
    for name in ("a", *(f"n{i}" for i in range(neighbours))):
        rig.open(name, prompt=f"red ball {name}")
    rig.run(3.0)
    return rig


def tick(rig: Rig) -> None:
    if not rig.engine.tick():
        rig.clock.advance(0.001)


def test_a_recache_commits_the_whole_window_again_under_the_new_prompt() -> None:
    rig = running(0)
    stream = rig.engine.roster.streams["a"]
    rig.engine.submit(BLUE)
    while stream.now.revision == 0 or stream.uncommitted:
        tick(rig)
    history, window = list(stream.history), stream.window
    assert len(window) == len(history) == SPEC.window_chunks
    store = rig.engine._executor._store  # type: ignore[attr-defined]
    done = store.k[:, window.readable()].clone()
    window.forget(0)
    stream.uncommitted.extend(history)
    stream.piece = 1
    for _ in history:
        assert not rig.engine._executor.run([], [stream]).failed
    assert torch.equal(done, store.k[:, window.readable()])
    rig.run(1.0)
    rig.check()


def test_the_answer_names_the_first_chunk_of_the_new_prompt() -> None:
    rig = running(2)
    rig.engine.submit(BLUE)
    rig.run(1.5)
    (applied,) = rig.applied()
    chunks = {e.chunk: e.revision for e in rig.ready("a")}
    assert (chunks[applied.chunk - 1], chunks[applied.chunk]) == (0, 1)
    assert applied.recognised == ["blue", "ball"]
    assert not rig.dropped() and rig.on_time_ratio() == 1.0
    rig.check()


def test_a_control_that_names_no_way_switches_the_models_way() -> None:
    rig = running(0)
    rig.engine.submit(ControlStream(stream_id="a", revision=1, prompt="blue ball"))
    stream = rig.engine.roster.streams["a"]
    while stream.now.revision == 0:
        tick(rig)
    assert len(stream.history) == SPEC.kept_chunks and not stream.uncommitted
    rig.check()


@pytest.mark.parametrize("neighbours", [3, 6])
def test_at_moderate_load_nobody_loses_a_chunk_by_recaches(neighbours: int) -> None:
    rig = running(neighbours)
    for revision in range(1, 5):
        rig.engine.submit(
            ControlStream(
                stream_id="a", revision=revision, prompt=f"p {revision}", transition="recache"
            )
        )
        rig.run(1.0)
    assert not rig.dropped() and all(e.on_time for e in rig.ready())
    assert {e.revision for e in rig.ready("a")} == {0, 1, 2, 3, 4}
    rig.check()


def test_a_lead_that_is_too_short_goes_on_with_the_old_prompt_for_a_while() -> None:
    """A stream that is busy 90 % of the time never has the 0.4 s that it would take."""
    rig = running(0, first=0.01, each=0.05)
    rig.engine.submit(BLUE)
    stream = rig.engine.roster.streams["a"]
    asked = stream.chunk
    rig.run(2.5)
    (applied,) = rig.applied()
    assert asked < applied.chunk <= asked + PATIENCE_CHUNKS + 1
    made = [e.chunk for e in rig.ready("a") if asked <= e.chunk < applied.chunk]
    assert made == list(range(asked, applied.chunk)), "the old prompt goes on meanwhile"
    rig.check()


def test_joins_and_switches_add_at_most_one_piece_to_a_tick() -> None:
    """Five neighbours; three joins and two recaches at once; a prompt takes as long as a row."""
    rig = running(5)
    rig.model.prefill_cost = 0.002
    for i in range(3):
        rig.open(f"new{i}", prompt=f"prompt {i}")
    for name in ("a", "n0"):
        rig.engine.submit(
            ControlStream(stream_id=name, revision=1, prompt=f"{name} blue", transition="recache")
        )
    ticks = []
    end = rig.clock.now() + 1.0
    while rig.clock.now() < end:
        prefills, commits = rig.model.prefills, len(rig.model.commits)
        tick(rig)
        ticks.append((rig.model.prefills - prefills, sum(rig.model.commits[commits:])))
    regular = len(rig.engine.roster.streams)
    assert max(prefills for prefills, _ in ticks) == 1
    assert max(commits for _, commits in ticks) <= regular + PIECE_ROWS
    assert not rig.dropped() and all(e.on_time for e in rig.ready())
    assert {e.stream_id for e in rig.ready()} >= {"new0", "new1", "new2"}
    rig.check()


def test_a_tight_neighbour_is_delayed_by_one_narrow_piece_at_most() -> None:
    """A forward of one row takes 0.07 s of the 0.2 s that a chunk has: little slack, one row."""
    rig = running(1, first=0.04, each=0.01)
    widths = []
    rig.engine.submit(BLUE)
    stream = rig.engine.roster.streams["a"]
    end = rig.clock.now() + 2.0
    while rig.clock.now() < end:
        before = len(stream.uncommitted)
        tick(rig)
        if before > 1 and len(stream.uncommitted) < before:
            widths.append(before - len(stream.uncommitted))
    assert widths and max(widths) <= PIECE_ROWS
    assert not rig.dropped("n0") and all(e.on_time for e in rig.ready("n0"))
    rig.check()
