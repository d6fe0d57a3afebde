"""What a rendering says of itself, on a clock of the test's own."""

import io

from onbeat.server.cli.rendering import Rendering, shown_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_speed_and_time_left_come_from_the_chunks_after_the_first() -> None:
    now = 100.0
    state = Rendering(chunks=10, all_steps=22, chunk_frames=4, fps=20, clock=lambda: now)
    assert str(state) == "starting"
    now = 160.0  # a slow start counts for nothing
    state.advance(4)
    assert str(state) == "step 4/22" and state.seconds_left is None
    now = 162.0
    state.advance(2)
    state.advance(2)
    assert state.frames_per_second == 4.0 and state.seconds_left == 7.0
    assert str(state) == "step 8/22  4.0 frames/s (0.2x)  0:07 left"


def test_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with shown_progress(40, 82, 4, 20, out) as advance:
        for chunk in range(40):
            advance(2 if chunk else 4)
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and lines[0].startswith(" 10 %") and lines[-1].startswith("100 %")
    assert "step 10/82" in lines[0] and "step 82/82" in lines[-1]


def test_a_bar_on_a_terminal() -> None:
    out = Terminal()
    with shown_progress(3, 6, 4, 20, out) as advance:
        for _ in range(3):
            advance(2)
    assert "100%" in out.getvalue() and "step 6/6" in out.getvalue()
