"""Memory goes back after a rush of clients, once, and not while nobody left."""

import gc
import weakref

from onbeat.server.api.memory import EVERY, Trimmer, give_back, set_aside


def test_it_is_due_once_connections_have_ended() -> None:
    trimmer = Trimmer()
    assert not trimmer.due(3, 0.0)
    assert trimmer.due(2, 1.0)
    assert not trimmer.due(2, 100.0), "nothing ended since"
    assert not trimmer.due(5, 101.0)


def test_a_rush_waits_its_turn_and_is_not_forgotten() -> None:
    trimmer = Trimmer()
    trimmer.due(9, 0.0)
    assert trimmer.due(8, 1.0)
    assert not trimmer.due(0, 2.0)
    assert not trimmer.due(0, 1.0 + EVERY - 0.1)
    assert trimmer.due(0, 1.0 + EVERY)


def test_giving_back_does_not_fail() -> None:
    assert give_back() in (True, False)


def test_rings_of_what_came_later_are_found_and_what_was_there_is_left_out() -> None:
    early = ring()
    set_aside()
    try:
        assert gc.get_freeze_count() and gc.is_tracked(early)
        late = weakref.ref(ring())
        give_back()
        assert late() is None
    finally:
        gc.unfreeze()


class Node:
    """Something that holds itself."""

    def __init__(self) -> None:
        self.ring = self


def ring() -> Node:
    return Node()
