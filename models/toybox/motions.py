"""What an object's track says about how it moves: the detector's sense of motion.

What it is: rules on place and size over about a second. What it is not: a fit of the laws of
physics.py; a track that hops is judged by its usual step.
"""

import numpy as np

from onbeat.models.toybox.concepts import FPS, SIZE
from onbeat.models.toybox.detector import Detection

LEAST_FRAMES = 8
PULSES = 0.10
"""Spread of the area over its mean from which an object pulses (a true pulse: 0.2)."""
FLAT = 0.06
"""Height in frame sides that a track may fill and still be level."""
DRIFTS, CIRCLES = 0.33, 0.64
"""Usual speed in frame sides per second below which something floats, and circles."""


def motion_of(seen: Detection) -> str | None:
    """One of MOTIONS, or None if there is too little to see."""
    there = np.isfinite(seen.areas)
    if there.sum() < LEAST_FRAMES:
        return None
    areas, centres = seen.areas[there], seen.centres / SIZE
    steps = np.hypot(*np.diff(centres, axis=0).T)
    speed = float(np.nanmean(np.minimum(steps, 3.0 * np.nanmedian(steps)))) * FPS
    low, high = np.percentile(centres[there, 1], [5, 95])
    if areas.std() > PULSES * areas.mean() and speed < DRIFTS:
        return "pulse"
    if speed < DRIFTS:
        return "float"
    if high - low < FLAT:
        return "roll"
    return "orbit" if speed < CIRCLES else "bounce"
