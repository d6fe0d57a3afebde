"""The KV pool: who holds which page, what is promised to whom, which page has which content.

A page is one chunk of all layers; kv_store.py holds its numbers. A page is written once, whole, and
never again while anybody holds it, so that holders can share it without copies: window.py takes a
fresh page for every commit. Books only, no tensors; not a cache: a page has a holder or is free.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol


class PageNeeds(Protocol):
    """What the pool must know of a model (`ModelSpec` has it)."""

    @property
    def window_chunks(self) -> int: ...


class PoolExhausted(Exception):
    """More pages were asked for than there are; admission should have refused."""


class KVPool:
    """Pages, their reference counts, reservations and names. One thread only.

    A reservation is a promise of so many pages. While every holder keeps within its own, `take`
    never fails, however many pages are shared. A name says what a page holds (a content hash).
    """

    def __init__(self, pages: int) -> None:
        self.total = pages
        self.reserved = 0
        self._free = list(range(pages))
        self._references = [0] * pages
        self._named: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._filled: set[int] = set()

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def unreserved(self) -> int:
        """Pages that may still be promised."""
        return self.total - self.reserved

    # ---- promises ------------------------------------------------------------------------------

    def reserve(self, count: int) -> None:
        """Promises `count` pages. Raises PoolExhausted, promising none."""
        if count > self.unreserved:
            raise PoolExhausted(
                f"{count} pages to be reserved, {self.unreserved} of {self.total} are not"
            )
        self.reserved += count

    def release(self, count: int) -> None:
        """Takes a promise of `count` pages back."""
        self.reserved -= count
        assert self.reserved >= 0, f"{count} pages released, {self.reserved + count} reserved"

    # ---- pages ---------------------------------------------------------------------------------

    def take(self, count: int) -> list[int]:
        """`count` pages with one reference each. Raises PoolExhausted, taking none."""
        if count > len(self._free):
            raise PoolExhausted(f"{count} pages wanted, {len(self._free)} of {self.total} free")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._references[page] = 1
        return pages

    def hold(self, *pages: int) -> None:
        """One more reference to each page; every one must have a holder."""
        for page in pages:
            assert self._references[page] > 0, f"page {page} is free"
            self._references[page] += 1

    def give_back(self, *pages: int) -> None:
        """Drops one reference of each page; the last one frees it."""
        for page in pages:
            self._references[page] -= 1
            assert self._references[page] >= 0, f"page {page} given back twice"
            if self._references[page] == 0:
                self._filled.discard(page)
                name = self._names.pop(page, None)
                if name is not None:
                    del self._named[name]
                self._free.append(page)

    # ---- content -------------------------------------------------------------------------------

    def name(self, page: int, content: str) -> None:
        """Says what a held page has in it; a content that has a page already keeps that one."""
        assert self._references[page] > 0, f"page {page} is free"
        if content not in self._named and page not in self._names:
            self._named[content] = page
            self._names[page] = content

    def find(self, content: str) -> int | None:
        """The page with this content, with one more reference; None if nobody holds one."""
        page = self._named.get(content)
        if page is not None:
            self._references[page] += 1
        return page

    def take_sink(self, content: str) -> int:
        """The page of an encoded prompt, shared with every stream that has the same one."""
        page = self.find(content)
        if page is None:
            (page,) = self.take(1)
            self.name(page, content)
        return page

    def is_filled(self, sink: int) -> bool:
        """Whether a sink's keys and values have been written."""
        return sink in self._filled

    def mark_filled(self, sink: int) -> None:
        self._filled.add(sink)

    # ---- truth ---------------------------------------------------------------------------------

    def check_integrity(self, holdings: Iterable[Iterable[int]] | None = None) -> None:
        """Asserts that books agree: free pages have no reference, name or content; no more pages
        are used than promised. `holdings`: the pages of each holder, which then must be exactly the
        references."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        for page, count in enumerate(self._references):
            assert (count == 0) == (page in free), f"page {page}: {count} references"
        assert not free & self._filled, f"free pages marked filled: {sorted(free & self._filled)}"
        assert not free & set(self._names), "a content points to a free page"
        assert self._named == {name: page for page, name in self._names.items()}, "names differ"
        assert 0 <= self.reserved <= self.total, f"{self.reserved} of {self.total} pages reserved"
        if holdings is not None:
            self._check_holdings(holdings)

    def _check_holdings(self, holdings: Iterable[Iterable[int]]) -> None:
        held = Counter(page for pages in holdings for page in pages)
        known = {page: count for page, count in enumerate(self._references) if count}
        assert dict(held) == known, f"held {dict(held)}, referenced {known}"
        assert self.used <= self.reserved, f"{self.used} pages used, {self.reserved} reserved"


def pages_per_stream(spec: PageNeeds) -> int:
    """What one stream holds at most: window, the page being written, and its prompt."""
    return spec.window_chunks + 2
