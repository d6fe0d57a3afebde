"""The Python client of an onbeat server: jobs and live sessions, synchronous or not.

    from onbeat.client import OnbeatClient
    OnbeatClient().videos.render("a red ball bouncing", "ball.mp4", seconds=4)

It needs httpx2 and msgspec; watching a live session (`AsyncOnbeatClient().sessions.watch`) loads
aiortc. It imports nothing else of this project, so no torch. Import it as `onbeat.client`.
"""

from onbeat.client.clients import AsyncOnbeatClient, OnbeatClient
from onbeat.client.errors import ConnectionFailed, OnbeatError, Refused, VideoFailed
from onbeat.client.records import Applied, Event, Recording, Session, Video

__all__ = [
    "Applied",
    "AsyncOnbeatClient",
    "ConnectionFailed",
    "Event",
    "OnbeatClient",
    "OnbeatError",
    "Recording",
    "Refused",
    "Session",
    "Video",
    "VideoFailed",
]
