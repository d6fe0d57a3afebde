"""How many jobs may wait: all, and of one key beside the others."""

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from onbeat.server.jobs.room import QueueFull, Room, ShareFull
from onbeat.server.jobs.store import JobStore
from tests.server.jobs.test_turns import request


def filled(room: Room, keys: str) -> Counter[str]:
    """Jobs by key once none of them, taking turns, may add one more."""
    waiting, eager = Counter[str](), list(keys)
    while eager:
        for key in list(eager):
            try:
                room.check(waiting.total(), waiting[key])
                waiting[key] += 1
            except (QueueFull, ShareFull):
                eager.remove(key)
    return waiting


@pytest.mark.parametrize("most", [1, 2, 3, 10, 1000])
def test_one_key_alone_leaves_half_to_others(most: int) -> None:
    found = filled(Room(most=most), "a")
    assert found["a"] == max(1, (most + 1) // 2)


def test_keys_that_come_later_get_as_much_as_is_left() -> None:
    room = Room(most=1000)
    assert filled(room, "a")["a"] == 500
    assert filled(room, "ab") == {"a": 300, "b": 300}
    many = filled(room, "abcdefghi")
    assert min(many.values()) >= 78 and many.total() <= 711


def test_after_greedy_keys_a_quarter_of_all_is_left_for_others() -> None:
    """Each takes what it gets before the next one comes."""
    room, waiting, got = Room(most=1000), 0, []
    while waiting < 1000:
        own = 0
        with contextlib.suppress(QueueFull, ShareFull):
            while True:
                room.check(waiting, own)
                waiting, own = waiting + 1, own + 1
        got.append(own)
    assert got[:4] == [500, 167, 56, 18] and len(got) > 250 and min(got) == 1


def test_a_number_of_ones_own() -> None:
    room = Room(most=10, of_a_key=7)
    assert filled(room, "a")["a"] == 7
    assert filled(room, "abc").total() == 10
    with pytest.raises(QueueFull, match="10"):
        room.check(10, 0)
    with pytest.raises(ShareFull, match="7"):
        room.check(7, 7)


def test_a_store_counts_by_key(place: Path | str) -> None:
    store, room = JobStore(place), Room(most=10, of_a_key=2)
    for owner in ("a", "b", "a"):
        store.add(request(owner), room=room)
    with pytest.raises(ShareFull, match="2"):
        store.add(request("a"), room=room)
    store.add(request("b"), room=room)
    job = store.claim("me")
    assert job is not None and job.request.owner == "a"
    store.add(request("a"), room=room)
    assert store.counts()["queued"] == 4
    store.close()
