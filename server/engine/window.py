"""A stream's window of committed chunks as pages of the pool.

A commit writes to a fresh page and drops the oldest once the window is full, so that it never
overwrites what the same forward, or another stream, reads. What it is not: the books (pool.py).
"""

from collections import deque
from collections.abc import Iterable

from onbeat.server.engine.pool import KVPool


class Window:
    """The last `chunks` committed pages, oldest first, and pages for the commits under way."""

    def __init__(self, pool: KVPool, chunks: int, pages: Iterable[int] = ()) -> None:
        """`pages`: committed ones, oldest first, whose references become this window's."""
        self._pool, self._chunks = pool, chunks
        self._committed = deque(pages)
        self._fresh: list[int] = []

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def pages(self) -> list[int]:
        """All pages that it holds."""
        return [*self._committed, *self._fresh]

    @property
    def room(self) -> int:
        """How many chunks one forward may commit: all but the oldest page stay readable in it."""
        return self._chunks + 1 - len(self._committed)

    def readable(self) -> list[int]:
        """The pages of the window, oldest to newest."""
        return list(self._committed)

    def table(self, sink: int) -> list[int]:
        """A row's page table: the sink, then the window right-aligned, -1 where there is none."""
        return self._table(sink, self.readable())

    def _table(self, sink: int, pages: list[int]) -> list[int]:
        return [sink, *[-1] * (self._chunks - len(pages)), *pages]

    # ---- commits -------------------------------------------------------------------------------

    def write_pages(self, count: int = 1) -> list[int]:
        """Where the next `count` commits write; never among `readable`, held by nobody else."""
        assert 1 <= count <= self.room, f"{count} commits, {self.room} pages to write to"
        self._fresh += self._pool.take(max(0, count - len(self._fresh)))
        return self._fresh[:count]

    def tables(self, sink: int, count: int) -> list[list[int]]:
        """Page tables of the next `count` commits: each reads the ones before it."""
        pages = [*self._committed, *self.write_pages(count)]
        ends = range(len(self._committed), len(self._committed) + count)
        return [self._table(sink, pages[max(0, end - self._chunks) : end]) for end in ends]

    def advance(self, count: int = 1) -> None:
        """The next `count` commits have been written."""
        self._committed.extend(self.write_pages(count))
        del self._fresh[:count]
        self.forget(self._chunks)

    def adopt(self, page: int) -> None:
        """Takes over a reference to a page that holds the next commit already."""
        self._committed.append(page)
        self.forget(self._chunks)

    # ---- less and more holders -----------------------------------------------------------------

    def forget(self, keep: int) -> None:
        """Leaves only the newest `keep` chunks to be read."""
        while len(self._committed) > keep:
            self._pool.give_back(self._committed.popleft())

    def fork(self) -> "Window":
        """A second window on the same chunks."""
        pages = self.readable()
        self._pool.hold(*pages)
        return Window(self._pool, self._chunks, pages)

    def close(self) -> None:
        """Gives everything back; usable again, from empty."""
        self._pool.give_back(*self.pages)
        self._committed.clear()
        self._fresh.clear()
