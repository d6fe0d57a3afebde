"""Copies that take time on a virtual clock: `Transfers` for the simulator and for tests.

Each lane works its tickets off in order, layer by layer, at a given speed; what has passed by now
is settled whenever somebody asks. A copier may do the real copying at those instants. What it is
not: a model of a bus that lanes share.
"""

from collections import deque
from collections.abc import Callable

from onbeat.server.engine.settings import Clock
from onbeat.server.engine.transfer import LANES, Lane, PageCopier, Ticket, TicketState, new_ticket


class NoCopier:
    """Pages of `layers` layers with `page_bytes` bytes each, which nobody has to copy."""

    def __init__(self, *, layers: int = 4, page_bytes: int = 1 << 18) -> None:
        self.layers = layers
        self._page_bytes = page_bytes

    def page_bytes(self) -> int:
        return self._page_bytes

    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        """There is nothing to copy."""

    copy_in = copy_out


class TimedTransfers:
    """`copying`: tickets of each lane that have not ended. `bytes_per_second` is each lane's."""

    def __init__(self, copier: PageCopier, clock: Clock, *, bytes_per_second: float = 10e9) -> None:
        self._copier, self._clock = copier, clock
        self.bytes_per_second = bytes_per_second
        self.copying: dict[Lane, deque[Ticket]] = {lane: deque() for lane in LANES}
        self._free_at = dict.fromkeys(LANES, -float("inf"))
        self._ended: list[Ticket] = []
        self._closed = False

    def page_bytes(self) -> int:
        return self._copier.layers * self._copier.page_bytes()

    def start(self, wake: Callable[[], None]) -> None:
        """The loop asks `next_at` instead of being woken."""

    def offload(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        return self._submit("copy-out", stream, pages, buffer)

    def restore(self, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        return self._submit("copy-in", stream, pages, buffer)

    def _submit(self, lane: Lane, stream: str, pages: tuple[int, ...], buffer: int) -> Ticket:
        ticket = new_ticket(self._copier, stream, lane, pages, buffer, self._clock.now())
        if self._closed:
            self._end(ticket, self._clock.now(), "cancelled")
        else:
            self.copying[lane].append(ticket)
        return ticket

    @property
    def next_at(self) -> float:
        """When the next ticket ends; infinite if none is under way."""
        firsts = [(lane, queue[0]) for lane, queue in self.copying.items() if queue]
        return min((self._begin(lane, t) + self._whole(t) for lane, t in firsts), default=_NEVER)

    def _begin(self, lane: Lane, ticket: Ticket) -> float:
        return max(ticket.queued_at, self._free_at[lane])

    def _whole(self, ticket: Ticket) -> float:
        return ticket.bytes / self.bytes_per_second

    def cancel(self, ticket: Ticket) -> None:
        """Ends at once if it waits, else with the layer under way."""
        self._settle()
        ticket.cancelled = True
        if ticket.state == "queued":
            self.copying[ticket.lane].remove(ticket)
            self._end(ticket, self._clock.now(), "cancelled")

    def poll(self) -> list[Ticket]:
        self._settle()
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self._settle()
        self._closed = True
        for queue in self.copying.values():
            while queue:
                self._end(queue.popleft(), self._clock.now(), "cancelled")

    def _settle(self) -> None:
        for lane, queue in self.copying.items():
            while queue and self._advance(lane, queue[0]):
                queue.popleft()

    def _advance(self, lane: Lane, ticket: Ticket) -> bool:
        """Copies the layers that are due by now; whether the ticket has ended."""
        begin, now = self._begin(lane, ticket), self._clock.now()
        if begin > now:
            return False
        ticket.state, ticket.started_at = "copying", begin
        copy = self._copier.copy_out if lane == "copy-out" else self._copier.copy_in
        each = self._whole(ticket) / ticket.layers
        while ticket.layers_done < ticket.layers:
            at = begin + each * (ticket.layers_done + 1)
            if at > now:
                return False
            if ticket.cancelled:
                self._end(ticket, at, "cancelled")
                return True
            try:
                copy(ticket.layers_done, ticket.pages, ticket.buffer)
            except (RuntimeError, MemoryError) as error:
                ticket.error = f"{type(error).__name__}: {error}"
                self._end(ticket, at, "failed")
                return True
            ticket.layers_done += 1
        self._end(ticket, begin + self._whole(ticket), "done")
        return True

    def _end(self, ticket: Ticket, at: float, state: TicketState) -> None:
        ticket.state, ticket.ended_at = state, at
        self._free_at[ticket.lane] = at
        self._ended.append(ticket)


_NEVER = float("inf")
