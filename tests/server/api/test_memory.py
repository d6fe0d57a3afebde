"""Memory goes back after a rush of clients, once, and not while nobody left."""

from onbeat.server.api.memory import EVERY, Trimmer, give_back


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
