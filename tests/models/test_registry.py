"""Names to models: the embedded one, plug-ins, and names that nobody knows."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from onbeat.models import registry
from onbeat.models.registry import load_model, model_names


def test_the_embedded_model_is_registered() -> None:
    assert "toybox" in model_names()


def test_an_unknown_name_is_answered_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="'nope'; allowed: .*toybox"):
        load_model("nope")


def test_a_missing_weights_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-file"):
        load_model("toybox", weights=tmp_path / "no-such-file")


def test_plug_ins_are_found_and_called(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="mine", value="builtins:dict", group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert model_names() == ("mine", "mirror", "toybox")
    loaded: object = load_model("mine", device="cpu")
    assert loaded == {"weights": None, "device": "cpu"}
