"""Costs that are wrong, because they were measured in a busy moment: the engine gets over it."""

import pytest

from onbeat.server.engine.calibrate import given
from onbeat.server.engine.calibration import Calibration
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.messages import StreamOpened
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import latent_bytes
from onbeat.server.engine.snapshot import pack_snapshot
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC

OPEN = EngineSettings(decode_lane=False, admission=False)


def _costly() -> CostModel:
    return CostModel({1: 10.0})


def _calibrated(compute: CostModel) -> Calibration:
    return given(SPEC, compute=compute, decode=CostModel({1: 0.002}))


def test_an_idle_engine_that_would_refuse_its_first_stream_measures_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    rig.engine.cost.restart(_costly())
    measured = []

    def measure(*, quickly: bool) -> Calibration:
        assert quickly, "somebody waits"
        measured.append(1)
        return _calibrated(CostModel({1: 0.004, 2: 0.005}, margin=1.1))

    monkeypatch.setattr(rig.engine.costs, "_measured", measure)
    rig.open("a")
    rig.run(0.5)
    assert len(measured) == 1 and not rig.refused() and rig.of(StreamOpened)
    rig.engine.cost.restart(_costly())
    rig.open("b")
    rig.run(0.1)
    assert len(measured) == 1, "a busy engine learns from what it runs"
    assert rig.refused()


def test_a_stream_that_ran_before_a_restart_is_not_asked_for_its_time_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    monkeypatch.setattr(rig.engine.costs, "_measured", lambda quickly: _calibrated(_costly()))
    rig.engine.cost.restart(_costly())
    snapshot = pack_snapshot(next_chunk=3, latents=[bytes(latent_bytes(SPEC))] * 2)
    rig.open("a", snapshot=snapshot, promised=True)
    rig.open("moved here", snapshot=snapshot)
    rig.run(0.1)
    assert [e.stream_id for e in rig.refused()] == ["moved here"] and rig.of(StreamOpened)


def test_chunks_are_dropped_in_their_own_time_and_not_for_ever() -> None:
    """A device that cannot keep up at all: no burst of drops into the future, and now and then a
    chunk is made, late, so that the engine notices when the device is fast again."""
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(1.0)
    rig.engine.cost.restart(_costly())
    made = len(rig.ready())
    rig.run(4.0)
    assert len(rig.dropped()) <= 4.0 / SPEC.chunk_seconds + 2
    assert len(rig.ready()) > made
    rig.run(12.0)
    assert rig.on_time_ratio(since=rig.clock.now() - 1.0) == 1.0
    rig.check()
