"""One forward for rows of any stream, step and kind; no result depends on batch mates."""

from collections import deque
from dataclasses import replace

import pytest
import torch

from onbeat.models.toybox.model import Toybox
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import OpenStream
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.streams import Conditions, Stream
from onbeat.server.engine.window import Window
from tests.server.engine.fake import SPEC, FakeModel


class Bench:
    """A model, a pool and an executor."""

    def __init__(self, model: FakeModel | Toybox) -> None:
        self.model = model
        self.pool = KVPool(200)
        self.store = KVStore(model.spec, 200)
        self.executor = TorchExecutor(model, self.store)

    def stream(self, name: str, prompt: str = "red ball", seed: int = 1, steps: int = 2) -> Stream:
        encoded = self.executor.encode_prompt(prompt)
        stream = Stream(
            opened=OpenStream(stream_id=name, kind="live", prompt=prompt, seed=seed),
            order=0,
            wanted_at=0.0,
            now=Conditions(
                prompt=prompt,
                encoded=encoded,
                seed=seed,
                steps=steps,
                revision=0,
            ),
            sink=self.pool.take_sink(encoded.digest),
            window=Window(self.pool, self.model.spec.window_chunks),
            decoder=None,
            ladder=Ladder(calm_chunks=5),
            firm=FirmRecord(m=29, k=30),
        )
        if not self.pool.is_filled(stream.sink):
            assert self.executor.prefill([stream]) == []
            self.pool.mark_filled(stream.sink)
        return stream

    def finish(self, stream: Stream, steps: int = 2) -> ChunkState:
        """Runs a whole chunk of one stream alone, and its commit."""
        self.executor.start_chunks([stream], [steps])
        for _ in range(steps):
            self.executor.run([stream], [])
        return self.commit(stream)

    def commit(self, stream: Stream) -> ChunkState:
        assert stream.state is not None and stream.state.done
        state, stream.state = stream.state, None
        stream.chunk += 1
        stream.uncommitted = deque([state])
        self.executor.run([], [stream])
        return state


def same(a: ChunkState, b: ChunkState) -> bool:
    return all(torch.equal(a.latents[name], b.latents[name]) for name in a.latents)


def test_steps_and_commits_share_a_forward() -> None:
    bench = Bench(FakeModel())
    a, b = bench.stream("a"), bench.stream("b", "blue ball")
    bench.executor.start_chunks([a], [1])
    bench.executor.run([a], [])
    assert a.state is not None and a.state.done
    a.uncommitted, a.state = deque([a.state]), None
    bench.executor.start_chunks([b], [2])
    outcome = bench.executor.run([b], [a])
    assert (outcome.stepped, outcome.committed, outcome.failed) == ([b], [a], [])
    assert bench.model.batches == [1, 2]  # type: ignore[union-attr]
    assert len(a.window) == 1 and not a.uncommitted


def test_a_prompt_page_is_filled_once_for_all_its_streams() -> None:
    bench = Bench(FakeModel())
    streams = [bench.stream(name) for name in "abc"]
    assert bench.model.prefills == 1  # type: ignore[union-attr]
    assert len({s.sink for s in streams}) == 1


def test_a_row_that_raises_takes_nobody_with_it() -> None:
    bench = Bench(FakeModel())
    good, bad = bench.stream("good"), bench.stream("bad", "raise")
    bench.executor.start_chunks([good, bad], [2, 2])
    outcome = bench.executor.run([good, bad], [])
    assert outcome.stepped == [good]
    assert [(s.id, text) for s, text in outcome.failed] == [
        ("bad", "RuntimeError: this prompt raises")
    ]
    assert good.state is not None and good.state.step == 1


def test_the_window_slides_over_the_ring() -> None:
    bench = Bench(FakeModel())
    stream = bench.stream("a")
    for _ in range(SPEC.window_chunks + 3):
        bench.finish(stream)
    assert len(stream.window) == SPEC.window_chunks
    assert bench.pool.used == SPEC.window_chunks + 1


@torch.inference_mode()
def test_toybox_rows_have_the_same_bits_alone_and_in_mixed_batches() -> None:
    model = Toybox.random(3)
    alone, crowd = Bench(model), Bench(model)
    mates = [crowd.stream(f"m{i}", f"a blue square {i}", seed=i, steps=4) for i in range(3)]
    one, other = alone.stream("one"), crowd.stream("one")
    for chunk in range(3):
        expected = alone.finish(one)
        crowd.executor.start_chunks([other, *mates[:chunk]], [2] + [4] * chunk)
        for step in range(2):
            crowd.executor.run([other, *mates[: max(0, chunk - step)]], [])
        got = crowd.commit(other)
        assert same(expected, got), chunk


def restored(bench: Bench, name: str, chunks: list[ChunkState]) -> Stream:
    """A stream whose window is still to be committed."""
    stream = bench.stream(name)
    for state in chunks:
        stream.keep(state, bench.model.spec)
    return stream


def window_bits(bench: Bench, stream: Stream) -> torch.Tensor:
    pages = stream.window.readable()
    return torch.stack([bench.store.k[:, pages], bench.store.v[:, pages]])


@torch.inference_mode()
@pytest.mark.parametrize("widths", [(1, 1, 1, 1, 1, 1), (4, 2), (3, 1, 2), (6,)])
def test_chunks_of_a_piece_are_committed_as_if_one_by_one(widths: tuple[int, ...]) -> None:
    model = Toybox.random(3)
    bench = Bench(model)
    source, mate, other = bench.stream("source"), bench.stream("mate"), bench.stream("other")
    chunks = [bench.finish(source) for _ in range(6)]
    piece = restored(bench, "piece", chunks)
    for i, width in enumerate(widths):
        piece.piece = width
        bench.executor.start_chunks([mate, other], [2, 2])
        bench.executor.run([mate], [])
        outcome = bench.executor.run([other], [piece])
        assert not outcome.failed and outcome.committed == [piece], i
        assert mate.state is not None and other.state is not None
        assert same(mate.state, other.state), "a piece changes nobody's bits"
    assert not piece.uncommitted and len(piece.history) == 6
    assert torch.equal(window_bits(bench, piece), window_bits(bench, source))


def test_a_piece_that_fails_can_be_committed_again() -> None:
    bench = Bench(FakeModel())
    stream = restored(bench, "a", [bench.finish(bench.stream("b")) for _ in range(3)])
    stream.piece, good = 2, stream.now
    stream.now = replace(good, encoded=bench.model.encode_prompt("raise"))
    assert [s.id for s, _ in bench.executor.run([], [stream]).failed] == ["a"]
    stream.now = good
    assert bench.executor.run([], [stream]).committed == [stream]
    assert len(stream.window) == 2 and len(stream.uncommitted) == 1
    stream.window.close()


def test_a_finished_chunk_keeps_no_batch_alive() -> None:
    bench = Bench(FakeModel())
    streams = [bench.stream(name) for name in "abc"]
    bench.executor.start_chunks(streams, [1, 1, 1])
    bench.executor.run(streams, [])
    for stream in streams:
        assert stream.state is not None and stream.state.done
        for x in stream.state.latents.values():
            assert x.untyped_storage().nbytes() == x.nbytes
