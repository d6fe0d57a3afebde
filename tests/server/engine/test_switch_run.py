"""Twelve streams at toybox's measured costs on a clock of our own: a recache, a clip, a join."""

import pytest

from onbeat.server.engine.messages import ControlStream
from onbeat.server.engine.pieces import PIECE_ROWS
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.drive import Rig, affine
from tests.server.engine.test_reference import clip

STREAMS = 12


@pytest.mark.parametrize("first", [0.008, 0.012])
def test_a_recache_a_clip_and_a_join_cost_the_others_nothing(first: float) -> None:
    rig = Rig(EngineSettings(decode_lane=False, admission=False), step_cost=affine(first, 0.0025))
    rig.model.encode_cost = 0.004
    rig.model.prefill_cost = 0.002
    others = [f"s{i}" for i in range(1, STREAMS)]
    for name in ("s0", *others):
        rig.open(name, prompt=f"red ball {name}")
    rig.run(4.0)
    since = rig.clock.now()
    rig.engine.submit(
        ControlStream(stream_id="s0", revision=1, prompt="blue ball", transition="recache")
    )
    rig.run(2.0)
    rig.open("clip", prompt="a clip", reference=clip(100))
    rig.run(2.0)
    rig.open("joined", prompt="a join")
    rig.run(2.0)
    for name in others:
        due = [e for e in rig.ready(name) if e.playout_at >= since]
        assert len(due) >= 25 and all(e.on_time for e in due), name
        assert not [e for e in rig.dropped(name) if e.playout_at >= since], name
    assert rig.applied() and not rig.dropped("s0")
    assert all(e.on_time for name in ("s0", "clip", "joined") for e in rig.ready(name))
    assert len(rig.ready("clip")) >= 8 and len(rig.ready("joined")) >= 6
    assert max(rig.model.batches) <= 16 + PIECE_ROWS
    rig.check()
