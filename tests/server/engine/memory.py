"""What lies in the pages of a simulated device and in the host's buffers, told by name.

Watches the virtual executor: every forward must find in the pages that it reads the prompt and the
chunks that its stream remembers, and may write only to pages that nobody else holds. Copies move
the names layer by layer. What it is not: the books of the pool, which it does not believe.
"""

from collections.abc import Sequence
from itertools import islice

from onbeat.samplers.state import ChunkState
from onbeat.server.engine.device import Outcome
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.simulate.device import VirtualExecutor
from onbeat.server.engine.simulate.transfers import NoCopier
from onbeat.server.engine.streams import Stream

Content = tuple[object, ...]


class Memory(NoCopier):
    """A `PageCopier`; one for each engine."""

    def __init__(self, executor: VirtualExecutor, pool: KVPool) -> None:
        super().__init__()
        self._executor, self._pool = executor, pool
        self._device: dict[tuple[int, int], Content] = {}
        self._host: dict[tuple[int, int, int], Content] = {}
        self._run, self._prefill = executor.run, executor.prefill
        executor.run = self.run  # type: ignore[method-assign]
        executor.prefill = self.prefill  # type: ignore[method-assign]

    # ---- copies --------------------------------------------------------------------------------

    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        for i, page in enumerate(pages):
            self._host[buffer, layer, i] = self._device[layer, page]

    def copy_in(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        for i, page in enumerate(pages):
            self._device[layer, page] = self._host[buffer, layer, i]

    # ---- forwards ------------------------------------------------------------------------------

    def prefill(self, streams: Sequence[Stream]) -> list[tuple[Stream, str]]:
        failed = self._prefill(streams)
        lost = {stream.id for stream, _ in failed}
        for stream in streams:
            if stream.id not in lost:
                self._write(stream.sink, ("prompt", stream.now.encoded.digest))
        return failed

    def run(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        for stream in (*steps, *commits):
            self._check_reads(stream)
        written = {s.id: self._to_write(s) for s in commits}
        outcome = self._run(steps, commits)
        for stream in outcome.committed:
            for page, content in written[stream.id]:
                self._write(page, content)
        return outcome

    def _to_write(self, stream: Stream) -> list[tuple[int, Content]]:
        pages = stream.window.write_pages(stream.piece)
        shared = [page for page in pages if self._pool._references[page] != 1]
        assert not shared, f"{stream.id} writes to pages {shared} that others hold"
        states = islice(stream.uncommitted, stream.piece)
        return [(p, _named(state)) for p, state in zip(pages, states, strict=True)]

    def _write(self, page: int, content: Content) -> None:
        for layer in range(self.layers):
            self._device[layer, page] = content

    def _read(self, page: int) -> Content:
        found = {self._device.get((layer, page), ("nothing",)) for layer in range(self.layers)}
        assert len(found) == 1, f"layers of page {page} differ: {found}"
        return found.pop()

    def _check_reads(self, stream: Stream) -> None:
        """The prompt, and the newest of the chunks that are not to be committed. A full window has
        one chunk more than is remembered, which goes when the waiting one is committed."""
        prompt = self._read(stream.sink)
        digest = stream.now.encoded.digest
        assert prompt == ("prompt", digest), f"{stream.id} reads {prompt} for {digest!r}"
        history = list(stream.history)
        committed = history[: len(history) - len(stream.uncommitted)]
        pages = [self._read(page) for page in stream.window.readable()]
        known = min(len(pages), len(committed))
        pages = pages[len(pages) - known :]
        wanted = [_named(state) for state in committed[len(committed) - known :]]
        assert pages == wanted, f"{stream.id} reads {pages}, its chunks are {wanted}"


def _named(state: ChunkState) -> Content:
    return "chunk", state.seed, state.chunk
