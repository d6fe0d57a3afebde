"""An S3 server of this machine for tests: moto on a free port, one bucket, its keys set."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "results"
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of results in a bucket; the environment leads there meanwhile."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        server.start()
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        try:
            _make_bucket(f"http://{host}:{port}/{BUCKET}")
            yield f"s3://{BUCKET}/onbeat/videos"
        finally:
            server.stop()


def _make_bucket(address: str) -> None:
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=100).close()
