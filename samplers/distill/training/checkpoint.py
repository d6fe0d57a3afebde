"""Checkpoints: one file, written whole or not at all, and read without running code from it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


def save(state: Mapping[str, Any], path: Path) -> None:
    """Writes to the disk beside `path` and renames: a crash leaves the old file or the new one."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        torch.save(dict(state), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, or what torch raises for a file that is none of `save`'s."""
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state
