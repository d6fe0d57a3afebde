"""The average of two stages' weights, which is better than either (model soup, arXiv 2203.05482).

What it is: a checkpoint between the averaged weights of the sequences and of the few-step student
that was trained from them, and whether it is still made of those that are there. What it is not:
the moving average within a stage (optim.py).
"""

import hashlib
import json
from pathlib import Path

import torch

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.samplers.distill.loop import load_run, new_run, save_run
from onbeat.samplers.distill.networks import Networks

SHARE = 0.3
"""Of the few-step student. It drifts less and moves less; so much of it costs no motion."""
SOURCES = ("sequences", "consistency")
MADE_OF = "made_of.json"


def average_stages(out: Path) -> Path:
    """Writes out/average/state.pt: SHARE of the few-step student's weights, the rest of the
    sequences'."""
    run, other = new_run(Networks(ToyboxConfig())), new_run(Networks(ToyboxConfig()))
    for each, name in zip((run, other), SOURCES, strict=True):
        load_run(each, out / name / "state.pt")
    with torch.no_grad():
        torch._foreach_lerp_(list(run.ema.parameters()), list(other.ema.parameters()), SHARE)
    run.nets.load_state_dict(run.ema.state_dict())
    folder = out / "average"
    folder.mkdir(exist_ok=True)
    save_run(run, folder / "state.pt")
    (folder / MADE_OF).write_text(json.dumps(_digests(out)))
    return folder / "state.pt"


def average_of(out: Path) -> Path | None:
    """The averaged checkpoint; None if there is none, or if what it was made of has changed."""
    made_of = out / "average" / MADE_OF
    if not made_of.exists() or json.loads(made_of.read_text()) != _digests(out):
        return None
    return out / "average" / "state.pt"


def _digests(out: Path) -> dict[str, str | None]:
    """SHA-256 of each source's checkpoint."""
    paths = {name: out / name / "state.pt" for name in SOURCES}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
        for name, path in paths.items()
    }
