"""Any order of opening, pausing, resuming, prompts, copies that fail and closing: after every step,
pages, promises and buffers are exactly what streams and copies hold; in the end all are back."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onbeat.server.engine.messages import CloseStream, ControlStream
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.drive import Rig
from tests.server.engine.fake import SPEC

NAMES = st.integers(0, 7)
"""Of the streams opened last."""
PAGES = 3 * (SPEC.window_chunks + 2)


class Paused(RuleBasedStateMachine):
    @initialize(copy=st.sampled_from([0.0005, 0.02, 0.3]), buffers=st.sampled_from([0, 1, 2, 100]))
    def begin(self, copy: float, buffers: int) -> None:
        self.rig = Rig(copy_seconds=copy)
        window = SPEC.window_chunks * self.rig.transfers.page_bytes()
        self.rig = Rig(
            EngineSettings(
                decode_lane=False,
                admission=False,
                anytime=False,
                pages=PAGES,
                max_streams=6,
                offload_after_seconds=0.3,
                host_memory=buffers * window,
            ),
            copy_seconds=copy,
        )
        self.rig.engine.residency.copied.speed = {"copy-in": 1e12, "copy-out": 1e12}
        self.failing = False
        self.revision = 0
        self.opened = 0
        copier = self.rig.copier
        out, back = copier.copy_out, copier.copy_in

        def copy_out(layer: int, pages: tuple[int, ...], buffer: int) -> None:
            self._fail()
            out(layer, pages, buffer)

        def copy_in(layer: int, pages: tuple[int, ...], buffer: int) -> None:
            self._fail()
            back(layer, pages, buffer)

        copier.copy_out, copier.copy_in = copy_out, copy_in  # type: ignore[method-assign]

    def _fail(self) -> None:
        if self.failing:
            raise RuntimeError("the copier fails for now")

    def _control(self, name: str, **values: object) -> None:
        self.revision += 1
        self.rig.engine.submit(
            ControlStream(stream_id=name, revision=self.revision, **values)  # type: ignore[arg-type]
        )

    def _name(self, at: int) -> str:
        return f"s{max(0, self.opened - 8) + at}"

    @rule(paused=st.booleans(), seed=st.integers(0, 3))
    def open(self, paused: bool, seed: int) -> None:
        name = f"s{self.opened}"
        self.opened += 1
        self.rig.open(name, paused=paused, seed=seed, prompt=f"prompt {seed}", wait=seed == 0)

    @rule(at=NAMES, paused=st.booleans())
    def pause(self, at: int, paused: bool) -> None:
        self._control(self._name(at), paused=paused)

    @rule(at=NAMES, prompt=st.integers(0, 3))
    def prompt(self, at: int, prompt: int) -> None:
        self._control(self._name(at), prompt=f"prompt {prompt}")

    @rule(at=NAMES)
    def close(self, at: int) -> None:
        self.rig.engine.submit(CloseStream(stream_id=self._name(at)))

    @rule(failing=st.booleans())
    def fail(self, failing: bool) -> None:
        self.failing = failing

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.25, 1.0]))
    def run(self, seconds: float) -> None:
        self.rig.run(seconds)

    @precondition(lambda self: hasattr(self, "rig"))
    @invariant()
    def books_agree(self) -> None:
        self.rig.engine.check_integrity()

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        rig, streams = self.rig, self.rig.engine.roster.streams
        rig.run(0.01)
        running = [s.id for s in streams.values() if not s.paused]
        made = {name: len(rig.ready(name)) for name in running}
        rig.run(2.0)
        stuck = [n for n in running if n in streams and len(rig.ready(n)) == made[n]]
        assert not stuck, [(n, streams[n].place) for n in stuck]
        rig.check()
        assert rig.engine.residency.buffers.used == 0
        assert len(rig.copier.buffers) <= rig.engine.residency.buffers.limit


TestPaused = Paused.TestCase
TestPaused.settings = settings(max_examples=40, stateful_step_count=30)
