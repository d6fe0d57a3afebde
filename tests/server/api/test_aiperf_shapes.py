"""What AIPerf 0.13 sends to a video server and reads of it (tests/e2e/test_aiperf.py runs it)."""

from typing import Any
from urllib.parse import urlsplit

from tests.server.api.conftest import Server

READ = frozenset(
    "id object status progress url size seconds quality model created_at completed_at expires_at "
    "inference_time_s peak_memory_mb error".split()
)


def test_its_requests_and_what_it_reads(server: Server) -> None:
    payload = {
        "prompt": "a red ball",
        "model": "toybox",
        "size": "32x32",
        "seconds": 0.5,
        "seed": 7,
        "num_inference_steps": 2,
        "guidance_scale": 1.0,
        "negative_prompt": "",
        "fps": 20,
        "num_frames": 10,
    }
    forms: Any = {name: (None, str(value)) for name, value in payload.items()}
    for sent in ({"json": payload}, {"files": forms}):
        made = server.http.post("/v1/videos", **sent)
        assert made.status_code == 200, made.text
        done = server.ended(made.json()["id"])
        assert READ <= set(done) and done["status"] == "completed"
        assert done["inference_time_s"] > 0 and done["quality"] == "standard"
        assert urlsplit(done["url"]).netloc, "it takes no other address"
        file = server.http.get(done["url"])
        assert file.status_code == 200 and len(file.content) > 1000
