"""Which silent engines hang, and which only wait for a processor that others have."""

import pytest

from onbeat.server.engine.watchdog import SILENCE_SECONDS, STARVED_SECONDS, Watchdog

LOOK = 0.05


def watched(seconds: float, *, beats: float, cpu: float, since: Watchdog | None = None) -> Watchdog:
    """A loop silent for `seconds`: a beat every 1 / `beats` s, each having computed a share `cpu`
    of the time."""
    dog, now, next_beat = since or Watchdog(0.0), 0.0, 0.0
    while now < seconds:
        now += LOOK
        dog.looked(now)
        if beats and now >= next_beat:
            dog.beat(cpu * now, now)
            next_beat += 1 / beats
    return dog


@pytest.mark.parametrize(
    ("seconds", "beats", "cpu", "why"),
    [
        (SILENCE_SECONDS - 1, 1, 0.0, None),
        (SILENCE_SECONDS + 1, 1, 0.0, "did nothing"),
        (SILENCE_SECONDS + 2, 1, 1.0, "computed"),
        (SILENCE_SECONDS + 2, 1, 4.0, "computed"),
        (SILENCE_SECONDS + 2, 1, 0.2, None),
        (SILENCE_SECONDS + 2, 0.2, 0.01, None),
        (SILENCE_SECONDS + 2, 0, 0.0, None),
        (STARVED_SECONDS - 1, 0, 0.0, None),
        (STARVED_SECONDS + 1, 0, 0.0, "said nothing"),
        (STARVED_SECONDS + 1, 1, 0.1, "said nothing"),
    ],
)
def test_silence_is_judged_by_what_the_process_does(
    seconds: float, beats: float, cpu: float, why: str | None
) -> None:
    verdict = watched(seconds, beats=beats, cpu=cpu).verdict()
    assert (verdict is None) == (why is None)
    assert why is None or why in str(verdict)


def test_a_word_of_the_loop_ends_the_silence() -> None:
    dog = watched(SILENCE_SECONDS + 1, beats=1, cpu=0.0)
    assert dog.verdict() is not None
    dog.heard(SILENCE_SECONDS + 1)
    assert dog.verdict() is None and dog.silent == 0


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """The server's own process was stopped, or starved like the engine's."""
    dog = Watchdog(0.0)
    for now in (600.0, 600.05, 600.1):
        dog.looked(now)
    assert dog.silent < 2 and dog.verdict() is None
