"""Where the time of a missed chunk went: one cause for each, by what would have saved it.

Causes: `queue` it waited for others on the compute lane; `compute` its forwards took longer than
predicted, or could never have fitted; `transfer` it waited for a slot to be copied to; `decode` it
was handed over in time and the decode lane took too long. `encode` belongs to the front.
"""

from dataclasses import dataclass

from onbeat.server.vocabulary import DropCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A chunk's way. Instants and seconds; `predicted` and `denoise`: of its forwards so far;
    `slot`: waiting for a slot of the ring; `decode`: predicted, alone."""

    due: float
    released: float
    finished: float
    """Last step done; for a chunk that never will be, the earliest instant that it could be."""
    predicted: float
    denoise: float
    decode: float
    slot: float = 0.0


def blame(course: Course) -> DropCause:
    """Why a chunk missed `due`."""
    over = course.finished + course.decode - course.due
    if over <= 0.0:
        return "transfer" if course.slot + over > 0.0 else "decode"
    excess = course.denoise - course.predicted
    waited = course.finished - course.released - course.denoise
    if excess >= over or waited < min(over, course.denoise):
        return "compute"
    return "queue"
