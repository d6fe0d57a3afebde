"""The transfer engine: asynchronous copies between pages of the device and host memory, by ticket.

Two lanes, copy-out (offload) and copy-in (restore), each works its tickets off in order, layer by
layer, beside the ticks of the compute lane. A ticket always ends: done, failed or cancelled; an
error lies in the ticket and nowhere else. What it is not: the decision what to move
(residency.py), or the copying of tensors (page_copy.py).
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from onbeat.server.engine.settings import Clock

Lane = Literal["copy-in", "copy-out"]
TicketState = Literal["queued", "copying", "done", "failed", "cancelled"]
LANES: tuple[Lane, ...] = ("copy-in", "copy-out")


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """One copy of a stream's pages. Instants are seconds on the engine's clock. Written by its
    lane alone; others may read it at any time, and ask it to stop by `cancel`."""

    stream: str
    lane: Lane
    pages: tuple[int, ...]
    """Pages of the device, in the order in which they lie in the buffer."""
    buffer: int
    layers: int
    layer_bytes: int
    queued_at: float
    layers_done: int = 0
    state: TicketState = "queued"
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    cancelled: bool = False
    """Asked to stop; the state follows at the next layer."""

    @property
    def bytes(self) -> int:
        return self.layers * self.layer_bytes

    @property
    def bytes_done(self) -> int:
        return self.layers_done * self.layer_bytes

    @property
    def ended(self) -> bool:
        """Whether nothing reads or writes its pages and its buffer any more."""
        return self.ended_at is not None

    @property
    def seconds(self) -> float:
        """From the first byte to the last; 0 if it never started or goes on."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class Transfers(Protocol):
    """Takes tickets, hands them back when they have ended. Called by the tick thread."""

    def page_bytes(self) -> int:
        """Of one page, all layers, keys and values."""

    def offload(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        """Copies `pages` to the host's `buffer`, in that order."""

    def restore(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        """Copies the buffer's first len(pages) pages to `pages`."""

    def cancel(self, ticket: Ticket) -> None:
        """Asks a ticket to end early. It still comes back by `poll`."""

    def poll(self) -> list[Ticket]:
        """Tickets that have ended since the last call."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begins; `wake` is called when a ticket has ended."""

    def close(self) -> None:
        """Cancels what is under way and waits until it has ended. Idempotent."""


class PageCopier(Protocol):
    """The tensors behind a transfer (page_copy.py). Calls come from the lanes' threads."""

    @property
    def layers(self) -> int: ...

    def page_bytes(self) -> int:
        """Of one page of one layer, keys and values."""

    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None: ...

    def copy_in(self, layer: int, pages: tuple[int, ...], buffer: int) -> None: ...


def new_ticket(
    copier: PageCopier, stream: str, lane: Lane, pages: tuple[int, ...], buffer: int, now: float
) -> Ticket:
    """A copy of `pages` that waits in `lane` since `now`."""
    return Ticket(
        stream=stream,
        lane=lane,
        pages=pages,
        buffer=buffer,
        layers=copier.layers,
        layer_bytes=len(pages) * copier.page_bytes(),
        queued_at=now,
    )


class CopyLanes:
    """`Transfers` on a thread for each lane. With `threaded` False, `poll` does the work itself,
    for clocks that are not the system's."""

    def __init__(self, copier: PageCopier, clock: Clock, *, threaded: bool = True) -> None:
        self._copier, self._clock, self._threaded = copier, clock, threaded
        self._changed = threading.Condition()
        self._queues: dict[Lane, deque[Ticket]] = {lane: deque() for lane in LANES}
        self._ended: deque[Ticket] = deque()
        self._threads: list[threading.Thread] = []
        self._wake: Callable[[], None] = _nobody
        self._closed = False

    def page_bytes(self) -> int:
        return self._copier.layers * self._copier.page_bytes()

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._threaded:
            self._threads = [
                threading.Thread(target=self._loop, args=(lane,), name=lane, daemon=True)
                for lane in LANES
            ]
            for thread in self._threads:
                thread.start()

    def offload(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        return self._submit(stream, "copy-out", pages, buffer)

    def restore(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        return self._submit(stream, "copy-in", pages, buffer)

    def _submit(self, stream: str, lane: Lane, pages: tuple[int, ...], buffer: int) -> Ticket:
        ticket = new_ticket(self._copier, stream, lane, pages, buffer, self._clock.now())
        with self._changed:
            if self._closed:
                self._end(ticket, "cancelled")
            else:
                self._queues[lane].append(ticket)
                self._changed.notify_all()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        with self._changed:
            ticket.cancelled = True
            if ticket in self._queues[ticket.lane]:
                self._queues[ticket.lane].remove(ticket)
                self._end(ticket, "cancelled")

    def poll(self) -> list[Ticket]:
        if not self._threads:
            for lane in LANES:
                while (ticket := self._next(lane)) is not None:
                    self._run(ticket)
        with self._changed:
            ended = list(self._ended)
            self._ended.clear()
        return ended

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                while queue:
                    self._end(queue.popleft(), "cancelled")
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    # ---- the lanes -----------------------------------------------------------------------------

    def _loop(self, lane: Lane) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queues[lane] or self._closed)
                if self._closed:
                    return
            ticket = self._next(lane)
            if ticket is not None:
                self._run(ticket)
                self._wake()

    def _next(self, lane: Lane) -> Ticket | None:
        with self._changed:
            if not self._queues[lane]:
                return None
            ticket = self._queues[lane].popleft()
            ticket.state, ticket.started_at = "copying", self._clock.now()
        return ticket

    def _run(self, ticket: Ticket) -> None:
        copy = self._copier.copy_out if ticket.lane == "copy-out" else self._copier.copy_in
        try:
            for layer in range(ticket.layers):
                if ticket.cancelled or self._closed:
                    break
                copy(layer, ticket.pages, ticket.buffer)
                ticket.layers_done = layer + 1
        except Exception as error:  # whatever it is, the ticket tells it; the lane goes on
            ticket.error = f"{type(error).__name__}: {error}"
        with self._changed:
            whole = ticket.layers_done == ticket.layers
            self._end(ticket, "failed" if ticket.error else "done" if whole else "cancelled")

    def _end(self, ticket: Ticket, state: TicketState) -> None:
        """With the lock held."""
        ticket.state, ticket.ended_at = state, self._clock.now()
        self._ended.append(ticket)


def _nobody() -> None:
    """Nobody waits for tickets yet."""
