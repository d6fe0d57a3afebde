"""How long before playout a chunk should be done: what is usual, what is promised, what is late."""

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.lead import promised, usual
from onbeat.server.engine.policies.edf_s import EdfS
from tests.server.engine.test_scheduler import COST, row

DECODE = CostModel({1: 0.008, 4: 0.024}, margin=1.5)


def test_most_chunks_find_a_part_of_their_batch_in_front_of_them() -> None:
    alone = usual(DECODE, batch=0, backlog=0, rows=4, delivery=0.03)
    whole = promised(DECODE, batch=20, rows=4, delivery=0.03)
    half = usual(DECODE, batch=20, backlog=0, rows=4, delivery=0.03)
    assert abs(alone - 0.038) < 1e-9 and abs(half - alone - 10 * 0.006) < 1e-9
    assert abs(whole - (0.03 + 0.012 + 20 * 0.006)) < 1e-9


def test_a_queue_that_is_really_there_is_waited_for() -> None:
    near = usual(DECODE, batch=4, backlog=0, rows=4, delivery=0.0)
    assert usual(DECODE, batch=4, backlog=12, rows=4, delivery=0.0) > near + 0.05


def test_time_kept_for_encoding_is_no_reason_to_give_a_chunk_up() -> None:
    tight = row("tight", 0.008)
    assert EdfS(max_rows=16).plan(0.0, [tight], COST).drops == ("tight",)
    kept = EdfS(max_rows=16).plan(0.0, [tight._replace(grace=0.03)], COST)
    assert kept.drops == () and kept.rows == ("tight",)
