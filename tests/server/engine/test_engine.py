"""The engine on a clock of its own: every chunk once and in order, deadlines, control, failures,
restart, memory. Each test ends by checking that every page and slot is back."""

from collections.abc import Iterator
from typing import Any

import pytest

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.messages import (
    CloseStream,
    ControlStream,
    Shutdown,
    StreamOpened,
)
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.snapshot import pack_snapshot, unpack_snapshot
from tests.server.engine.drive import Rig, affine
from tests.server.engine.fake import SPEC

OPEN = EngineSettings(decode_lane=False, admission=False)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(OPEN)
    yield rig
    rig.check()


def test_a_live_stream_keeps_its_clock(rig: Rig) -> None:
    rig.open("a")
    rig.run(3.0)
    chunks = rig.ready("a")
    assert len(chunks) >= 13
    assert all(e.on_time for e in chunks) and not rig.dropped()
    gaps = {round(b.playout_at - a.playout_at, 6) for a, b in zip(chunks, chunks[1:], strict=False)}
    assert gaps == {0.2}
    assert [e.steps for e in chunks[:3]] == [4, 2, 2]
    ahead = [e.playout_at - e.ready_at for e in chunks]
    assert max(ahead) <= 2 * SPEC.chunk_seconds
    assert 1 <= (chunks[0].playout_at - chunks[0].ready_at) / SPEC.chunk_seconds <= 2


def test_many_streams_share_batches_and_all_are_on_time(rig: Rig) -> None:
    for i in range(8):
        rig.open(f"s{i}", prompt=f"prompt {i % 3}", seed=i)
        rig.run(0.03)
    rig.run(3.0)
    assert rig.on_time_ratio() == 1.0
    assert max(rig.model.batches) >= 4
    assert rig.model.prefills == 3


def test_one_stream_more_than_admission_allows_is_refused_with_a_reason() -> None:
    rig = Rig(EngineSettings(decode_lane=False, headroom=0.5))
    for i in range(30):
        rig.open(f"s{i}", seed=i)
    rig.run(3.0)
    refused = rig.refused()
    assert refused and all(r.code == "capacity" and "busy" in r.reason for r in refused)
    assert len(rig.of(StreamOpened)) + len(refused) == 30
    assert rig.on_time_ratio() == 1.0
    rig.check()


@pytest.mark.parametrize("policy", ["fcfs-chunk", "static", "edf-s"])
def test_under_overload_no_policy_loses_or_repeats_a_chunk(policy: str) -> None:
    rig = Rig(
        EngineSettings(decode_lane=False, admission=False, policy=policy),
        step_cost=affine(0.02, 0.02),
    )
    for i in range(6):
        rig.open(f"s{i}", seed=i)
    rig.run(3.0)
    assert rig.dropped()
    rig.check()


def test_under_overload_edf_s_keeps_more_on_time_by_fewer_steps() -> None:
    ratios, steps = {}, {}
    for policy in ("edf-s", "fcfs-chunk", "static"):
        rig = Rig(
            EngineSettings(decode_lane=False, admission=False, policy=policy),
            step_cost=affine(0.004, 0.010),
        )
        for i in range(7):
            rig.open(f"s{i}", seed=i)
        rig.run(5.0)
        ratios[policy] = rig.on_time_ratio(since=101.5)
        made = [e.steps for e in rig.ready() if e.chunk > 2]
        steps[policy] = sum(made) / len(made)
        rig.check()
    assert ratios["edf-s"] >= 0.97
    assert ratios["edf-s"] > max(ratios["fcfs-chunk"], ratios["static"])
    assert steps["edf-s"] < 2.0


def test_steps_come_back_when_the_load_falls() -> None:
    rig = Rig(OPEN, step_cost=affine(0.004, 0.010))
    for i in range(8):
        rig.open(f"s{i}", seed=i)
    rig.run(3.0)
    before = [e.steps for e in rig.ready()[-16:]]
    for i in range(1, 8):
        rig.engine.submit(CloseStream(stream_id=f"s{i}"))
    rig.run(2.0)
    assert min(before) < 2
    assert [e.steps for e in rig.ready("s0")[-3:]] == [2, 2, 2]
    rig.check()


def test_a_prompt_change_takes_effect_at_the_chunk_it_names(rig: Rig) -> None:
    rig.open("a")
    rig.run(1.5)
    rig.engine.submit(ControlStream(stream_id="a", revision=7, prompt="blue ball", seed=5))
    rig.run(1.5)
    (applied,) = rig.applied()
    assert (applied.revision, applied.recognised) == (7, ["blue", "ball"])
    chunks = {e.chunk: e for e in rig.ready("a")}
    assert chunks[applied.chunk - 1].revision == 0
    assert chunks[applied.chunk].revision == 7
    assert chunks[applied.chunk].steps == SPEC.first_chunk_steps
    assert chunks[applied.chunk + 1].steps == SPEC.default_steps
    assert chunks[applied.chunk].playout_at == pytest.approx(applied.playout_at)
    assert rig.model.prefills == 2 and not rig.dropped()


def test_a_new_prompt_starts_with_the_history_that_the_model_keeps(rig: Rig) -> None:
    rig.open("a")
    rig.run(2.0)
    window = rig.engine.roster.streams["a"].window
    assert len(window) == SPEC.window_chunks
    rig.engine.submit(ControlStream(stream_id="a", revision=1, seed=5))
    rig.run(1.0)
    assert len(window) == SPEC.window_chunks, "a new seed is no new scene"
    rig.engine.submit(ControlStream(stream_id="a", revision=2, prompt="blue ball"))
    lengths = []
    for _ in range(100):
        rig.run(0.01)
        lengths.append(len(window))
    assert min(lengths) == SPEC.kept_chunks and lengths[-1] == SPEC.window_chunks


def test_a_prompt_change_delays_no_neighbour(rig: Rig) -> None:
    for i in range(5):
        rig.open(f"s{i}", seed=i)
    rig.run(1.5)
    for revision in range(1, 6):
        rig.engine.submit(ControlStream(stream_id="s0", revision=revision, prompt=f"p{revision}"))
        rig.run(0.25)
    assert rig.on_time_ratio() == 1.0
    assert {e.revision for e in rig.ready("s0")} == {0, 1, 2, 3, 4, 5}


def test_a_pause_stops_chunks_and_a_resume_starts_a_new_clock(rig: Rig) -> None:
    rig.open("a")
    rig.run(1.0)
    rig.engine.submit(ControlStream(stream_id="a", revision=1, paused=True))
    rig.run(1.0)
    count = len(rig.ready("a"))
    rig.run(5.0)
    assert len(rig.ready("a")) == count
    rig.engine.submit(ControlStream(stream_id="a", revision=2, paused=False))
    rig.run(1.0)
    chunks = rig.ready("a")
    assert len(chunks) > count + 3
    assert [e.chunk for e in chunks] == list(range(len(chunks)))
    assert all(e.on_time for e in chunks) and not rig.dropped()


def test_a_job_is_made_whole_and_ends(rig: Rig) -> None:
    rig.open("j", kind="job", total_chunks=6)
    rig.run(1.0)
    chunks = rig.ready("j")
    assert [e.chunk for e in chunks] == list(range(6))
    assert [e.last for e in chunks] == [False] * 5 + [True]
    assert rig.ended()["j"].reason == "finished"


def test_jobs_take_only_what_live_streams_leave(rig: Rig) -> None:
    for i in range(5):
        rig.open(f"s{i}", seed=i)
    for i in range(4):
        rig.open(f"j{i}", kind="job", total_chunks=500, seed=i)
    rig.run(4.0)
    live = [e for e in rig.ready() if e.stream_id.startswith("s")]
    assert all(e.on_time and (e.steps == 2 or e.chunk == 0) for e in live)
    assert len(rig.ready("j0")) > 10


def test_a_job_alone_and_one_beside_live_streams_give_the_same_bytes() -> None:
    alone, beside = Rig(OPEN), Rig(OPEN)
    for i in range(4):
        beside.open(f"s{i}", seed=i)
    for rig in (alone, beside):
        rig.open("j", kind="job", total_chunks=5, prompt="blue ball", seed=9)
        rig.run(3.0)
        rig.check()
    mine = [alone.latents["j", i] for i in range(5)]
    assert mine == [beside.latents["j", i] for i in range(5)]


def test_equal_seeds_give_equal_streams_and_others_do_not(rig: Rig) -> None:
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        rig.open(name, seed=seed)
    rig.run(1.0)
    assert rig.latents["a", 2] == rig.latents["b", 2] != rig.latents["c", 2]


def test_toybox_latents_are_the_same_bits_alone_and_among_five_others() -> None:
    """Exact mode: five streams with other prompts, seeds and steps join and leave meanwhile."""
    model = Toybox.random(1)
    alone, among = Rig(OPEN, model=model), Rig(OPEN, model=model)
    for rig in (alone, among):
        rig.open("one", prompt="a red ball", seed=11)
    alone.run(2.0)
    for i in range(5):
        among.open(f"mate {i}", prompt=f"a blue square {i}", seed=i, steps=1 + i % 4)
        among.run(0.08 + 0.03 * i)
    for i in range(5):
        among.engine.submit(CloseStream(stream_id=f"mate {i}"))
        among.run(0.25)
    compared = [e.chunk for e in alone.ready("one")]
    assert len(compared) >= 8 and max(n for e in among.stats() for n in e.batch_rows) > 2
    for chunk in compared:
        assert alone.latents["one", chunk] == among.latents["one", chunk], chunk
    alone.check()
    among.check()


def test_a_stream_that_raises_ends_alone(rig: Rig) -> None:
    rig.open("good")
    rig.open("bad", prompt="raise")
    rig.run(1.0)
    ended = rig.ended()["bad"]
    assert ended.reason == "failed" and "this prompt raises" in (ended.error or "")
    assert len(rig.ready("good")) >= 3 and rig.on_time_ratio() == 1.0


def test_a_stream_whose_latents_are_not_finite_ends_alone(rig: Rig) -> None:
    rig.open("good")
    rig.open("bad", prompt="nan")
    rig.run(1.0)
    ended = rig.ended()["bad"]
    assert ended.reason == "failed" and "not finite" in (ended.error or "")
    assert not rig.ready("bad") and rig.on_time_ratio() == 1.0


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"seed": -1}, "seed: -1; allowed: 0 to 2^63 - 1"),
        ({"seed": 1 << 63}, "seed"),
        ({"steps": 9}, "steps: 9; allowed: 1 to 4"),
        ({"prompt": "refuse"}, "cannot be encoded"),
        ({"total_chunks": 0}, "total_chunks"),
        ({"ahead_chunks": 0}, "ahead_chunks"),
        ({"snapshot": b"rubbish"}, "snapshot"),
        ({"snapshot": pack_snapshot(next_chunk=1, latents=[b"short"])}, "chunks of [5] bytes"),
    ],
)
def test_what_cannot_be_run_is_refused(rig: Rig, wrong: dict[str, Any], word: str) -> None:
    rig.open("a", **wrong)
    rig.run(0.1)
    (refusal,) = rig.refused()
    assert refusal.code == "invalid" and word in refusal.reason


def test_an_id_can_be_open_only_once(rig: Rig) -> None:
    rig.open("a")
    rig.open("a")
    rig.run(0.5)
    (refusal,) = rig.refused()
    assert "already open" in refusal.reason and rig.ready("a")


def test_jobs_beyond_the_allowed_number_are_refused() -> None:
    rig = Rig(EngineSettings(decode_lane=False, max_jobs=2))
    for i in range(3):
        rig.open(f"j{i}", kind="job", total_chunks=2)
    rig.run(0.5)
    (refusal,) = rig.refused()
    assert refusal.code == "capacity" and "at most 2" in refusal.reason
    rig.check()


def test_memory_is_reserved_whole_even_if_prompts_are_shared() -> None:
    pages = 3 * (SPEC.window_chunks + 2)
    rig = Rig(EngineSettings(decode_lane=False, admission=False, pages=pages))
    for i in range(4):
        rig.open(f"s{i}")
    rig.run(0.5)
    (refusal,) = rig.refused()
    assert "pages of key-value memory" in refusal.reason
    for i in range(3):
        rig.engine.submit(ControlStream(stream_id=f"s{i}", revision=1, prompt=f"own {i}"))
    rig.run(1.0)
    assert {e.revision for e in rig.ready()} == {0, 1}
    rig.check()


def test_a_stream_goes_on_from_its_snapshot() -> None:
    first = Rig(OPEN)
    first.open("a", seed=3)
    first.run(2.0)
    made = [e.chunk for e in first.ready("a")]
    kept = [first.latents["a", chunk] for chunk in made[:-2]]
    first.check()
    second = Rig(OPEN)
    snapshot = pack_snapshot(next_chunk=made[-2], latents=kept)
    second.open("a", seed=3, snapshot=snapshot, revision=4)
    second.run(1.0)
    chunks = second.ready("a")
    assert chunks[0].chunk == made[-2]
    assert chunks[0].steps == SPEC.default_steps and chunks[0].revision == 4
    assert sum(second.model.commits) >= SPEC.window_chunks
    second.check()


def test_a_snapshot_keeps_the_newest_chunks_of_the_window() -> None:
    data = pack_snapshot(next_chunk=9, latents=[bytes([i] * 8) for i in range(9)])
    snapshot = unpack_snapshot(data, chunk_bytes=8, keep=3)
    assert (snapshot.next_chunk, snapshot.latents) == (9, [bytes([i] * 8) for i in (6, 7, 8)])


def test_without_free_slots_streams_wait_and_late_chunks_are_dropped() -> None:
    rig = Rig(OPEN, slots=2)
    rig.reading = False
    rig.open("a")
    rig.run(2.0)
    assert len(rig.ready("a")) == 2
    assert rig.dropped("a") and {e.cause for e in rig.dropped("a")} <= {"transfer", "queue"}
    rig.check()


def test_a_long_stall_starts_a_new_clock_instead_of_a_burst() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(1.0)
    rig.clock.advance(5.0)
    stalled = len(rig.ready("a"))
    rig.run(2.0)
    after = rig.ready("a")[stalled:]
    assert len(rig.dropped("a")) <= 3
    assert len(after) >= 6 and all(e.on_time for e in after[1:])
    rig.check()


def test_closing_at_any_moment_leaves_nothing_behind(rig: Rig) -> None:
    for i in range(12):
        rig.open(f"s{i}", seed=i)
        rig.run(0.011 * i)
        rig.engine.submit(CloseStream(stream_id=f"s{i // 2}"))
    rig.run(0.5)
    rig.engine.check_integrity()


def test_shutdown_ends_every_stream() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(0.5)
    rig.engine.submit(Shutdown())
    rig.run(0.05)
    assert rig.engine.stopped
    rig.check()
    assert rig.ended()["a"].reason == "closed"


def test_the_engine_reports_while_it_works_and_while_it_is_idle(rig: Rig) -> None:
    rig.run(1.0)
    idle = rig.stats()
    assert len(idle) >= 3 and idle[-1].busy_ratio == 0.0 and idle[-1].pages_used == 0
    rig.open("a")
    rig.run(1.0)
    (stream,) = rig.stats()[-1].streams
    assert stream.stream_id == "a" and stream.chunks >= 2 and stream.chunks_late == 0
    assert rig.stats()[-1].pages_used == SPEC.window_chunks + 1
    assert 0 < rig.stats()[-1].utilisation < 1 and rig.stats()[-1].batch_rows


def test_engine_settings_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="policy: 'best'; allowed: edf-s, edf-greedy, orca"):
        EngineSettings(policy="best")
    with pytest.raises(ValueError, match="headroom: 0; allowed"):
        EngineSettings(headroom=0)


def test_an_engine_that_could_never_run_a_stream_does_not_start() -> None:
    with pytest.raises(ValueError, match=r"pages: 1; allowed: from \d+"):
        Rig(EngineSettings(decode_lane=False, pages=1))
