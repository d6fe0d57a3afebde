"""The quality ladder's way down and up, and a stream's (m,k) record."""

from onbeat.server.engine.ladder import FirmRecord, Ladder, levels_of


def test_levels_are_named_and_start_at_full() -> None:
    assert [(v.name, v.steps) for v in levels_of(3)] == [
        ("full", 3),
        ("2 of 3 steps", 2),
        ("1 of 3 steps", 1),
    ]
    assert len(levels_of(1)) == 1


def test_one_early_end_is_no_reason_and_two_are() -> None:
    ladder = Ladder(calm_chunks=5)
    ladder.ended_early(4)
    assert ladder.level == 0
    ladder.ended()
    ladder.ended_early(4)
    assert ladder.current(4).steps == 3


def test_a_drop_costs_a_level_at_once_and_there_is_a_lowest() -> None:
    ladder = Ladder(calm_chunks=5)
    for _ in range(9):
        ladder.dropped(4)
    assert ladder.current(4).steps == 1 and ladder.level == 3


def test_the_way_back_takes_calm_and_then_goes_faster() -> None:
    ladder = Ladder(calm_chunks=5)
    for _ in range(3):
        ladder.dropped(4)
    steps = []
    for _ in range(10):
        ladder.ended()
        steps.append(ladder.current(4).steps)
    assert steps == [1, 1, 1, 1, 2, 2, 3, 3, 4, 4]


def test_pressure_on_the_way_back_starts_the_calm_again() -> None:
    ladder = Ladder(calm_chunks=5)
    for _ in range(3):
        ladder.dropped(4)
    for _ in range(5):
        ladder.ended()
    ladder.ended_early(4)
    assert ladder.current(4).steps == 1
    for _ in range(4):
        ladder.ended()
    assert ladder.current(4).steps == 1


def test_a_ladder_that_does_not_bend_stays_full() -> None:
    ladder = Ladder(calm_chunks=5, bends=False)
    ladder.dropped(4)
    assert ladder.current(4).name == "full"


def test_fewer_asked_steps_have_fewer_levels() -> None:
    ladder = Ladder(calm_chunks=5)
    for _ in range(3):
        ladder.dropped(4)
    assert ladder.current(2).steps == 1


def test_credit_is_what_the_last_chunks_leave() -> None:
    record = FirmRecord(m=3, k=5)
    assert record.credit == 2
    for on_time in (False, True, False):
        record.note(on_time)
    assert record.credit == 0 and record.broken == 0
    record.note(False)
    assert record.credit == -1 and record.broken == 1
    for _ in range(4):
        record.note(True)
    assert record.credit == 2


def test_a_record_counts_every_window_that_broke() -> None:
    record = FirmRecord(m=29, k=30)
    for i in range(60):
        record.note(i not in (3, 40))
    assert record.broken == 0
    record.note(False)
    assert record.broken == 1
