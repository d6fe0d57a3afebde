"""Log lines: as JSON one object each, errors and extras inside."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from onbeat.server.logs import JsonFormatter, announce, quiet_libraries
from tests.server.api.conftest import Server, one_server

__all__ = ["one_server"]


def line(message: str, *arguments: object, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("onbeat.x", logging.WARNING, "f", 1, message, arguments, None)
    vars(record).update(more)
    made: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return made


def test_a_line_is_one_object() -> None:
    found = line("%d chunks\nlate", 3, session="s1", created=0.25)
    assert found["message"] == "3 chunks\nlate" and found["level"] == "warning"
    assert found["time"] == "1970-01-01T00:00:00.250Z"
    assert found["logger"] == "onbeat.x" and found["session"] == "s1" and found["process"] > 0


def test_errors_keep_their_traceback() -> None:
    try:
        raise ValueError("no luck")
    except ValueError:
        found = line("failed", exc_info=sys.exc_info())
    assert "ValueError: no luck" in found["error"] and "\n" in found["error"]


def test_what_is_no_json_is_text() -> None:
    assert "object" in line("x", thing=object())["thing"]


def test_what_is_always_shown_has_the_form_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    announce("http://127.0.0.1:8000/", "text")
    announce("no weights", "json", who="onbeat engine", to=sys.stderr)
    shown = capsys.readouterr()
    assert shown.out == "onbeat: http://127.0.0.1:8000/\n"
    found = json.loads(shown.err)
    assert (found["message"], found["logger"]) == ("no weights", "onbeat.engine")


def test_what_nobody_caught_is_json_too() -> None:
    program = (
        "import threading, warnings; from onbeat.server.logs import set_up_logging;"
        "set_up_logging('warning', 'json'); warnings.warn('old');"
        "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join(); int('x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = [json.loads(each) for each in done.stderr.splitlines()]
    assert done.returncode == 1 and len(lines) == 3
    assert "old" in lines[0]["message"] and "ZeroDivisionError" in lines[1]["error"]
    assert "ValueError" in lines[2]["error"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_process_writes_them_all_in_one_form(form: str) -> None:
    program = (
        "import logging; from onbeat.server.logs import set_up_logging;"
        f"set_up_logging('info', '{form}'); logging.getLogger('uvicorn.error').info('hello');"
        "logging.getLogger('onbeat').warning('here')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and not done.stdout
    if form == "json":
        assert [json.loads(each)["message"] for each in lines] == ["hello", "here"]
    else:
        assert lines[1].endswith("WARNING onbeat: here")


def test_no_line_is_as_long_as_whoever_asks_wants() -> None:
    program = (
        "import logging; from onbeat.server.logs import set_up_logging;"
        "set_up_logging('info', 'text');"
        "access = logging.getLogger('uvicorn.access'); path = '/' + 70000 * 'x';"
        "access.info('%s - \"%s %s HTTP/%s\" %d', '127.0.0.1:1', 'GET', path, '1.1', 404)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert len(line) < 1200 and line.endswith('xxx... (70001 characters) HTTP/1.1" 404')


@pytest.mark.parametrize(
    "body", [b"no boundary at all", b"--x\r\nbad header\r\n\r\n1\r\n--x--", b"--x\rContent"]
)
def test_a_broken_form_is_answered_and_not_logged(
    body: bytes, one_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    set_aside = logging.getLogger("python_multipart")
    level = set_aside.level
    quiet_libraries()
    try:
        kind = {"content-type": "multipart/form-data; boundary=x"}
        answer = one_server.http.post("/v1/videos", content=body, headers=kind)
    finally:
        set_aside.setLevel(level)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_form"
    assert not [r for r in caplog.records if r.name.startswith("python_multipart")]
