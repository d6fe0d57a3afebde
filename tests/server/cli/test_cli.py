"""The command line: flags reach settings, wrong values are named, nothing heavy loads for help."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onbeat.server import cli
from onbeat.server.cli import options
from onbeat.server.config import Settings, SettingsError
from onbeat.server.engine.calibration import knee

runner = CliRunner()


def test_every_setting_is_a_flag() -> None:
    text = runner.invoke(cli.app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text


def test_flags_reach_the_settings(tmp_path: Path) -> None:
    seen: list[tuple[Settings, bool]] = []

    def command(settings: Settings, extra: bool = False) -> None:
        seen.append((settings, extra))

    run = options.with_settings(command)
    run(extra=True, config=None, port=1234, data_dir=tmp_path)
    settings, extra = seen[0]
    assert (settings.port, settings.data_dir, extra) == (1234, tmp_path, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--seconds", "0"], "seconds: 0.0; allowed: above 0"),
        (["--seconds", "nan"], "seconds: nan; allowed"),
        (["--seconds", "1e9"], "at most 3600"),
        (["--seed", "-1"], "seed: -1; allowed: 0 to 9223372036854775807"),
        (["--seed", str(2**63)], "seed: 9223372036854775808; allowed"),
        (["--steps", "9"], "steps: 9; allowed: 1 to 4"),
        (["--reference", "/no/such.png"], "reference: /no/such.png cannot be read"),
        (["--reference", __file__], "reference: a file that cannot be read"),
        (["-o", "x.gif"], "ends in none of .mp4, .webm, .zip, .wav; use --format"),
        (["--format", "gif"], "format: 'gif'; allowed: mp4, webm, png, wav"),
        (["-o", "-", "--format", "png"], "allowed: mp4, webm, wav for a pipe"),
        (["-o", "/no/such/folder/x.mp4"], "does not exist"),
        (["-o", "/proc/x.mp4"], "/proc/x.mp4 cannot be written"),
    ],
)
def test_generate_names_wrong_flags(arguments: list[str], expected: str, tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "x.mp4")] if "-o" not in arguments else []
    result = runner.invoke(cli.app, ["generate", "red ball", *out, *arguments])
    assert result.exit_code == 2
    flat = " ".join(result.output.replace("│", " ").split())
    assert expected in flat


def test_generate_makes_a_file_and_pipes_a_video(tmp_path: Path) -> None:
    """The real engine and model, in a process of their own as users have it."""
    command = [sys.executable, "-m", "onbeat.server", "generate", "a red ball", "--seconds", "0.4"]
    for out in (str(tmp_path / "a.webm"), "-"):
        run = subprocess.run([*command, "--seed", "7", "-o", out], capture_output=True, timeout=220)
        told = run.stderr if out == "-" else run.stdout
        assert run.returncode == 0 and b"seed 7, understood: " in told, run.stderr
        steps = re.findall(r"step (\d+)/(\d+)", run.stderr.decode())
        assert steps == [("4", "6"), ("6", "6")], "the whole is known from the start"
        data = run.stdout if out == "-" else Path(out).read_bytes()
        assert data[:4] == b"\x1aE\xdf\xa3" or data[4:8] == b"ftyp"
    assert [path.name for path in tmp_path.iterdir()] == ["a.webm"]


def test_generate_refuses_an_empty_prompt(tmp_path: Path) -> None:
    result = runner.invoke(cli.app, ["generate", " ", "-o", str(tmp_path / "x.mp4")])
    assert result.exit_code == 2 and "is blank" in result.output


def test_settings_errors_are_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "onbeat.server", "serve", "--port", "70000"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert run.returncode == 2
    assert run.stderr.startswith("onbeat: port: ") and run.stderr.count("\n") == 1


def test_bench_refuses_a_trace_that_has_no_folder() -> None:
    """Before it measures: nothing measured is lost."""
    result = runner.invoke(cli.app, ["bench", "streams", "--trace", "/no/such/folder/t.json"])
    assert result.exit_code == 2
    assert "/no/such/folder" in "".join(result.output.replace("│", " ").split())


def test_models_lists_toybox() -> None:
    result = runner.invoke(cli.app, ["models", "--json"])
    assert "toybox" in json.loads(result.output)["models"]


def test_the_front_does_not_load_torch() -> None:
    code = "import sys, onbeat.server.api.app, onbeat.server.cli; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert run.stdout.strip() == "False", run.stderr


def test_knee_is_where_rows_per_second_stop_rising() -> None:
    assert knee({1: 4.0, 2: 5.0, 4: 8.0, 8: 15.9, 16: 32.0}) == 4
    assert knee({1: 4.0}) == 1


def test_a_taken_port_is_named() -> None:
    from onbeat.server.cli.serve import _listen
    from onbeat.server.config import load_settings

    first = _listen(load_settings(port=0))
    port = first.getsockname()[1]
    first.listen()
    with pytest.raises(SettingsError, match=f"port: {port} on 127.0.0.1 cannot be used"):
        _listen(load_settings(port=port))
    first.close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("nohost.invalid", "host: 'nohost.invalid' is no address and no known name"),
        ("x" * 70 + ".example", "is no address and no known name"),
        ("192.0.2.1", "host: 192.0.2.1 is not an address of this machine"),
        ("2001:db8::1", "host: 2001:db8::1 is not an address of this machine"),
    ],
)
def test_a_wrong_host_is_not_blamed_on_the_port(host: str, expected: str) -> None:
    from onbeat.server.cli.serve import _listen
    from onbeat.server.config import load_settings

    with pytest.raises(SettingsError, match=expected):
        _listen(load_settings(host=host, port=0))


def test_the_version_is_an_option() -> None:
    import onbeat

    assert runner.invoke(cli.app, ["--version"]).output.strip() == onbeat.__version__


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--model", "nope"], "onbeat: model: 'nope'; allowed: mirror, toybox"),
        (["--weights", "/no/such/file"], "onbeat: weights: /no/such/file is not a file"),
        (
            ["--artifacts", "gopher://x"],
            "onbeat: artifacts: 'gopher://x'; allowed: a folder, or s3://bucket or "
            "s3://bucket/prefix; keys in AWS_*",
        ),
        (
            ["--artifacts", "/proc/results"],
            "onbeat: artifacts: /proc/results cannot be used (No such file or directory)",
        ),
    ],
)
def test_serve_refuses_what_it_cannot_use_before_it_starts(
    flags: list[str], expected: str, tmp_path: Path
) -> None:
    folder = str(tmp_path / "data")
    run = subprocess.run(
        [sys.executable, "-m", "onbeat.server", "serve", "--port", "0", "--data-dir", folder]
        + flags,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (run.returncode, run.stderr.strip()) == (2, expected)


def test_serve_ends_if_its_engine_cannot_start(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_text("these are no weights")
    flags = ["--port", "0", "--data-dir", str(tmp_path / "data"), "--weights", str(weights)]
    flags += ["--log-format", "json"]
    run = subprocess.run(
        [sys.executable, "-m", "onbeat.server", "serve", *flags],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 1
    lines = [json.loads(line) for line in (run.stdout + run.stderr).splitlines()]
    assert any("is not a safetensors file" in line["message"] for line in lines)
    last = lines[-1]["message"]
    assert last.startswith(f"the engine could not start (--weights {weights}): ")
    assert last.count(str(weights)) == 2 and "is not a safetensors file" in last, "and why"
    assert not any("error" in line for line in lines), "no traceback"


def test_a_data_folder_that_cannot_be_made_names_what_is_in_its_way() -> None:
    from onbeat.server.config import load_settings
    from onbeat.server.launch import prepare_data_dir

    with pytest.raises(SettingsError) as raised:
        prepare_data_dir(load_settings(data_dir="/proc/x/y"))
    said = "data_dir: /proc/x/y cannot be made, as /proc takes no new folder"
    assert str(raised.value).startswith(said) and "--data-dir" in str(raised.value)


def test_two_servers_do_not_share_a_data_folder(tmp_path: Path) -> None:
    from onbeat.server.config import load_settings
    from onbeat.server.launch import lock_data_dir

    settings = load_settings(data_dir=tmp_path)
    lock = lock_data_dir(settings)
    with pytest.raises(SettingsError, match=r"used by another server \(process \d+\)"):
        lock_data_dir(settings)
    lock.close()
    lock_data_dir(settings).close()
