"""Dashboard and rules ask only for metrics that the server has; the reference names them all."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from onbeat.server.api.metrics import Metrics
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_nvml import FakeNvml

DOCS = Path(__file__).parents[3] / "docs"
FOLDER = DOCS / "grafana"
NAME = re.compile(r"\bonbeat_[a-z0-9_]+")
RECORDED = re.compile(r"\bonbeat:[a-z0-9_:]+")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, start_server: StartServer) -> Server:
    """One with a GPU, so that all metrics are there."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return start_server()


def families(server: Server) -> dict[str, set[str]]:
    """Names of families, and of their samples with labels."""
    server.session()
    until(lambda: "onbeat_kv_pages 64.0" in server.http.get("/metrics").text)
    until(lambda: "onbeat_gpu_power_watts" in server.http.get("/metrics").text)
    text = server.http.get("/metrics").text
    return {
        f.name + ("_total" if f.type == "counter" else ""): {s.name for s in f.samples}
        for f in text_string_to_metric_families(text)
        if not f.name.endswith("_created")
    }


def board() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((FOLDER / "onbeat.json").read_text())
    return made


def expressions() -> list[str]:
    panels = [target["expr"] for p in board()["panels"] for target in p.get("targets", [])]
    return panels + [rule["expr"] for rule in rules()]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_metric_that_is_asked_for_is_exported(server: Server) -> None:
    exported = {sample for samples in families(server).values() for sample in samples}
    asked = {name for text in expressions() for name in NAME.findall(text)}
    assert len(asked) > 30
    assert asked <= exported, asked - exported


def test_what_the_alerts_use_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = {name for rule in rules() if "alert" in rule for name in RECORDED.findall(rule["expr"])}
    assert used and used <= recorded
    assert all(rule["annotations"]["summary"] for rule in rules() if "alert" in rule)


def test_the_board_is_whole() -> None:
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or panel["targets"]
    for text in expressions():
        for left, right in ("()", "[]", "{}"):
            assert text.count(left) == text.count(right), text


@pytest.mark.parametrize("name", ["compose", "prometheus", "datasource", "dashboards"])
def test_the_files_around_it_can_be_read(name: str) -> None:
    text = (FOLDER / f"{name}.yml").read_text()
    assert yaml.safe_load(text)
    for mounted in re.findall(r"\./([\w.]+):", text):
        assert (FOLDER / mounted).is_file(), mounted


def test_the_reference_names_every_metric(server: Server) -> None:
    text = (DOCS / "observability.md").read_text()
    named = set(re.findall(r"`(onbeat_[a-z0-9_]+)", text))
    exported = {n for n in families(server) if not n.startswith("onbeat_process_")}
    assert exported <= named, exported - named
    assert named - exported <= {"onbeat_process_"}, named - exported


def test_one_prefix() -> None:
    names = [metric.name for metric in Metrics().registry.collect()]
    assert all(name.startswith("onbeat_") for name in names)
