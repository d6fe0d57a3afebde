"""How log lines look: text for people, or one JSON object a line for what collects them.

Set once at the start of a process, the front's and the engine's alike. Not what is logged, or when.
"""

import json
import logging
import os
import sys
import threading
import time
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LONGEST_TEXT = 1000
"""Characters of one value in a line: addresses and names come from whoever sends them."""
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """`time` (RFC 3339, UTC), `level`, `logger`, `message`, `process`; `error` with the traceback;
    and what the call gave as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": os.getpid(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def bounded(record: logging.LogRecord) -> bool:
    """A filter that shortens the long texts among a line's values, and lets all lines through."""
    if isinstance(record.args, tuple):
        record.args = tuple(_short(value) for value in record.args)
    return True


def _short(value: object) -> object:
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]}... ({len(value)} characters)"


def _utc(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


def set_up_logging(level: str, form: LogFormat) -> None:
    """Everything of this process goes to standard error, in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(TEXT))
    handler.addFilter(bounded)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    quiet_libraries()
    if form == "json":
        _log_what_python_prints()


def quiet_libraries() -> None:
    """Those that tell of what is no trouble of this server's."""
    logging.getLogger("aioice").setLevel(logging.WARNING)  # a line per candidate pair otherwise
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # a broken form is answered


def announce(text: str, form: LogFormat, *, who: str = "onbeat", to: TextIO | None = None) -> None:
    """One line that is shown at every level, in the form of the log; `to` None: standard output."""
    if form == "json":
        level = {"levelno": logging.INFO, "levelname": "INFO"}
        name = who.replace(" ", ".")
        line = JsonFormatter().format(logging.makeLogRecord({"name": name, "msg": text} | level))
    else:
        line = f"{who}: {text}"
    print(line, file=to or sys.stdout, flush=True)


def _log_what_python_prints() -> None:
    """Warnings, and errors that nobody caught, would be lines of their own."""
    log = logging.getLogger("onbeat")
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: log.critical(
        "the process failed", exc_info=(kind, error, trace)
    )
    threading.excepthook = lambda failed: log.critical("a thread failed", exc_info=failed.exc_value)
