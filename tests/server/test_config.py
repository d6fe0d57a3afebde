"""Settings: precedence, and errors that name field, value and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from onbeat.server.config import SettingsError, load_settings, resolve_threads


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "onbeat.toml"
    path.write_text('port = 1111\nhost = "127.0.0.2"\nmax_rows = 3\n')
    return path


def test_flags_win_over_environment_over_file_over_defaults(
    monkeypatch: pytest.MonkeyPatch, config_file: Path
) -> None:
    monkeypatch.setenv("ONBEAT_PORT", "2222")
    monkeypatch.setenv("ONBEAT_HOST", "127.0.0.3")
    settings = load_settings(config_file=config_file, port=3333, host=None)
    assert (settings.port, settings.host, settings.max_rows) == (3333, "127.0.0.3", 3)
    assert settings.policy == "edf-s"


def test_the_environment_names_the_file(monkeypatch: pytest.MonkeyPatch, config_file: Path) -> None:
    monkeypatch.setenv("ONBEAT_CONFIG", str(config_file))
    assert load_settings().port == 1111


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"port": 70000}, "port: 70000 is not allowed"),
        ({"policy": "lifo"}, "'time-slice', 'fcfs-chunk' or 'process-per-stream'"),
        ({"colour": "red"}, "colour: unknown setting; allowed: "),
        ({"headroom": 0}, "headroom: 0 is not allowed"),
        ({"api_key": "geheim"}, "api_key: the value given is not allowed"),
        ({"webhook_secret": "geheim"}, "webhook_secret: the value given is not allowed"),
    ],
)
def test_wrong_flags_are_named(flags: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(**flags)
    assert expected in str(raised.value) and "geheim" not in str(raised.value)


def test_unknown_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONBEAT_PROT", "1")
    with pytest.raises(SettingsError, match="unknown ONBEAT_PROT; allowed: .*ONBEAT_PORT"):
        load_settings()


@pytest.mark.parametrize("text", ["port = ", "prot = 1"])
def test_wrong_files_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"wrong\.toml|prot: unknown setting"):
        load_settings(config_file=path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read"):
        load_settings(config_file=tmp_path / "none.toml")


def test_threads_are_resolved_to_at_least_one_each() -> None:
    assert min(resolve_threads(load_settings())) >= 1
    assert resolve_threads(load_settings(compute_threads=3, decode_threads=2)) == (3, 2)
