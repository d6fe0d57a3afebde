"""The KV pool: who holds which page, and the page tables of rows. Books only, no tensors.

A page is one chunk of all layers; kv_store.py holds its numbers. A stream owns a ring of window
pages, one more than it reads, so that a commit never overwrites a page that the same forward reads.
Prompt (sink) pages are shared by content between streams. What it is not: a cache; a page has a
holder or is free.
"""

from typing import Protocol


class PageNeeds(Protocol):
    """What the pool must know of a model (`ModelSpec` has it)."""

    @property
    def window_chunks(self) -> int: ...


class PoolExhausted(Exception):
    """More pages were asked for than are free; admission should have refused."""


class KVPool:
    """Pages and their reference counts. One thread only."""

    def __init__(self, pages: int) -> None:
        self.total = pages
        self._free = list(range(pages))
        self._references = [0] * pages
        self._sinks: dict[str, int] = {}
        self._filled: set[int] = set()

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """`count` pages with one reference each. Raises PoolExhausted, taking none."""
        if count > len(self._free):
            raise PoolExhausted(f"{count} pages wanted, {len(self._free)} of {self.total} free")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._references[page] = 1
        return pages

    def take_sink(self, prompt: str) -> int:
        """The page of a prompt, shared with every stream that has the same one."""
        page = self._sinks.get(prompt)
        if page is None:
            page = self._sinks[prompt] = self.take(1)[0]
        else:
            self._references[page] += 1
        return page

    def is_filled(self, sink: int) -> bool:
        """Whether a sink's keys and values have been written."""
        return sink in self._filled

    def mark_filled(self, sink: int) -> None:
        self._filled.add(sink)

    def give_back(self, *pages: int) -> None:
        """Drops one reference of each page; the last one frees it."""
        for page in pages:
            self._references[page] -= 1
            assert self._references[page] >= 0, f"page {page} given back twice"
            if self._references[page] == 0:
                self._forget_sink(page)
                self._free.append(page)

    def _forget_sink(self, page: int) -> None:
        self._filled.discard(page)
        for prompt, sink in self._sinks.items():
            if sink == page:
                del self._sinks[prompt]
                return

    def check_integrity(self) -> None:
        """Asserts that every page is either free without references or held."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        for page, count in enumerate(self._references):
            assert (count == 0) == (page in free), f"page {page}: {count} references"
        assert not free & self._filled, f"free pages marked filled: {sorted(free & self._filled)}"
        assert not free & set(self._sinks.values()), "a prompt points to a free page"


class Window:
    """The ring of pages that holds a stream's committed chunks, oldest overwritten first."""

    def __init__(self, pages: list[int]) -> None:
        self.pages = pages
        self._committed = 0
        self._first = 0

    def __len__(self) -> int:
        return min(self._committed - self._first, len(self.pages) - 1)

    def next_page(self) -> int:
        """Where the next commit writes; never among `readable`."""
        return self.pages[self._committed % len(self.pages)]

    def advance(self) -> None:
        self._committed += 1

    def forget(self, keep: int) -> None:
        """Leaves only the newest `keep` chunks to be read."""
        self._first = max(self._first, self._committed - keep)

    def readable(self) -> list[int]:
        """The pages of the window, oldest to newest."""
        n = len(self.pages)
        return [self.pages[i % n] for i in range(self._committed - len(self), self._committed)]

    def table(self, sink: int) -> list[int]:
        """A row's page table: the sink, then the window right-aligned, -1 where there is none."""
        pages = self.readable()
        return [sink, *[-1] * (len(self.pages) - 1 - len(pages)), *pages]


def pages_per_stream(spec: PageNeeds) -> int:
    """What one stream holds at most: window, the page being written, and its prompt."""
    return spec.window_chunks + 2
