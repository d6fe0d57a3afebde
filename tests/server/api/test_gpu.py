"""Figures of a GPU where there is one, and nothing at all where there is none."""

import sys

import pytest

from onbeat.server.api.gpu import Gpu, GpuFigures
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_nvml import FakeNvml, NotSupported, NVMLError
from tests.server.api.test_metrics import scraped


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    made = FakeNvml(("GPU-0", "GPU-1"))
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made


def test_a_device_tells_its_figures(nvml: FakeNvml) -> None:
    gpu = Gpu()
    assert not nvml.asked, "nothing before it is asked for"
    found = gpu.look()
    assert found == GpuFigures(
        name="Card GPU-0", busy=0.4, memory=3 << 30, memory_total=80 << 30, power=250.5
    )
    gpu.close()
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "name"),
    [("1", "Card GPU-1"), ("1,0", "Card GPU-1"), ("GPU-1", "Card GPU-1"), ("7", None)]
    + [("", None), ("-1", None)],
)
def test_it_is_the_one_that_the_engine_sees(nvml: FakeNvml, visible: str, name: str | None) -> None:
    found = Gpu(visible).look()
    assert (found.name if found else None) == name


def test_a_machine_without_one_is_no_error(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    nvml.broken["init"] = NVMLError
    gpu = Gpu()
    assert gpu.look() is None and gpu.look() is None
    assert nvml.asked == ["init"], "asked once"
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert Gpu().look() is None
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_a_device_that_does_not_measure_its_power_tells_the_rest(nvml: FakeNvml) -> None:
    nvml.broken["power"] = NotSupported
    found = Gpu().look()
    assert found is not None and found.power is None and found.view()["power_w"] is None


def test_a_device_that_stops_answering_is_left_out(nvml: FakeNvml) -> None:
    gpu = Gpu()
    assert gpu.look() is not None
    nvml.broken["busy"] = NVMLError
    assert gpu.look() is None
    del nvml.broken["busy"]
    assert gpu.look() is None


def test_a_server_shows_it_only_where_there_is_one(
    nvml: FakeNvml, start_server: StartServer
) -> None:
    server = start_server()
    until(lambda: "gpu" in server.http.get("/v1/overview").json()["machine"])
    shown = server.http.get("/v1/overview").json()["machine"]["gpu"]
    assert shown["busy"] == 0.4 and shown["memory_bytes"] == 3 << 30 and shown["power_w"] == 250.5
    found = scraped(server)
    assert found["onbeat_gpu_busy_ratio"] == 0.4 and found["onbeat_gpu_power_watts"] == 250.5
    assert found["onbeat_gpu_memory_bytes"] == 3 << 30
    nvml.broken["busy"] = NVMLError
    until(lambda: "gpu" not in server.http.get("/v1/overview").json()["machine"])


def test_a_server_without_one_has_no_such_figures(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    until(lambda: server.http.get("/v1/overview").json()["machine"]["front"] is not None)
    assert "gpu" not in server.http.get("/v1/overview").json()["machine"]
    assert not [name for name in scraped(server) if "gpu" in name]
