"""Whose work the processor does: by the counters of the system, faked."""

from collections import namedtuple

import psutil
import pytest

from onbeat.server.api.machine import CpuShares, Machine

Times = namedtuple("Times", "user system idle iowait guest guest_nice")
Own = namedtuple("Own", "user system")


class Counters:
    """Seconds of two cores; tests move them on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.busy = self.idle = 0.0
        self.used = {1: 0.0, 2: 0.0}
        counters = self

        class Process:
            def __init__(self, pid: int = 1) -> None:
                if pid not in counters.used:
                    raise psutil.NoSuchProcess(pid)
                self.pid = pid

            def cpu_times(self) -> Own:
                return Own(counters.used[self.pid], 0.0)

        monkeypatch.setattr(psutil, "Process", Process)
        monkeypatch.setattr(
            psutil, "cpu_times", lambda: Times(counters.busy, 0.0, counters.idle, 0.0, 0.0, 0.0)
        )

    def pass_by(self, *, front: float, engine: float, others: float, idle: float) -> None:
        self.used[1] += front
        self.used[2] += engine
        self.busy += front + engine + others
        self.idle += idle


def test_shares_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters(monkeypatch)
    machine = Machine()
    counters.pass_by(front=0, engine=0, others=0, idle=1)
    machine.look(2)
    counters.pass_by(front=0.2, engine=0.8, others=0.6, idle=0.4)
    shares = machine.look(2)
    assert shares is not None
    assert shares.front == pytest.approx(0.1) and shares.engine == pytest.approx(0.4)
    assert shares.others == pytest.approx(0.3) and not shares.taken
    counters.pass_by(front=0.1, engine=0.5, others=1.4, idle=0.0)
    shares = machine.look(2)
    assert shares is not None and shares.taken
    assert machine.look(2) is None, "no time has passed"


def test_an_engine_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters(monkeypatch)
    machine = Machine()
    counters.pass_by(front=0.5, engine=0.0, others=0.0, idle=1.5)
    shares = machine.look(77)
    assert shares is not None and shares.engine == 0.0 and shares.front == pytest.approx(0.25)


def test_own_work_is_nobody_elses() -> None:
    assert not CpuShares(front=0.4, engine=0.6, others=0.0).taken
    assert not CpuShares(front=0.1, engine=0.2, others=0.4).taken, "there is room left"
