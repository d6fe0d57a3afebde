"""Results in a bucket: the same promises as in a folder, and how a bucket fails."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.config import SettingsError, load_settings
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.keeping import Limits
from onbeat.server.jobs.places import open_artifacts
from onbeat.server.jobs.result_store import RemoteFile
from tests.server.jobs.s3_server import s3_server

pytest.importorskip("obstore", reason="the extra s3 is not installed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with s3_server() as found:
        yield found


@pytest.fixture
def artifacts(address: str, tmp_path: Path) -> Iterator[Artifacts]:
    settings = load_settings(data_dir=tmp_path, artifacts=f"{address}/{tmp_path.name}")
    yield open_artifacts(settings)


def put(artifacts: Artifacts, job_id: str, data: bytes) -> str:
    part = artifacts.part(job_id, 1, "video")
    part.write_bytes(data)
    return artifacts.publish(part, job_id, "video").sha256


async def test_what_is_put_is_found_and_read_in_pieces(artifacts: Artifacts) -> None:
    data = os.urandom(9 << 20)
    assert put(artifacts, "one", data) == hashlib.sha256(data).hexdigest()
    found = artifacts.find("one", "video")
    assert isinstance(found, RemoteFile) and found.size == len(data) and found.etag
    assert b"".join([piece async for piece in found.stream(5, len(data) - 1)]) == data[5:-1]
    assert artifacts.read("one", "video") == data and artifacts.size() == len(data)
    assert "Signature=" in found.signed_url() and "testing" in found.signed_url()
    assert not list(artifacts.part("one", 1, "video").parent.iterdir()), "no copy stays here"


def test_what_is_not_there_is_none_and_its_removal_no_error(artifacts: Artifacts) -> None:
    assert artifacts.find("nothing", "video") is None
    artifacts.remove("nothing")
    with pytest.raises(FileNotFoundError):
        artifacts.read("nothing", "video")


def test_a_bucket_is_kept_within_its_limits(address: str, tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, artifacts=f"{address}/limits")
    artifacts = open_artifacts(settings)
    artifacts._limits = Limits(max_bytes=25)
    for name in ("a", "b", "c"):
        put(artifacts, name, b"x" * 10)
    gone = artifacts.tidy()
    assert len(gone) == 1 and artifacts.size() == 20
    artifacts._clock, artifacts._limits = (lambda: 1e12), Limits(keep_seconds=1)
    with artifacts.holding("c"):
        artifacts.tidy()
    assert artifacts.size() == 10 and artifacts.find("c", "video") is not None


def test_a_bucket_that_cannot_be_reached_is_an_error_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("onbeat.server.jobs.object_store.RETRIES", {"max_retries": 0})
    artifacts = open_artifacts(load_settings(data_dir=tmp_path, artifacts="s3://results"))
    with pytest.raises(OSError, match="the object store failed"):
        put(artifacts, "one", b"x")
    with pytest.raises(OSError, match="the object store failed"):
        artifacts.find("one", "video")
    with pytest.raises(OSError):
        artifacts.tidy()


@pytest.mark.parametrize("address", ["http://x/y", "s3://", "s3:///x", "s3://["])
def test_other_addresses_are_refused_by_name(address: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="artifacts: .*; allowed: a folder, or s3://bucket"):
        open_artifacts(load_settings(data_dir=tmp_path, artifacts=address))
