"""A scripted run as a trace file: lanes, rows, deadlines, and every miss with its cause."""

from collections.abc import Callable

import msgspec
import pytest

from onbeat.server.engine.messages import ChunkDropped, ChunkReady, TraceReply, TraceRequest
from onbeat.server.engine.perfetto import MOST_EVENTS, chrome_trace
from onbeat.server.engine.records import Forward, Row
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.trace import MOST_RECORDS, Trace
from tests.server.engine import chrome
from tests.server.engine.drive import Rig
from tests.server.engine.test_reference import clip

OPEN = EngineSettings(decode_lane=False, admission=False)


def ask(rig: Rig, seconds: float = 10.0) -> TraceReply:
    """Through the engine's own mailbox, and over the wire and back."""
    rig.engine.submit(TraceRequest(request="r1", seconds=seconds))
    rig.engine.tick()
    (reply,) = [e for e in rig.events if isinstance(e, TraceReply)][-1:]
    return msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=type(reply))


def draw(rig: Rig) -> list[chrome.Event]:
    return chrome.parsed(chrome_trace(ask(rig).records))


def causes(rig: Rig, events: list[chrome.Event]) -> set[str]:
    """Of misses in the file, which must be those that were reported."""
    before = rig.events[: next(i for i, e in enumerate(rig.events) if isinstance(e, TraceReply))]
    said = [e.cause for e in before if isinstance(e, ChunkReady | ChunkDropped)]
    drawn = chrome.misses(events)
    assert sorted(e["args"]["cause"] for e in drawn) == sorted(filter(None, said))
    assert all((e.cause is None) == e.on_time for e in rig.ready())
    return {e["args"]["cause"] for e in drawn}


def test_a_quiet_run_shows_lanes_rows_steps_and_deadlines() -> None:
    rig = Rig(OPEN)
    slow_decoding(rig, 0.002)
    for name in ("a", "b", "c"):
        rig.open(name)
    rig.run(3.0)
    events = draw(rig)
    assert not chrome.misses(events)
    assert {"host", "compute", "decode", "a", "b", "c"} <= set(chrome.track_names(events).values())
    rows = [e for e in chrome.on_track(events, "b") if e["ph"] == "X"]
    assert {e["args"]["work"] for e in rows} == {"prefill", "commit", "step"}
    last = [e for e in rows if e["args"]["work"] == "step"][-2:]
    assert [e["name"].split(" ", 1)[1] for e in last] == ["step 1/2", "step 2/2"]
    assert any(e["args"]["batch rows"] == 3 for e in rows)
    forwards = [e for e in chrome.on_track(events, "compute") if e["name"].startswith("forward")]
    assert any(e["args"] == {"step": 3, "commit": 0} for e in forwards)
    marks = {e["name"].split()[1] for e in chrome.on_track(events, "a") if e["ph"] == "i"}
    assert marks == {"release", "deadline", "playout"}
    made = len(rig.ready())
    assert sum(e["ph"] == "s" for e in events) == made, "an arrow from each chunk to its decoding"
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert counters == {"pages used", "batch rows", "least slack, ms"}
    rig.check()


def test_a_prefill_is_a_slice_of_its_own_before_the_forward() -> None:
    rig = Rig(OPEN)
    slow_prefills(rig, 0.003)
    rig.open("a")
    rig.open("b", prompt="another")
    rig.run(1.0)
    rig.open("c", prompt="a third")
    rig.run(1.0)
    events = draw(rig)
    drawn = [e for e in chrome.on_track(events, "compute") if e["name"].startswith("prefill")]
    assert len(drawn) >= 2 and all(e["dur"] >= 2999 for e in drawn)


def test_pieces_of_a_reference_are_on_the_decode_lane() -> None:
    rig = Rig(OPEN)
    rig.model.encode_cost = 0.004
    rig.open("a", reference=clip(12))
    rig.run(1.0)
    drawn = [e for e in chrome.on_track(draw(rig), "decode") if e["name"].startswith("reference")]
    assert [e["name"] for e in drawn] == ["reference 0", "reference 1", "reference 2"]
    assert all(e["args"] == {"stream": "a"} and e["dur"] >= 3999 for e in drawn)


def test_only_the_last_seconds_that_were_asked_for() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(4.0)
    reply = ask(rig, seconds=1.0)
    assert reply.request == "r1" and reply.end - reply.start == pytest.approx(1.0)
    assert all(record.end > reply.start for record in reply.records)
    assert 4 <= len(chrome.on_track(chrome.parsed(chrome_trace(reply.records)), "compute")) < 20
    longest = ask(rig, seconds=1e6)
    assert longest.end - longest.start == pytest.approx(10.0)


def stall(rig: Rig, seconds: float) -> None:
    """The next forward takes so much longer."""
    usual = rig.model.step_cost

    def once(rows: int) -> float:
        rig.model.step_cost = usual
        return usual(rows) + seconds

    rig.model.step_cost = once


def test_a_slow_forward_is_the_compute_lanes_fault() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(2.0)
    stall(rig, 0.6)
    rig.run(2.0)
    assert "compute" in causes(rig, draw(rig))


def test_too_many_streams_wait_for_each_other() -> None:
    rig = Rig(
        EngineSettings(decode_lane=False, admission=False, anytime=False, policy="fcfs-chunk")
    )
    for i in range(14):
        rig.open(str(i))
    rig.run(4.0)
    assert causes(rig, draw(rig)) == {"queue"}


def slow_prefills(rig: Rig, seconds: float) -> None:
    prefill: Callable[..., object] = rig.model.prefill_prompt

    def slowly(*args: object) -> object:
        rig.clock.advance(seconds)
        return prefill(*args)

    rig.model.prefill_prompt = slowly  # type: ignore[method-assign, assignment]


def slow_decoding(rig: Rig, seconds: float) -> None:
    decode: Callable[..., object] = rig.model.decode

    def slowly(*args: object) -> object:
        rig.clock.advance(seconds)
        return decode(*args)

    rig.model.decode = slowly  # type: ignore[method-assign, assignment]


def test_a_slow_decoder_is_named() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(2.0)
    slow_decoding(rig, 0.39)
    rig.run(0.5)
    assert "decode" in causes(rig, draw(rig))


def test_a_full_ring_is_a_transfer() -> None:
    rig = Rig(OPEN, slots=2)
    rig.open("a")
    rig.run(1.0)
    rig.reading = False
    rig.run(3.0)
    assert "transfer" in causes(rig, draw(rig))


def test_off_means_nothing_is_kept() -> None:
    rig = Rig(EngineSettings(decode_lane=False, admission=False, trace=False))
    rig.open("a")
    rig.run(1.0)
    assert ask(rig).records == [] and rig.ready()
    assert chrome.misses(chrome.parsed(chrome_trace([]))) == []


def test_the_ring_and_the_file_are_bounded() -> None:
    rows = [Row(str(i), 1, "step", 1, 2, 1) for i in range(64)]
    many = [Forward(float(i + 1), float(i), rows) for i in range(3000)]
    data = chrome_trace(many)
    events = chrome.parsed(data)
    assert MOST_EVENTS * 0.9 < len(events) < MOST_EVENTS + 200 and len(data) < 16e6
    newest = max(e["ts"] for e in events if e["ph"] == "X")
    assert newest == pytest.approx(2999e6)
    trace = Trace()
    for i in range(MOST_RECORDS + 10):
        trace.forward(i, i + 1.0, [], [])
    assert len(trace.since(0.0)) == MOST_RECORDS
    assert [record.end for record in trace.since(MOST_RECORDS + 8.5)] == [
        MOST_RECORDS + 9.0,
        MOST_RECORDS + 10.0,
    ]
