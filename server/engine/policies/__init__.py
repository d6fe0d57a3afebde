"""Scheduling policies behind one interface (see `make_policy`)."""

from onbeat.server.engine.policies.coalesced import Coalesced
from onbeat.server.engine.policies.edf_greedy import EdfGreedy
from onbeat.server.engine.policies.edf_s import EdfS
from onbeat.server.engine.policies.fcfs_chunk import FcfsChunk
from onbeat.server.engine.policies.orca import Orca
from onbeat.server.engine.policies.process_per_stream import ProcessPerStream
from onbeat.server.engine.policies.static import StaticBatch
from onbeat.server.engine.policies.time_slice import TimeSlice
from onbeat.server.engine.scheduler import Policy
from onbeat.server.engine.settings import EngineSettings


def make_policy(settings: EngineSettings) -> Policy:
    """The policy that `settings.policy` names; the settings have checked the name."""
    rows = settings.max_rows
    match settings.policy:
        case "edf-greedy":
            return EdfGreedy(max_rows=rows)
        case "orca":
            return Orca(max_rows=rows)
        case "coalesced":
            return Coalesced(max_rows=rows)
        case "static":
            return StaticBatch(max_rows=rows)
        case "time-slice":
            return TimeSlice()
        case "fcfs-chunk":
            return FcfsChunk()
        case "process-per-stream":
            return ProcessPerStream()
        case _:
            return EdfS(max_rows=rows, anytime=settings.anytime)
