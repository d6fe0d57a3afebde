"""Work done again and again: at once or after a while, until it is closed."""

import threading

from onbeat.server.jobs.regular import Regularly


def test_it_goes_on_until_it_is_closed() -> None:
    third, count = threading.Event(), iter(range(1 << 30))

    def work() -> None:
        if next(count) == 2:
            third.set()

    keeping = Regularly("test", 0.001, work)
    keeping.start()
    assert third.wait(60) and not keeping.closing
    keeping.close()
    done = next(count)
    keeping.close()
    assert keeping.closing and next(count) == done + 1


def test_the_first_time_may_be_at_once() -> None:
    called = threading.Event()
    keeping = Regularly("test", 3600.0, called.set, at_once=True)
    keeping.start()
    assert called.wait(60)
    keeping.close()


def test_what_never_began_is_closed_too() -> None:
    calls: list[int] = []
    keeping = Regularly("test", 0.001, lambda: calls.append(1), at_once=True)
    keeping.close()
    assert keeping.closing and not calls
