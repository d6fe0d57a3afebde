"""Windows: tables right-aligned, commits to pages that nobody reads, forks that share pages."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.window import Window

CHUNKS = 3


def test_tables_are_right_aligned_and_slide() -> None:
    window = Window(KVPool(8), CHUNKS)
    assert window.table(7) == [7, -1, -1, -1]
    for _ in range(2):
        window.advance()
    assert window.table(7) == [7, -1, *window.readable()]
    for _ in range(3):
        window.advance()
    assert window.table(7) == [7, *window.readable()] and len(window) == CHUNKS


def test_the_rows_of_a_piece_read_the_ones_before_them() -> None:
    window = Window(KVPool(8), CHUNKS)
    window.advance()
    (old,) = window.readable()
    first, second, third = window.write_pages(3)
    assert window.tables(7, 3) == [
        [7, -1, -1, old],
        [7, -1, old, first],
        [7, old, first, second],
    ]
    window.advance(3)
    assert window.readable() == [first, second, third]


def test_a_window_that_forgets_fills_again_from_what_it_keeps() -> None:
    pool = KVPool(8)
    window = Window(pool, CHUNKS)
    window.advance(3)
    newest = window.readable()[-1]
    window.forget(1)
    assert window.table(9) == [9, -1, -1, newest] and pool.used == 1
    window.advance()
    assert window.readable()[0] == newest and len(window) == 2
    window.forget(2)
    assert len(window) == 2
    window.forget(0)
    assert window.table(9) == [9, -1, -1, -1] and pool.used == 0


def test_a_fork_shares_pages_until_it_writes_its_own() -> None:
    pool = KVPool(20)
    window = Window(pool, CHUNKS)
    window.advance(3)
    fork = window.fork()
    assert fork.readable() == window.readable() and pool.used == 3
    for _ in range(2):
        fork.advance()
        window.advance()
    assert fork.readable()[0] == window.readable()[0]
    assert not set(fork.readable()[1:]) & set(window.readable()) and pool.used == 5
    window.close()
    assert pool.used == 3
    fork.close()
    assert pool.used == 0


class Forks(RuleBasedStateMachine):
    """Streams open, commit pieces, forget, fork and close in any order; contents are tracked
    beside the pages, so that a page written while somebody reads it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = KVPool(5 * (CHUNKS + 2))
        self.windows: list[Window] = []
        self.expected: list[list[int]] = []
        self.content: dict[int, int] = {}
        self.written = 0

    @rule()
    def open(self) -> None:
        if self.pool.unreserved >= CHUNKS + 2:
            self.pool.reserve(CHUNKS + 2)
            self.windows.append(Window(self.pool, CHUNKS))
            self.expected.append([])

    @rule(which=st.integers(0, 99), count=st.integers(1, CHUNKS))
    def commit(self, which: int, count: int) -> None:
        if not self.windows:
            return
        window = self.windows[which % len(self.windows)]
        own = self.expected[which % len(self.windows)]
        count = min(count, window.room)
        pages = window.write_pages(count)
        assert not any(set(pages) & set(w.readable()) for w in self.windows)
        for page in pages:
            self.written += 1
            self.content[page] = self.written
            own.append(self.written)
        window.advance(count)
        del own[:-CHUNKS]

    @rule(which=st.integers(0, 99), keep=st.integers(0, CHUNKS))
    def forget(self, which: int, keep: int) -> None:
        if self.windows:
            i = which % len(self.windows)
            self.windows[i].forget(keep)
            del self.expected[i][: max(0, len(self.expected[i]) - keep)]

    @rule(which=st.integers(0, 99))
    def fork(self, which: int) -> None:
        if self.windows and self.pool.unreserved >= CHUNKS + 2:
            i = which % len(self.windows)
            self.pool.reserve(CHUNKS + 2)
            self.windows.append(self.windows[i].fork())
            self.expected.append(list(self.expected[i]))

    @rule(source=st.integers(0, 99), which=st.integers(0, 99))
    def adopt(self, source: int, which: int) -> None:
        """A page is named by what it holds, found by that name, and read by one more window."""
        if not self.windows or not self.windows[source % len(self.windows)].readable():
            return
        page = self.windows[source % len(self.windows)].readable()[-1]
        self.pool.name(page, f"content {self.content[page]}")
        found = self.pool.find(f"content {self.content[page]}")
        assert found == page
        i = which % len(self.windows)
        self.windows[i].adopt(page)
        self.expected[i].append(self.content[page])
        del self.expected[i][:-CHUNKS]

    @rule(which=st.integers(0, 99))
    def close(self, which: int) -> None:
        if self.windows:
            i = which % len(self.windows)
            self.windows.pop(i).close()
            self.expected.pop(i)
            self.pool.release(CHUNKS + 2)

    @invariant()
    def books_agree(self) -> None:
        self.pool.check_integrity([w.pages for w in self.windows])
        for window, expected in zip(self.windows, self.expected, strict=True):
            assert [self.content[p] for p in window.readable()] == expected

    def teardown(self) -> None:
        while self.windows:
            self.close(0)
        assert (self.pool.used, self.pool.reserved) == (0, 0)


Forks.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestForks = Forks.TestCase
