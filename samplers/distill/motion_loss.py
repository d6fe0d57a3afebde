"""The loss that spends gradient on where objects are, frame by frame, and on how they move.

A squared error of latents says little of a place: latents of an object two pixels away are nearly
unrelated, so that an object 5 px off costs what one 50 px off costs, and four frames that are too
much alike cost hardly more than four that move. So the places that a frozen net reads from each
frame of a prediction are held to those of the truth, and their steps from frame to frame. What it
is not: the net (cover.py) or the velocity loss (losses.py), beside which it stands.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.video_codec import unpack
from onbeat.samplers.distill.cover import CoverNet, Place
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.losses import Draw, Extra

FAR = 0.06
"""Frame sides from which an error counts linearly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionLoss:
    """`places`, `moves`: weights of where objects are and of their steps between frames, each of
    squared errors in frame sides."""

    net: CoverNet
    places: float = 300.0
    moves: float = 1200.0

    def __call__(self, predicted: Tensor, d: Draw, clips: Clips) -> Tensor:
        """Scalar; `predicted` video x0 [b, s, n, 16, 256] of the draw `d`. A first chunk has no
        past that would tell its place: it counts by what its noise lets see, 1 - t."""
        first = int(d.history)
        times = d.times["video"][:, first:]
        sees = torch.ones_like(times)
        sees[:, :, 0] = 1.0 - times[:, :, 0]
        with torch.autocast("cpu", torch.bfloat16):
            got = self.net.place(_frames(predicted[:, first:]))
            with torch.no_grad():
                want = self.net.place(_frames(d.clean["video"][:, first:]))
        each = place_error(got, want, self.places, self.moves)
        return (each * sees.flatten()).mean()


def place_error(got: Place, want: Place, places: float, moves: float) -> Tensor:
    """[chunks] of places [chunks * 4]: squares, linear when far, of centres and sizes, and of
    their differences between neighbouring frames."""
    mine, true = (torch.cat([p.centre, p.size[:, None]], dim=1) for p in (got, want))
    mine, true = (x.float().unflatten(0, (-1, 4)) for x in (mine, true))
    return places * _squares(mine - true) + moves * _squares(mine.diff(dim=1) - true.diff(dim=1))


def _squares(errors: Tensor) -> Tensor:
    """[chunks, frames, 3] -> [chunks] mean over frames of the sum of squares."""
    far = F.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=FAR)
    return 2.0 * far.sum(2).mean(1)


def _frames(tokens: Tensor) -> Tensor:
    """[b, s, n, 16, 256] -> latent frames [b * s * n * 4, 16, 8, 8]."""
    return unpack(tokens.flatten(0, 2)).flatten(0, 1)


def beside(*losses: Extra) -> Extra:
    """Several losses as one: their sum."""
    return lambda predicted, d, clips: torch.stack([f(predicted, d, clips) for f in losses]).sum()
