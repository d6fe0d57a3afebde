"""Servers to be killed, as those who kill them see them: started from one warm process, looked at.

What it is not: the server's side (kill_target.py), or what is done with them (killing.py).
"""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.e2e.server_process import reserved
from tests.server.jobs.kill_target import Order
from tests.server.jobs.target_client import Client

PATIENCE = 240.0


@dataclass(kw_only=True)
class Target:
    """One server. `ready_seconds`: from its start to its readiness."""

    pid: int
    client: Client
    ready_seconds: float = 0.0

    def alive(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def kill(self) -> None:
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        while self.alive():
            time.sleep(0.002)

    def wait_ready(self) -> None:
        """Until it is ready, or has killed itself."""
        began = time.monotonic()
        while not self.client.is_ready() and self.alive():
            assert time.monotonic() - began < PATIENCE, "the server does not become ready"
            time.sleep(0.01)
        self.ready_seconds = time.monotonic() - began


class Zygote:
    """The warm process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.server.jobs.kill_target"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._ports = list[socket.socket]()

    def start(self, settings: dict[str, Any], **more: Any) -> Target:
        """A server that is ready, unless it killed itself before."""
        assert self._process.stdin is not None and self._process.stdout is not None
        holder = reserved()
        self._ports.append(holder)
        order = Order(settings=settings, port=holder.getsockname()[1], **more)
        self._process.stdin.write(order.line() + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        target = Target(pid=pid, client=Client(f"http://127.0.0.1:{order.port}"))
        target.wait_ready()
        return target

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()
        for holder in self._ports:
            holder.close()
