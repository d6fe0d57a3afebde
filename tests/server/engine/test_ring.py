"""The shared ring: what one side writes the other reads; slots are never handed out twice."""

import os

import pytest

from onbeat.server.engine.ring import Ring, RingSlots, anonymous_file


def test_two_maps_of_one_file_share_bytes() -> None:
    descriptor = anonymous_file("test")
    writer = Ring(descriptor, slots=3, slot_bytes=100)
    reader = Ring(descriptor, slots=3, slot_bytes=100)
    view = writer.slot(2)
    view[:5] = b"hello"
    view.release()
    assert reader.read(2, 5) == b"hello"
    assert reader.read(1, 100) == bytes(100)
    writer.close()
    reader.close()
    os.close(descriptor)


def test_slots_run_out_and_come_back() -> None:
    descriptor = anonymous_file("test")
    slots = RingSlots(Ring(descriptor, slots=2, slot_bytes=10))
    taken = [slots.acquire(), slots.acquire()]
    assert all(taken) and slots.acquire() is None
    assert slots.used == slots.total == 2
    first = taken[0]
    assert first is not None
    slots.release(first[0])
    assert slots.used == 1
    with pytest.raises(AssertionError, match="released twice"):
        slots.release(first[0])
    os.close(descriptor)
