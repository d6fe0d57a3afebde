"""A server to be killed, many times over: whole but for its engine, which is synthetic.

`python -m tests.server.jobs.kill_target` imports everything once, then forks a server for each line
of JSON on its input (`Order`) and writes the server's process number. So a round costs no start of
Python. What it is not: who kills and checks (killing.py).
"""

import json
import os
import pwd
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvicorn
from sqlalchemy import event

from onbeat.server.api import webhooks as api_webhooks
from onbeat.server.api.app import create_app
from onbeat.server.api.memory import set_aside
from onbeat.server.api.post import post
from onbeat.server.config import Settings, SettingsError, load_settings
from onbeat.server.jobs import owner, store, webhooks
from onbeat.server.jobs.encode import PictureSegment
from onbeat.server.launch import check_database, prepare_data_dir
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia
from tests.server.jobs import diary

MOST_LOSSES = 1000
"""On a machine so busy that servers are killed before they get round to a chunk, jobs would fail of
the usual number, rightly."""
CALLS = ("replace", "fdatasync", "fsync", "link", "unlink", "commit", "encode", "webhook")
"""What a server can be killed at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One server with these settings. `host`: as which machine it works; "" for this one. `call`,
    `count`: it kills itself at that call's so manieth time, before or after; "" never.
    `engine_after`: seconds until its engine crashes; 0: never. `diary`: a file (diary.py).
    `user`: who it is from its first line on. `refused`: a file for why it did not start.
    `webhook_lease`: seconds until another server tells what this one was about to; 0: as usual."""

    settings: dict[str, Any]
    port: int
    chunk_seconds: float
    host: str = ""
    call: str = ""
    count: int = 0
    after: bool = False
    engine_after: float = 0.0
    diary: str = ""
    user: str = ""
    refused: str = ""
    webhook_lease: float = 0.0

    def line(self) -> str:
        return json.dumps(asdict(self))


class Trap:
    """Counts calls and kills the process at the one that it was set for."""

    def __init__(self, order: Order) -> None:
        self._order, self._left = order, order.count

    def due(self) -> bool:
        self._left -= 1
        return self._left == 0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*args: Any, **more: Any) -> Any:
            due = self.due()
            if due and not self._order.after:
                _die()
            value = call(*args, **more)
            if due:
                _die()
            return value

        return trapped

    def around_async(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def trapped(*args: Any, **more: Any) -> Any:
            due = self.due()
            if due and not self._order.after:
                _die()
            value = await call(*args, **more)
            if due:
                _die()
            return value

        return trapped


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _set(order: Order, app: Any) -> None:
    trap = Trap(order)
    if order.call == "commit":
        engine = app.state.front.store.database.engine
        event.listen(engine, "commit", trap.around(lambda _: None))
    elif order.call == "encode":
        PictureSegment.write = trap.around(PictureSegment.write)  # type: ignore[method-assign]
    elif order.call == "webhook":
        api_webhooks.post = trap.around_async(post)  # type: ignore[attr-defined,assignment]
    elif order.call:
        setattr(os, order.call, trap.around(getattr(os, order.call)))


def serve(order: Order) -> None:
    """Until it is killed."""
    engine = FakeEngine(job_chunk_seconds=order.chunk_seconds)
    if order.user:
        _become(order.user)
    settings = load_settings(log_level="warning", **order.settings)
    if order.refused and not _prepared(settings, order.refused):
        return
    if order.diary:
        diary.keep(order.diary)
    vars(store)["MAX_LOSSES"] = MOST_LOSSES
    if order.webhook_lease:
        webhooks.LEASE_SECONDS = order.webhook_lease
        api_webhooks.LOOK_SECONDS = order.webhook_lease / 20
    if order.host:
        owner._host = lambda: order.host
    app = create_app(settings, engine, FakeMedia)
    if order.engine_after:
        threading.Timer(order.engine_after, engine.crash).start()
    threading.Thread(target=_arm, args=(order, app), daemon=True).start()
    set_aside()
    uvicorn.run(app, host="127.0.0.1", port=order.port, log_level="warning")


def _become(user: str) -> None:
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _prepared(settings: Settings, refused: str) -> bool:
    """As the command line does before it serves."""
    try:
        prepare_data_dir(settings)
        check_database(settings)
    except SettingsError as error:
        Path(refused).write_text(str(error))
        return False
    return True


def _arm(order: Order, app: Any) -> None:
    """As soon as the server has been put together."""
    while getattr(app.state, "front", None) is None:
        time.sleep(0.005)
    _set(order, app)


def main() -> None:
    for line in sys.stdin:
        order = Order(**json.loads(line))
        while _reap():
            pass
        child = os.fork()
        if child == 0:
            os.close(0)
            serve(order)
            os._exit(0)
        print(child, flush=True)


def _reap() -> bool:
    """Takes leave of one that has ended."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    main()
