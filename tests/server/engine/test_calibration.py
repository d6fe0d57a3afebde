"""The file of a calibration: whole, under its own key, or not used at all."""

import logging
from pathlib import Path

import msgspec
import pytest

from onbeat.server.engine.calibration import Calibration, CalibrationCache, CostTable, knee

KEY = {"device": "a", "program": "b"}


def table(**changed: object) -> CostTable:
    plain = CostTable(
        kind="step",
        tokens=20,
        window=12,
        p50_ms={1: 10.0, 4: 16.0},
        p99_ms={1: 12.0, 4: 20.0},
        margin=1.2,
    )
    return msgspec.structs.replace(plain, **changed)


def calibration(*tables: CostTable) -> Calibration:
    both = [table(), table(kind="decode")]
    return Calibration(tables=list(tables or both), measured_at=1e9, took=2.0)


def ours(*tables: CostTable) -> bytes:
    """A file under our key."""
    made = Calibration(tables=list(tables), measured_at=1e9, took=2.0, key=KEY)
    return msgspec.json.encode(made)


def cache(folder: Path, **more: object) -> CalibrationCache:
    return CalibrationCache(folder=folder, key=KEY, **more)  # type: ignore[arg-type]


def test_what_was_kept_is_found_under_the_same_key_only(tmp_path: Path) -> None:
    folder = tmp_path / "calibration"
    assert cache(folder).load() is None
    cache(folder).save(calibration())
    found = cache(folder).load()
    assert found is not None and found.source == "cached"
    assert found.table("step") == table() and found.measured_at == 1e9
    assert CalibrationCache(folder=folder, key={**KEY, "device": "c"}).load() is None
    assert cache(folder, recalibrate=True).load() is None
    assert [p.suffix for p in folder.iterdir()] == [".json"], "nothing half-written is left"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"tables": [], "measured_at": 1.0, "took": 1.0, "format": 0}',
        msgspec.json.encode(calibration()),
        ours(),
        ours(table()),
        ours(table(p50_ms={}), table(kind="decode")),
        ours(table(p50_ms={4: 9.0}, p99_ms={4: 9.0}), table(kind="decode")),
        ours(table(margin=-1.0), table(kind="decode")),
        ours(table(slowed=0.0), table(kind="decode")),
        ours(table(p50_ms={1: 0.0, 4: 1.0}), table(kind="decode")),
        ours(table(p50_ms={1: 1e-300, 4: 1.0}), table(kind="decode")),
    ],
)
def test_a_broken_or_foreign_file_is_said_and_not_used(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache(tmp_path).path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert cache(tmp_path).load() is None
    assert "measuring again" in caplog.text and str(cache(tmp_path).path) in caplog.text
    cache(tmp_path).save(calibration())
    assert cache(tmp_path).load() is not None


def test_a_folder_that_cannot_be_written_costs_no_more_than_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        cache(tmp_path / "file").save(calibration())
    cache(tmp_path).path.mkdir()
    cache(tmp_path).save(calibration())
    assert caplog.text.count("was not kept") == 2
    assert len(list(tmp_path.iterdir())) == 2, "nothing half-written is left"


def test_kinds_that_were_not_measured_are_named() -> None:
    with pytest.raises(KeyError, match="prefill"):
        calibration().table("prefill")


def test_the_knee_is_where_rows_per_second_stop_rising() -> None:
    assert knee({1: 4.0, 2: 5.0, 4: 8.0, 8: 15.9, 16: 32.0}) == 4
    assert knee({1: 4.0}) == 1
