"""What ran when, of the last seconds: a bounded ring of small records, made as things happen.

Recording is an append; nothing is formatted here. The records (records.py) travel to the front as
they are and become a trace file there (perfetto.py). What it is not: counters (stats.py), or a log.
"""

from collections import deque
from collections.abc import Sequence

from onbeat.server.engine.device import Decoded, TaskDone
from onbeat.server.engine.messages import TraceReply, TraceRequest
from onbeat.server.engine.records import (
    AnyRecord,
    Chunk,
    DecodedChunk,
    Detail,
    Forward,
    Planned,
    Row,
    Span,
)
from onbeat.server.engine.scheduler import Candidate, Plan
from onbeat.server.engine.streams import Stream
from onbeat.server.engine.transfer import Ticket
from onbeat.server.vocabulary import DropCause

LONGEST_SECONDS = 10.0
MOST_RECORDS = 16_384
"""About 10 s of a full engine; a longer past is forgotten."""


class Trace:
    """The ring. The tick thread writes; `on` False makes every call return at once."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self._records: deque[AnyRecord] = deque(maxlen=MOST_RECORDS)

    def since(self, instant: float) -> list[AnyRecord]:
        """Records that ended after `instant`, oldest first. From any thread."""
        return [record for record in list(self._records) if record.end > instant]

    def planned(
        self,
        start: float,
        end: float,
        candidates: Sequence[Candidate],
        plan: Plan,
        *,
        pages: int,
        row: float,
    ) -> None:
        """A plan that decided something. `row`: predicted seconds of a forward of one row."""
        if not self.on or not (plan.rows or plan.finish or plan.drops):
            return
        slack = min((c.deadline - end - c.rows_left * row for c in candidates), default=None)
        if slack == float("inf"):
            slack = None
        rows, finished, dropped = len(plan.rows), len(plan.finish), len(plan.drops)
        self._records.append(Planned(end, start, rows, finished, dropped, pages, slack))

    def ahead(self, start: float, end: float) -> None:
        """A plan for the next tick, made while this one's forward ran."""
        if self.on and end > start:
            self._records.append(Span(end, "host", "plan ahead", start, {}))

    def forward(
        self, start: float, end: float, steps: Sequence[Stream], commits: Sequence[Stream]
    ) -> None:
        """A batch that ran: each step row's state is the one after it."""
        if self.on:
            rows = [_step(stream) for stream in steps]
            rows += [Row(s.id, s.chunk - 1, "commit", 0, 0, s.piece) for s in commits]
            self._records.append(Forward(end, start, rows))

    def prefill(self, start: float, end: float, streams: Sequence[Stream]) -> None:
        """Prompts whose keys and values were written before a forward."""
        if self.on:
            rows = [Row(s.id, s.chunk, "prefill", 0, 0, 1) for s in streams]
            self._records.append(Forward(end, start, rows))

    def decoded(self, result: Decoded) -> None:
        if self.on:
            job, middle = result.job, result.ready_at - result.convert
            start = middle - result.decode
            self._records.append(
                DecodedChunk(result.ready_at, start, middle, job.stream, job.chunk)
            )

    def task(self, done: TaskDone, stream: str) -> None:
        """Other work of the decode lane, for a stream."""
        if self.on and done.ended > done.started:
            detail: Detail = {"stream": stream}
            self._records.append(Span(done.ended, "decode", done.task.name, done.started, detail))

    def chunk(
        self,
        at: float,
        stream: str,
        chunk: int,
        *,
        released: float,
        deadline: float,
        playout: float,
        cause: DropCause | None = None,
        dropped: bool = False,
    ) -> None:
        """A live chunk lies in its slot, or never will."""
        if self.on:
            self._records.append(
                Chunk(at, stream, chunk, released, deadline, playout, cause, dropped)
            )

    def copied(self, ticket: Ticket) -> None:
        """A copy of a stream's pages that has ended."""
        if self.on and ticket.started_at is not None and ticket.ended_at is not None:
            name = f"{len(ticket.pages)} pages of {ticket.stream}"
            detail: Detail = {"bytes": ticket.bytes_done, "state": ticket.state}
            self._records.append(
                Span(ticket.ended_at, ticket.lane, name, ticket.started_at, detail)
            )

    def reply(self, request: TraceRequest, now: float) -> TraceReply:
        """The answer to the front, as long as was asked for."""
        seconds = min(request.seconds, LONGEST_SECONDS)
        return TraceReply(
            request=request.request, start=now - seconds, end=now, records=self.since(now - seconds)
        )


def _step(stream: Stream) -> Row:
    state = stream.state
    assert state is not None, stream.id
    return Row(stream.id, stream.chunk, "step", state.step, state.steps, 1)
