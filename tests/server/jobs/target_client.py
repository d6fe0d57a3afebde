"""Jobs over HTTP, as little as the killing of servers needs."""

import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any


class Client:
    """Of the server at `url`. Calls raise urllib.error.URLError or OSError when it is gone."""

    def __init__(self, url: str) -> None:
        self.url = url

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:
                found: bytes = answer.read()
        except http.client.HTTPException as error:  # killed in the middle of its answer
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        return found

    def is_ready(self) -> bool:
        try:
            self._call("GET", "/ready")
        except (urllib.error.URLError, OSError):
            return False
        return True

    def add(self, seed: int, frames: int, **more: Any) -> str:
        """The id of a new job."""
        body = {"prompt": "a red ball", "seed": seed, "num_frames": frames, **more}
        video_id: str = json.loads(self._call("POST", "/v1/videos", body))["id"]
        return video_id

    def get(self, video_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("GET", f"/v1/videos/{video_id}"))
        return found

    def state(self, video_id: str) -> str:
        status: str = self.get(video_id)["status"]
        return status

    def pages(self, order: str) -> Iterator[list[dict[str, Any]]]:
        """All jobs, "asc" or "desc" by age, by page."""
        after = ""
        while True:
            path = f"/v1/videos?limit=100&order={order}{after}"
            page = json.loads(self._call("GET", path))
            yield page["data"]
            if not page["has_more"]:
                return
            after = f"&after={page['last_id']}"

    def all_ids(self) -> list[str]:
        return [job["id"] for page in self.pages("asc") for job in page]

    def open_jobs(self) -> int:
        """Jobs run by age, so behind a whole page of ended ones there are no others."""
        found = 0
        for page in self.pages("desc"):
            open_here = sum(job["status"] in ("queued", "in_progress") for job in page)
            found += open_here
            if not open_here:
                break
        return found

    def counted(self) -> dict[str, int]:
        """Jobs by state."""
        found: dict[str, int] = json.loads(self._call("GET", "/v1/overview"))["jobs"]
        return found

    def file_hash(self, video_id: str) -> str:
        """SHA-256 of the video."""
        data = self._call("GET", f"/v1/videos/{video_id}/content")
        return hashlib.sha256(data).hexdigest()
