"""The folder of results: a removed one is made anew."""

import shutil
from pathlib import Path

from onbeat.server.jobs.artifacts import Artifacts, bytes_in


def test_a_removed_folder_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    artifacts = Artifacts(folder)
    shutil.rmtree(folder)
    assert artifacts.size() == 0
    shutil.rmtree(folder)
    part = artifacts.part("one", 1, "video")
    part.write_bytes(b"1234")
    artifacts.publish(part, "one", "video")
    assert artifacts.size() == bytes_in(folder) == 4
