"""Who holds a lease: a process of a host, and whether it certainly does not run any more."""

import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds a lease: a process, told apart from later ones with the same number."""

    host: str
    pid: int
    started: int
    token: str

    @staticmethod
    def here() -> "Owner":
        started = int(psutil.Process().create_time())
        token = secrets.token_hex(4)
        return Owner(host=_host(), pid=os.getpid(), started=started, token=token)

    def __str__(self) -> str:
        return f"{self.host}/{self.pid}/{self.started}/{self.token}"

    def knows_dead(self, text: str) -> bool:
        """Whether the owner named `text` certainly does not run any more."""
        host, pid, started, token = text.split("/")
        if host != self.host:
            return False
        if int(pid) == self.pid:
            return token != self.token
        try:
            return int(psutil.Process(int(pid)).create_time()) != int(started)
        except psutil.NoSuchProcess:
            return True


def _host() -> str:
    """The machine, and where process numbers mean the same: containers may share a name."""
    space = ""
    with suppress(OSError):  # only Linux has name spaces
        space = "-" + "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())
    return socket.gethostname().replace("/", "-")[:60] + space
