"""Log lines: as JSON one object each, errors and extras inside."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from onbeat.server.logs import JsonFormatter


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
