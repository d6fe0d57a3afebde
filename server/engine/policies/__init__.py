"""Scheduling policies behind one interface (see `make_policy`)."""

from onbeat.server.engine.policies.edf_s import EdfS
from onbeat.server.engine.policies.fcfs_chunk import FcfsChunk
from onbeat.server.engine.policies.static import StaticBatch
from onbeat.server.engine.scheduler import Policy
from onbeat.server.engine.settings import EngineSettings


def make_policy(settings: EngineSettings) -> Policy:
    """The policy that `settings.policy` names; the settings have checked the name."""
    match settings.policy:
        case "fcfs-chunk":
            return FcfsChunk()
        case "static":
            return StaticBatch(max_rows=settings.max_rows)
        case _:
            return EdfS(max_rows=settings.max_rows, anytime=settings.anytime)
