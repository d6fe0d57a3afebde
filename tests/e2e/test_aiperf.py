"""NVIDIA AIPerf's endpoint type `video_generation`, unmodified, against a real server.

AIPERF names its command; `.ci/run` installs it into an environment of its own. Without it the
requests that it makes are sent by hand (tests/server/api/test_aiperf_shapes.py).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.api.fake_engine import FakeEngine
from tests.server.served import served

AIPERF = os.environ.get("AIPERF", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not AIPERF, reason="AIPERF names no command of AIPerf"),
]

REQUESTS = 4
WORDS = ["[UNK]", "a", "red", "blue", "ball"]


def tokenizer(folder: Path) -> Path:
    """One of five words: AIPerf wants to count, and would fetch one."""
    folder.mkdir()
    model = {
        "type": "WordLevel",
        "vocab": {word: at for at, word in enumerate(WORDS)},
        "unk_token": "[UNK]",
    }
    whole: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_aiperf_runs_to_its_report(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"text": "a red ball"}\n{"text": "a blue ball"}\n')
    (tmp_path / "out").mkdir()
    with served(FakeEngine(), data_dir=tmp_path / "data") as url:
        arguments = ["profile", "-m", "toybox", "--endpoint-type", "video-generation"]
        arguments += ["--url", url, "--input-file", str(prompts)]
        arguments += ["--custom-dataset-type", "single_turn", "--request-count", str(REQUESTS)]
        arguments += ["--concurrency", "2", "--extra-inputs", "seconds:0.5"]
        arguments += ["--extra-inputs", "seed:7", "--download-video-content", "--ui", "none"]
        arguments += ["--tokenizer", str(tokenizer(tmp_path / "tokenizer"))]
        run = subprocess.run(
            [AIPERF, *arguments],
            capture_output=True,
            text=True,
            timeout=280,
            cwd=tmp_path / "out",
        )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    report = json.loads(next((tmp_path / "out").rglob("profile_export_aiperf.json")).read_text())
    assert report["request_count"]["avg"] == REQUESTS, report
    assert not report.get("error_summary"), report["error_summary"]
    assert report["video_inference_time"]["avg"] > 0
