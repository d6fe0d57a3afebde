"""The bench runs every kind of work on a real engine's memory and leaves no page behind."""

from pathlib import Path
from typing import get_args

import pytest

from onbeat.server.engine.calibration import Kind
from onbeat.server.engine.fingerprint import calibration_key
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.measure import Bench
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.fake import SPEC, FakeModel


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("pages", [6, 40], ids=["pages for one", "pages for all"])
def test_every_kind_runs(kind: Kind, pages: int) -> None:
    model, pool = FakeModel(), KVPool(pages)
    settings = EngineSettings(max_rows=4, max_decode_rows=2)
    bench = Bench(model, pool, KVStore(SPEC, pages), settings)
    with bench.ready(kind) as run:
        for rows in (1, 2):
            run(rows)
    if kind == "step":
        assert model.batches[-2:] == [1, 2]
        assert not any(model.commits)
    if kind == "prefill":
        assert model.prefills == 3
    assert pool.used == 0
    pool.check_integrity()


def test_steps_and_commits_share_a_forward() -> None:
    model, pool = FakeModel(), KVPool(40)
    bench = Bench(model, pool, KVStore(SPEC, 40), EngineSettings(max_rows=4))
    with bench.forwards() as run:
        run(1, 2)
        run(0, 4)
    assert model.batches[-2:] == [3, 4] and model.commits[-2:] == [2, 4]
    assert pool.used == 0


def test_the_fingerprint_follows_what_times_depend_on() -> None:
    settings = EngineSettings()
    key = calibration_key(SPEC, settings, None)
    assert key == calibration_key(SPEC, settings, None)
    assert key != calibration_key(SPEC, EngineSettings(compute_threads=2), None)
    assert key == calibration_key(SPEC, EngineSettings(headroom=0.5), None), "no time depends on it"
    assert "onbeat" in key["program"] and key["device"]


def test_the_fingerprint_knows_a_weights_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"one")
    first = calibration_key(SPEC, EngineSettings(), path)
    path.write_bytes(b"two")
    assert first != calibration_key(SPEC, EngineSettings(), path)
