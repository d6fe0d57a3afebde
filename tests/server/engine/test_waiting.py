"""Waiting for room: fair order, places and estimates that are told, coming in by itself."""

import random

import pytest
from msgspec.structs import replace

from onbeat.server.engine.messages import (
    CloseStream,
    ControlStream,
    OpenStream,
    StreamOpened,
    StreamQueued,
)
from onbeat.server.engine.registry import StreamRegistry
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.waiting import Lifetimes, Waiting, WaitingRoom
from tests.server.engine.drive import Rig, affine

TWO = EngineSettings(decode_lane=False, headroom=0.9)
"""With the costs below, two live streams fit."""
SLOW = affine(0.020, 0.005)


def command(name: str, owner: str = "") -> OpenStream:
    return OpenStream(stream_id=name, kind="live", prompt="p", seed=1, owner=owner, wait=True)


def full_rig() -> Rig:
    """Streams s0 ... run, as many as fit; their number is in `rig.capacity`."""
    rig = Rig(TWO, step_cost=SLOW)
    for i in range(30):
        rig.open(f"s{i}", seed=i)
    rig.run(1.0)
    assert rig.refused() and rig.engine.roster.gate.running()
    return rig


def queued(rig: Rig, name: str) -> list[StreamQueued]:
    return [e for e in rig.of(StreamQueued, name) if isinstance(e, StreamQueued)]


def close(rig: Rig, name: str) -> None:
    rig.engine.submit(CloseStream(stream_id=name))


def test_the_order_is_by_arrival_and_fair_between_owners() -> None:
    room = WaitingRoom()
    for name, owner in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        room.add(Waiting(opening=command(name, owner)))
    assert [p.id for p in room.in_order({})] == ["a1", "b1", "a2", "a3"]
    assert [p.id for p in room.in_order({"a": 1})] == ["b1", "a1", "a2", "a3"]
    assert room.place_of("c", {"a": 1}) == 2
    assert room.place_of("a", {}) == 5


def test_nothing_is_estimated_before_a_stream_has_ended() -> None:
    lifetimes = Lifetimes()
    assert lifetimes.until(1, [50.0, 10.0]) is None
    lifetimes.ended(60.0)
    assert lifetimes.mean([50.0, 10.0]) == 120.0
    assert lifetimes.until(1, [50.0, 10.0]) == 60.0
    assert lifetimes.until(3, [50.0, 10.0]) == 180.0


def test_a_refused_stream_that_waits_comes_in_when_another_leaves() -> None:
    rig = full_rig()
    rig.open("w", wait=True)
    rig.run(0.5)
    assert [(e.position, e.estimated_seconds) for e in queued(rig, "w")] == [(1, None)]
    close(rig, "s0")
    rig.run(2.0)
    assert rig.of(StreamOpened, "w") and len(rig.ready("w")) >= 3
    assert rig.on_time_ratio() == 1.0
    rig.check()


def test_a_refusal_says_with_how_many_steps_there_would_be_room() -> None:
    gate = Rig(TWO, step_cost=affine(0.050, 0.005)).engine.roster.gate
    asked = command("a")
    refusal = gate.refusal(replace(asked, steps=4), now=0.0)
    assert refusal is not None
    assert refusal.reason.endswith("; with steps=2 there would be room")
    assert gate.no_room(replace(asked, steps=2)) is None


def test_places_move_up_and_estimates_come_with_the_first_end() -> None:
    rig = full_rig()
    for name in ("w1", "w2", "w3"):
        rig.open(name, wait=True)
    rig.run(0.3)
    assert [queued(rig, n)[-1].position for n in ("w1", "w2", "w3")] == [1, 2, 3]
    close(rig, "w2")
    close(rig, "s0")
    rig.run(0.3)
    assert rig.ended()["w2"].reason == "closed" and rig.of(StreamOpened, "w1")
    last = queued(rig, "w3")[-1]
    assert last.position == 1 and last.estimated_seconds is not None
    assert last.estimated_seconds > 0
    rig.check()


def test_who_does_not_wait_is_refused_behind_those_who_do() -> None:
    rig = full_rig()
    rig.open("w", wait=True)
    rig.run(0.1)
    rig.open("now")
    rig.run(0.1)
    refusal = rig.refused()[-1]
    assert refusal.stream_id == "now" and refusal.queue_position == 2
    close(rig, "s0")
    rig.run(0.1)
    assert rig.of(StreamOpened, "w") and not rig.of(StreamOpened, "now")
    rig.open("later")
    rig.run(0.1)
    assert rig.refused()[-1].retry_after > 0 and rig.refused()[-1].queue_position == 1
    rig.check()


def test_a_stream_that_waits_cannot_be_forked_and_the_reason_says_so() -> None:
    rig = full_rig()
    rig.open("w", wait=True)
    rig.open("f", fork_of="w")
    rig.run(0.1)
    assert "fork_of: 'w' waits for room" in rig.refused()[-1].reason
    rig.check()


def test_a_waiting_stream_can_be_steered_and_its_prompt_is_read_at_once() -> None:
    rig = full_rig()
    rig.open("bad", prompt="refuse", wait=True)
    rig.open("w", wait=True)
    rig.run(0.1)
    assert rig.refused()[-1].code == "invalid"
    rig.engine.submit(ControlStream(stream_id="w", revision=3, prompt="blue ball", seed=4))
    close(rig, "s0")
    rig.run(1.0)
    assert {e.revision for e in rig.ready("w")} == {3}
    assert rig.engine.roster.streams["w"].now.prompt == "blue ball"
    rig.check()


def test_who_is_paused_while_it_waits_is_opened_paused_and_holds_nobody_up() -> None:
    rig = full_rig()
    for name in ("w1", "w2"):
        rig.open(name, wait=True)
    rig.run(0.1)
    rig.engine.submit(ControlStream(stream_id="w2", revision=1, paused=True))
    rig.run(0.1)
    assert rig.of(StreamOpened, "w2") and rig.engine.roster.streams["w2"].paused
    assert not rig.of(StreamOpened, "w1") and queued(rig, "w1")[-1].position == 1
    close(rig, "s0")
    rig.run(1.0)
    assert rig.of(StreamOpened, "w1") and not rig.ready("w2")
    rig.engine.submit(ControlStream(stream_id="w2", revision=2, paused=False))
    rig.run(0.5)
    assert queued(rig, "w2")[-1].position == 1, "resumed without room it waits again"
    rig.check()


def test_a_paused_stream_gives_its_share_to_one_that_waits_and_waits_itself_then() -> None:
    rig = full_rig()
    rig.open("w", wait=True)
    rig.engine.submit(ControlStream(stream_id="s0", revision=1, paused=True))
    rig.run(0.6)
    assert rig.of(StreamOpened, "w")
    rig.engine.submit(ControlStream(stream_id="s0", revision=2, paused=False))
    rig.run(0.5)
    assert queued(rig, "s0")[-1].position == 1
    (answer,) = [e for e in rig.applied() if e.revision == 2]
    assert rig.events.index(queued(rig, "s0")[0]) < rig.events.index(answer), "the answer knows it"
    made = len(rig.ready("s0"))
    rig.run(0.5)
    assert len(rig.ready("s0")) == made
    close(rig, "s1")
    rig.run(1.5)
    assert len(rig.ready("s0")) > made and len(rig.of(StreamOpened, "s0")) == 2
    rig.check()


def test_a_resume_with_room_is_at_once() -> None:
    rig = Rig(TWO)
    rig.open("a")
    rig.run(1.0)
    for revision, paused in ((1, True), (2, False)):
        rig.engine.submit(ControlStream(stream_id="a", revision=revision, paused=paused))
        rig.run(0.3)
    rig.run(1.0)
    assert not queued(rig, "a") and rig.on_time_ratio() == 1.0
    rig.check()


def test_what_still_waits_ends_with_the_engine() -> None:
    rig = full_rig()
    rig.open("w", wait=True)
    rig.run(0.1)
    rig.check()
    assert rig.ended()["w"].reason == "closed"


def test_jobs_do_not_wait_for_room() -> None:
    rig = Rig(EngineSettings(decode_lane=False, max_jobs=1))
    for name in ("j", "k"):
        rig.open(name, kind="job", total_chunks=400, wait=True)
    rig.run(0.1)
    assert rig.refused()[-1].stream_id == "k"
    rig.check()


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_comings_and_goings_ends_with_nothing_left(seed: int) -> None:
    rig = Rig(TWO, step_cost=SLOW)
    draw = random.Random(seed)
    names: list[str] = []
    for i in range(60):
        name = draw.choice(names) if names else ""
        match draw.randrange(4):
            case 0 | 1:
                names.append(f"n{i}")
                rig.open(f"n{i}", wait=True, owner=draw.choice("ab"))
            case 2:
                paused = draw.random() < 0.5
                rig.engine.submit(ControlStream(stream_id=name, revision=i, paused=paused))
            case _:
                close(rig, name)
        rig.run(0.07)
    roster = rig.engine.roster
    waiting = [i for i in roster.gate.room.ids() if i in roster.streams]
    assert all(roster.streams[i].paused for i in waiting)
    rig.check()


def test_after_a_restart_those_who_waited_wait_again_behind_the_others() -> None:
    registry = StreamRegistry()
    for name in ("w", "a"):
        registry.note(command(name))
    registry.observe(StreamQueued(stream_id="w", position=1, estimated_seconds=None))
    registry.observe(StreamOpened(stream_id="a", recognised=[]))
    for _ in range(4):
        ended = registry.engine_lost(hopeless=False)
    assert [e.stream_id for e in ended] == [] and "w" in registry
    registry.note(command("b"))
    assert [c.stream_id for c in registry.reopen()] == ["b", "w"]
    assert all(c.wait for c in registry.reopen())


def test_after_a_restart_only_what_ran_has_its_time_promised() -> None:
    registry = StreamRegistry()
    for name in ("ran", "resuming", "new"):
        registry.note(command(name))
        registry.observe(StreamOpened(stream_id=name, recognised=[]))
    for name in ("ran", "resuming"):
        registry._entries[name].next_chunk = 7
    registry.observe(StreamQueued(stream_id="resuming", position=1, estimated_seconds=None))
    commands = {c.stream_id: c for c in registry.reopen()}
    assert {name for name, c in commands.items() if c.promised} == {"ran"}
    assert commands["resuming"].snapshot is not None and commands["resuming"].wait
