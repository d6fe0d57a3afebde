"""Takes the webhooks of servers that are killed, and looks at each the moment it arrives."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onbeat.server.api.webhooks import signature
from onbeat.server.jobs.job import ENDED
from tests.server.api.webhook_receiver import Answer, Receiver, receiving

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
NETWORKS = "127.0.0.0/8"


class Told(Receiver):
    """`state_of`: a job's state in the database at this moment, None if it is unknown."""

    def __init__(self, state_of: Callable[[str], str | None]) -> None:
        super().__init__()
        self._state_of = state_of
        self.jobs: dict[str, set[str]] = {}
        """The ids of the events by job: one, however often it is told."""
        self.deliveries = 0
        self.wrong: list[str] = []

    def take(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.deliveries += 1
        event_id, sent_at = headers["webhook-id"], int(headers["webhook-timestamp"])
        if headers["webhook-signature"] != signature(KEY, event_id, sent_at, body):
            self.wrong.append(f"{event_id}: bad signature")
        data = json.loads(body)["data"]
        state = self._state_of(data["id"])
        if state not in ENDED or data["status"] != state:
            self.wrong.append(f"{data['id']}: told {data['status']}, is {state}")
        known = self.jobs.setdefault(data["id"], set())
        known.add(event_id)
        if len(known) > 1:
            self.wrong.append(f"{data['id']}: {len(known)} events")
        return super().take(path, headers, b"")


@contextmanager
def telling(state_of: Callable[[str], str | None]) -> Iterator[Told]:
    with receiving(Told(state_of)) as receiver:
        assert isinstance(receiver, Told)
        yield receiver
