"""Tickets: every one ends, in order, with its bytes, its layers and its error; pages keep bits."""

import random
import threading
import time

import pytest
import torch

from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import ChunkReady, ControlStream, EngineDown, OpenStream
from onbeat.server.engine.page_copy import HostCopier
from onbeat.server.engine.settings import EngineSettings, MonotonicClock
from onbeat.server.engine.simulate.transfers import NoCopier, TimedTransfers
from onbeat.server.engine.transfer import CopyLanes, Ticket
from tests.server.engine.fake import SPEC, FakeClock, FakeModel


class Gate(NoCopier):
    """A copier that stops at a layer until it is let go on, or fails there."""

    def __init__(self, *, stop_at: int = -1, fail_at: int = -1) -> None:
        super().__init__(layers=4, page_bytes=8)
        self.stop_at, self.fail_at = stop_at, fail_at
        self.reached, self.go_on = threading.Event(), threading.Event()

    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        if layer == self.fail_at:
            raise KeyError("a fault of the copier")
        if layer == self.stop_at:
            self.reached.set()
            assert self.go_on.wait(20)

    copy_in = copy_out


def until_ended(lanes: CopyLanes, count: int = 1) -> list[Ticket]:
    ended: list[Ticket] = []
    deadline = time.monotonic() + 60
    while len(ended) < count:
        assert time.monotonic() < deadline
        ended += lanes.poll()
    return ended


@pytest.mark.parametrize("threaded", [True, False])
def test_pages_come_back_with_the_same_bits_in_other_places(threaded: bool) -> None:
    store = KVStore(SPEC, 12)
    store.k.copy_(torch.randn(store.k.shape))
    store.v.copy_(torch.randn(store.v.shape))
    store.k[0, 3, 0] = float("nan")
    before = store.k[:, [7, 3, 5]].clone(), store.v[:, [7, 3, 5]].clone()
    lanes = CopyLanes(HostCopier(store, 3), MonotonicClock(), threaded=threaded)
    lanes.start(lambda: None)
    out = lanes.offload("a", (7, 3, 5), 0)
    assert until_ended(lanes) == [out] and out.state == "done"
    assert (out.layers_done, out.bytes_done) == (SPEC.layers, out.bytes)
    assert out.bytes == 3 * lanes.page_bytes() == before[0].numel() * 4 * 2
    store.k[:, [7, 3, 5]] = 0.0
    store.v[:, [7, 3, 5]] = 0.0
    lanes.restore("a", (0, 11, 2), 0)
    until_ended(lanes)
    for now, then in zip((store.k, store.v), before, strict=True):
        assert torch.equal(now[:, [0, 11, 2]].view(torch.int32), then.view(torch.int32))
    lanes.close()


def test_an_error_ends_in_the_ticket_and_the_lane_goes_on() -> None:
    copier = Gate(fail_at=2)
    lanes = CopyLanes(copier, MonotonicClock())
    woken = threading.Event()
    lanes.start(woken.set)
    lanes.offload("a", (1, 2), 0)
    (bad,) = until_ended(lanes)
    assert (bad.state, bad.layers_done) == ("failed", 2) and woken.is_set()
    assert bad.error == "KeyError: 'a fault of the copier'"
    copier.fail_at = -1
    lanes.offload("b", (1, 2), 0)
    assert until_ended(lanes)[0].state == "done"
    lanes.close()


def test_cancelling_stops_at_the_next_layer_and_what_waits_at_once() -> None:
    copier = Gate(stop_at=1)
    lanes = CopyLanes(copier, MonotonicClock())
    lanes.start(lambda: None)
    first, second = lanes.offload("a", (1,), 0), lanes.offload("b", (2,), 1)
    assert copier.reached.wait(20)
    lanes.cancel(second)
    assert second.state == "cancelled" and second.seconds == 0.0
    lanes.cancel(first)
    assert first.state == "copying" and not first.ended
    copier.go_on.set()
    assert {t.state for t in until_ended(lanes, 2)} == {"cancelled"}
    assert first.layers_done == 2 and first.ended
    lanes.close()


def test_closing_cancels_all_and_leaves_no_thread() -> None:
    copier = Gate(stop_at=0)
    lanes = CopyLanes(copier, MonotonicClock())
    lanes.start(lambda: None)
    tickets = [
        lanes.offload("a", (1,), 0),
        lanes.offload("b", (2,), 1),
        lanes.restore("c", (3,), 2),
    ]
    assert copier.reached.wait(20)
    copier.go_on.set()
    lanes.close()
    lanes.close()
    assert all(t.ended for t in tickets) and len(lanes.poll()) == 3
    assert lanes.offload("d", (4,), 3).state == "cancelled"
    assert not {"copy-in", "copy-out"} & {t.name for t in threading.enumerate()}


def test_copies_on_a_virtual_clock_take_their_time_layer_by_layer() -> None:
    clock = FakeClock()
    transfers = TimedTransfers(NoCopier(layers=4, page_bytes=100), clock, bytes_per_second=4000)
    first = transfers.offload("a", (1, 2, 3), 0)
    second = transfers.offload("b", (4,), 1)
    other = transfers.restore("c", (5, 6), 2)
    assert transfers.next_at == clock.now() + 0.2
    clock.advance(0.16)
    assert not transfers.poll()
    assert (first.layers_done, other.layers_done, second.state) == (2, 3, "queued")
    clock.advance(0.24)
    assert transfers.poll() == [other, first, second] or second.ended
    assert [t.seconds for t in (first, second)] == pytest.approx([0.3, 0.1])


def test_buffers_are_kept_and_used_again() -> None:
    copier = HostCopier(KVStore(SPEC, 8), 3)
    places = []
    for _ in range(5):
        copier.copy_out(0, (1, 2), 0)
        places.append(copier.buffers.get(0).k.data_ptr())
    assert len(copier.buffers) == 1 and len(set(places)) == 1


def test_pauses_and_resumes_at_random_on_threads_leave_nothing_behind() -> None:
    """Real lanes beside a real engine; closed in the middle of it."""
    draw = random.Random(7)
    settings = EngineSettings(
        admission=False, max_streams=30, max_active=8, max_jobs=0, offload_after_seconds=0.0
    )
    local = LocalEngine(FakeModel(), settings, slots=64)
    local.start()
    for i in range(20):
        local.send(OpenStream(stream_id=f"s{i}", kind="live", prompt=f"{i % 5}", seed=i))
    end = time.monotonic() + 30
    while local.engine is None or local.engine.residency.copied.restores < 5:
        assert time.monotonic() < end
        name, paused = f"s{draw.randrange(20)}", draw.random() < 0.6
        local.send(ControlStream(stream_id=name, revision=0, paused=paused))
        event = local.receive(draw.choice((0.001, 0.05)))
        assert not isinstance(event, EngineDown), event
        if isinstance(event, ChunkReady):
            local.take(event)
    local.close()
    local.engine.check_integrity()
    residency = local.engine.residency
    assert local.engine.pool.used == 0 and residency.buffers.used == 0
    assert residency.copied.failed == 0
