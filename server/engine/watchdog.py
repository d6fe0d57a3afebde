"""Whether a silent engine process hangs, or only waits for a processor that others have. Pure.

A ready engine's loop reports several times a second; a thread of its own beats once a second and
tells how much processor time the process has had. A loop that is silent while the beats come and
nothing is computed waits for what never comes; one that computes as long as it is silent never
ends. All else is a machine that gives it nothing: it is waited for, much longer. Silence counts
only while we look: a server that was stopped itself has heard nothing and knows nothing.
"""

SILENCE_SECONDS = 15.0
STARVED_SECONDS = 120.0
"""So long a process is waited for that gets too little time to answer."""
BEAT_SECONDS = 1.0
LONGEST_LOOK = 1.0
"""Between two looks we look; a longer time between them was not looked at."""
BEATS, IDLE = 0.6, 0.05
"""It lives if so many of the beats have come, and does nothing if it used so much of the time."""


class Watchdog:
    """Of one process. Instants on the monotonic clock; `cpu`: its processor seconds so far."""

    def __init__(self, now: float) -> None:
        self.silent = 0.0
        """Seconds without a word of the loop."""
        self._looked = now
        self._beats = 0
        self._cpu: tuple[float, float] | None = None
        """At the first beat of the silence, and at the last."""

    def heard(self, now: float) -> None:
        """A word of the loop."""
        self.silent, self._looked = 0.0, now
        self._beats, self._cpu = 0, None

    def beat(self, cpu: float, now: float) -> None:
        """A word of the process, not of its loop."""
        self._beats += 1
        self._cpu = (cpu if self._cpu is None else self._cpu[0], cpu)
        self.looked(now)

    def looked(self, now: float) -> None:
        """Nothing is there to be heard."""
        self.silent += min(max(0.0, now - self._looked), LONGEST_LOOK)
        self._looked = now

    def verdict(self) -> str | None:
        """Why it is to be replaced; None while it is not."""
        said = f"the engine process said nothing for {self.silent:.0f} s"
        if self.silent >= STARVED_SECONDS:
            return said
        if self.silent < SILENCE_SECONDS or self._cpu is None:
            return None
        worked = self._cpu[1] - self._cpu[0]
        lives = self._beats * BEAT_SECONDS >= BEATS * self.silent
        if lives and worked < IDLE * self.silent:
            return f"{said} and did nothing"
        if worked >= SILENCE_SECONDS:
            return f"{said} and computed for {worked:.0f} s"
        return None
