"""Where the keys and values of each stream are: in pages, on the way, in host memory, or nowhere.

A stream that pauses keeps its pages for a while, then they are copied to host memory and go back to
the pool; when it is wanted again they are copied into other pages. A stream may also keep only the
latents of its window and have its pages filled again by commits. Decided by predicted cost, need of
pages and the budget of host memory. What it is not: the copying (transfer.py), or a promise of time
(admission).
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.messages import TransferStats
from onbeat.server.engine.pool import KVPool, PageNeeds, pages_per_stream
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.stays import Copied, HostBooks, Stay
from onbeat.server.engine.streams import NOWHERE, Stream
from onbeat.server.engine.trace import Trace
from onbeat.server.engine.transfer import Ticket, Transfers
from onbeat.server.vocabulary import Place

log = logging.getLogger(__name__)

SPARE_STREAMS = 2
"""Pages of this many streams are kept free while others are paused, for whoever comes next."""


class Residency:
    """The places of all streams. The tick thread owns it.

    resident -> offloading -> host -> restoring -> resident, and from everywhere to latents and on
    to resident. An offload that is cancelled leaves its stream resident: its pages are whole.
    A stream has a reservation in the pool unless it is at the host or has its latents only.
    """

    def __init__(
        self,
        spec: PageNeeds,
        settings: EngineSettings,
        pool: KVPool,
        transfers: Transfers | None,
        cost: CostModel,
        trace: Trace,
    ) -> None:
        self._settings, self._pool = settings, pool
        self._transfers, self._cost, self._trace = transfers, cost, trace
        self._each = pages_per_stream(spec)
        self.buffer_bytes = transfers.page_bytes() * spec.window_chunks if transfers else 0
        limit = settings.host_memory // self.buffer_bytes if self.buffer_bytes else 0
        self.buffers = HostBooks(limit)
        self._stays: dict[str, Stay] = {}
        self._limbo: dict[Ticket, tuple[list[int], int]] = {}
        """Copies that nobody wants any more, and the pages and the buffer that they still use."""
        self.copied, self._reported = Copied(), Copied()

    def start(self, wake: Callable[[], None]) -> None:
        """`wake` is called when a copy has ended."""
        if self._transfers is not None:
            self._transfers.start(wake)

    # ---- pages of streams ----------------------------------------------------------------------

    def free_pages(self) -> int:
        """What may be promised now. Streams that are paused between two chunks give theirs at once,
        unless a copy uses them."""
        paused = sum(stay.may_leave for stay in self._stays.values())
        return self._pool.unreserved + self._each * paused

    def needs(self, stream: Stream) -> int:
        """Pages that must be promised before the stream can come back."""
        return self._each if stream.place in ("host", "latents") else 0

    def _claim(self, stream: Stream) -> None:
        """Pages for the stream, from those paused longest if none are free. `free_pages` has said
        that there are enough."""
        for stay in self._longest_first("resident"):
            if self._pool.unreserved >= self._each:
                break
            if stay.may_leave:
                self._drop(stay)
        self._pool.reserve(self._each)
        stream.sink = self._pool.take_sink(stream.now.encoded.digest)

    def _let_go(self, stream: Stream) -> None:
        """The stream's pages and its reservation are others'."""
        self._pool.give_back(stream.sink)
        stream.window.close()
        stream.sink = NOWHERE
        self._pool.release(self._each)

    def forget(self, stream: Stream) -> None:
        """The stream has ended: its pages and its buffer come back, at once or when the copy that
        uses them has ended."""
        stay = self._stays.pop(stream.id, None)
        busy = stream.window.pages if stay is not None and stay.ticket is not None else []
        self._pool.hold(*busy)
        if stream.place not in ("host", "latents"):
            self._let_go(stream)
        if stay is not None and stay.ticket is not None:
            self._abandon(stay, busy)
        if stay is not None and stay.buffer is not None:
            self.buffers.give_back(stay.buffer)

    def _abandon(self, stay: Stay, pages: list[int]) -> None:
        """Stops a copy; `pages` of it stay reserved and held until it has ended."""
        assert self._transfers is not None and stay.ticket is not None and stay.buffer is not None
        self._pool.reserve(len(pages))
        self._limbo[stay.ticket] = (pages, stay.buffer)
        self._transfers.cancel(stay.ticket)
        stay.ticket, stay.buffer = None, None

    # ---- pausing and coming back ---------------------------------------------------------------

    def paused(self, stream: Stream, now: float) -> None:
        """From now on the pages are others' to ask for."""
        stay = self._stays.setdefault(stream.id, Stay(stream=stream, since=now))
        stay.since = now

    def wanted(self, stream: Stream) -> None:
        """The stream has its share of time again: its pages come back, or are filled again.
        `free_pages` has said that there are enough. Idempotent."""
        stay = self._stays.get(stream.id)
        if stay is None:
            return
        if stream.place == "offloading":
            self._abandon(stay, [])
            stream.place = "resident"
        elif stream.place == "host":
            self._restore(stay)
        elif stream.place == "latents":
            self._claim(stream)
            self._rebuild(stream)
        if stream.place == "resident":
            del self._stays[stream.id]

    def _restore(self, stay: Stay) -> None:
        assert self._transfers is not None and stay.buffer is not None
        stream = stay.stream
        self._claim(stream)
        for page in self._pool.take(stay.chunks):
            stream.window.adopt(page)
        pages = tuple(stream.window.readable())
        stay.ticket = self._transfers.restore(stream.id, pages, stay.buffer)
        self.copied.began(stay.ticket)
        stream.place = "restoring"

    def _rebuild(self, stream: Stream) -> None:
        """The chunks of its window are committed again before the next one begins."""
        stream.recommit()
        stream.place = "resident"

    def _drop(self, stay: Stay) -> None:
        """Leaves a stream its latents alone."""
        if stay.stream.place != "host":
            self._let_go(stay.stream)
        if stay.buffer is not None:
            self.buffers.give_back(stay.buffer)
        stay.buffer, stay.chunks, stay.stream.place = None, 0, "latents"
        self.copied.dropped += 1

    # ---- once a tick ---------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        """Whether a copy is under way, so that a tick soon is worth while."""
        return bool(self._limbo) or any(stay.ticket for stay in self._stays.values())

    def tick(self, now: float) -> None:
        """Ends what has ended, begins offloads that are due. Cheap if nobody is paused."""
        if self._transfers is not None and self.moving:
            for ticket in self._transfers.poll():
                self._ended(ticket)
        if self._stays:
            for stay in list(self._due(now)):
                self._evict(stay)

    def _due(self, now: float) -> Iterator[Stay]:
        """Paused streams that give up their pages now: after a while, or because few are free."""
        leaving = len(self._longest_first("offloading"))
        short = self._each * (SPARE_STREAMS - leaving) - self._pool.unreserved
        for stay in self._longest_first("resident"):
            rested = now - stay.since >= self._settings.offload_after_seconds
            if stay.may_leave and (short > 0 or (rested and self._mode(stay.stream) == "host")):
                short -= self._each
                yield stay

    def _longest_first(self, place: Place) -> list[Stay]:
        found = [stay for stay in self._stays.values() if stay.stream.place == place]
        return sorted(found, key=lambda stay: stay.since)

    def _evict(self, stay: Stay) -> None:
        if self._mode(stay.stream) == "latents":
            self._drop(stay)
            return
        assert self._transfers is not None
        buffer = self.buffers.take()
        if buffer is None:
            oldest = next(iter(self._longest_first("host")), None)
            if oldest is None:  # all buffers are on the way in or out
                return
            self._drop(oldest)
            buffer = self.buffers.take()
            assert buffer is not None
        stream = stay.stream
        stay.buffer, stay.chunks = buffer, len(stream.window)
        stay.ticket = self._transfers.offload(stream.id, tuple(stream.window.readable()), buffer)
        stream.place = "offloading"

    def _mode(self, stream: Stream) -> Literal["host", "latents"]:
        """By predicted cost: copying out and in, against the commits of the window again."""
        chunks = len(stream.window)
        if self._transfers is None or self.buffers.limit == 0 or chunks == 0:
            return "latents"
        rows = chunks * self._cost.row_seconds(self._settings.max_rows)
        copies = self.copied.seconds_for(chunks * self._transfers.page_bytes())
        return "host" if copies < rows else "latents"

    # ---- tickets that have ended ---------------------------------------------------------------

    def _ended(self, ticket: Ticket) -> None:
        self.copied.ended(ticket)
        self._trace.copied(ticket)
        if ticket in self._limbo:
            pages, buffer = self._limbo.pop(ticket)
            self._pool.give_back(*pages)
            self._pool.release(len(pages))
            self.buffers.give_back(buffer)
            return
        stay = self._stays[ticket.stream]
        assert stay.ticket is ticket, f"{ticket.stream}: a ticket that nobody waits for"
        stay.ticket = None
        if ticket.state != "done":
            self._failed(stay, ticket)
        elif ticket.lane == "copy-out":
            self.copied.offloads += 1
            self._let_go(stay.stream)
            stay.stream.place = "host"
        else:
            self.copied.restores += 1
            self._back(stay)

    def _back(self, stay: Stay) -> None:
        """The pages are filled again. A stream that paused meanwhile may be evicted again."""
        if stay.buffer is not None:
            self.buffers.give_back(stay.buffer)
        stay.buffer, stay.chunks, stay.stream.place = None, 0, "resident"
        if not stay.stream.paused:
            del self._stays[stay.stream.id]

    def _failed(self, stay: Stay, ticket: Ticket) -> None:
        """A copy that failed costs a rebuild, no stream."""
        log.warning("%s of %s: %s", ticket.lane, ticket.stream, ticket.error or ticket.state)
        self.copied.failed += 1
        if ticket.lane == "copy-out":
            self._drop(stay)
        else:
            self._rebuild(stay.stream)
            self._back(stay)

    # ---- the books -----------------------------------------------------------------------------

    def report(self) -> TransferStats:
        """What happened since the last report."""
        new, self._reported = self.copied.since(self._reported), replace(self.copied)
        return TransferStats(
            places=dict(Counter(stay.stream.place for stay in self._stays.values())),
            host_bytes=self.host_bytes,
            host_bytes_total=self.buffers.limit * self.buffer_bytes,
            copied_bytes=new.bytes,
            copied_seconds=new.seconds,
            exposed_seconds=new.exposed,
            waited_seconds=new.waited,
        )

    @property
    def host_bytes(self) -> int:
        return self.buffers.used * self.buffer_bytes

    def close(self) -> None:
        """Ends all copies and gives back what they used; call after every stream was forgotten."""
        if self._transfers is not None:
            self._transfers.close()
            for ticket in self._transfers.poll():
                self._ended(ticket)

    def check_integrity(self, streams: dict[str, Stream]) -> None:
        """Asserts that pages, promises and buffers are exactly what streams and copies hold."""
        holders = [s for s in streams.values() if s.place not in ("host", "latents")]
        limbo = [pages for pages, _ in self._limbo.values()]
        self._pool.check_integrity([*([s.sink, *s.window.pages] for s in holders), *limbo])
        promised = len(holders) * self._each + sum(len(pages) for pages in limbo)
        assert self._pool.reserved == promised, f"{self._pool.reserved}, not {promised} promised"
        kept = [stay.buffer for stay in self._stays.values() if stay.buffer is not None]
        kept += [buffer for _, buffer in self._limbo.values()]
        assert len(set(kept)) == len(kept) == self.buffers.used, f"{kept}: {self.buffers.used} used"
        for stay in self._stays.values():
            stay.check()
