"""64 rows of random families, schedules and steps in one call, against 64 calls; and in another
process after every step. Equal bits, always."""

import os
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from onbeat.samplers import families
from onbeat.samplers.batch import batch_step, pack, unpack
from onbeat.samplers.consistency import (
    commit_latents,
    end_chunk,
    init_rows,
    inputs_of,
    start_rows,
    step_rows,
    times_of,
)
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import at_strength, cm_times, trig_times
from onbeat.samplers.state import ChunkState

ROOT = Path(__file__).parents[2]


class Audio:
    name, tokens, dim, shift = "audio", 4, 6, 1.5


class Video:
    name, tokens, dim, shift = "video", 8, 11, 3.0


def some_sampler(make: Random, steps: int) -> Sampler:
    g = make.choice([0.0, 0.3, 1.0])
    rf = families.rectified_flow(steps, make.choice([1.0, 3.0, 12.0]), "v", "1000t", g)
    return make.choice(
        [
            rf,
            replace(rf, prediction="x0", time_input="1-t"),
            families.minimax_h3(steps),
            families.flow_map(steps, 5.0),
            families.rcm(steps),
            families.sana_sprint(steps),
            families.consistency_model(cm_times(steps), make.choice([None, 1.0])),
            families.ect((*(80.0 / 4**i for i in range(steps)), 0.0)),
            families.lcm(steps),
            families.tcd(steps, stochasticity=g),
            families.trigflow(trig_times(steps)),
            at_strength(families.lcm(steps, prediction="v"), 0.7),
        ]
    )


def network(states: list[ChunkState]) -> dict[str, Tensor]:
    """A model whose rows do not depend on each other: elementwise."""
    told, x = times_of(states), inputs_of(states)
    return {n: x[n] / (1 + x[n].abs()) + 1e-4 * told[n][:, None, None] for n in x}


def step(states: list[ChunkState]) -> list[ChunkState]:
    return step_rows(states, network(states))


def ragged(rows: int, seed: int = 0) -> list[ChunkState]:
    """Rows at random steps of random samplers; none is done."""
    make, states = Random(seed), []
    for i in range(rows):
        steps = make.randint(1, 4)
        samplers = {name: some_sampler(make, steps) for name in ("audio", "video")}
        seed, chunk = make.getrandbits(62), make.randint(0, 9)
        [state] = start_rows([Audio(), Video()], [seed], [i], [chunk], [samplers])
        for _ in range(make.randrange(steps)):
            [state] = step([state])
        states.append(state)
    return states


def test_64_rows_in_one_call_equal_64_calls_bit_for_bit() -> None:
    states = ragged(64)
    assert len({repr(s.samplers) for s in states}) > 40
    assert {(s.step, s.steps) for s in states} == {(i, n) for n in (1, 2, 3, 4) for i in range(n)}
    together = [state.to_bytes() for state in step(states)]
    assert together == [step([state])[0].to_bytes() for state in states]
    make = Random(1)
    for size in (2, 5, 17, 31, 48, 63):
        rows = make.sample(range(64), size)
        some = step([states[row] for row in rows])
        assert [state.to_bytes() for state in some] == [together[row] for row in rows]


def test_rows_that_stay_together_give_the_same_bits() -> None:
    states = ragged(40, 6)
    batch = pack(states)
    while not batch.done:
        rows = unpack(batch)
        assert [s.to_bytes() for s in rows] == [s.to_bytes() for s in states]
        predictions = network(rows)
        batch = batch_step(batch, predictions)
        steps = iter(step([s for s in states if not s.done]))
        states = [s if s.done else next(steps) for s in states]
    assert all(s.done for s in states)
    assert [s.to_bytes() for s in unpack(batch)] == [s.to_bytes() for s in states]
    still = batch_step(batch, {name: x * inf for name, x in batch.latents.items()})
    assert [s.to_bytes() for s in unpack(still)] == [s.to_bytes() for s in states]


def test_starts_and_commits_are_ragged_too() -> None:
    states = ragged(12, 5)
    samplers = [state.samplers for state in states]
    numbers = ([s.seed for s in states], [s.stream for s in states], [s.chunk for s in states])
    rows = start_rows([Audio(), Video()], *numbers, samplers)
    for i, row in enumerate(rows):
        one = ([numbers[0][i]], [numbers[1][i]], [numbers[2][i]])
        [alone] = start_rows([Audio(), Video()], *one, samplers[i : i + 1])
        assert alone.to_bytes() == row.to_bytes()
    fit = [s for s in step(states) if s.samplers["video"].path.kind != "vp"]
    done = [end_chunk(s) for s in fit if s.samplers["audio"].path.kind != "vp"]
    latents, _ = commit_latents(done, 0.05)
    for i, state in enumerate(done):
        alone_latents, _ = commit_latents([state], 0.05)
        assert all(torch.equal(x[0], latents[name][i]) for name, x in alone_latents.items())


def test_the_step_does_not_change_what_it_is_given_and_can_be_repeated() -> None:
    states = ragged(16, 2)
    before, predictions = [s.to_bytes() for s in states], network(states)
    kept = {name: x.clone() for name, x in predictions.items()}
    first, second = step_rows(states, predictions), step_rows(states, predictions)
    assert [s.to_bytes() for s in first] == [s.to_bytes() for s in second]
    assert [s.to_bytes() for s in states] == before
    assert all(torch.equal(predictions[name], x) for name, x in kept.items())


def test_another_process_goes_on_after_every_step_with_equal_bits(tmp_path: Path) -> None:
    """Each round of steps is taken here and, from the bytes alone, in a process of its own."""
    states = [replace(s) for s in ragged(10, 3)]
    states += init_rows([Audio(), Video()], [1, 2], [7, 8], [0, 1], [4, 2])
    todo, expected = [], []
    while states:
        todo.append([state.to_bytes() for state in states])
        states = step(states)
        expected.append([state.to_bytes() for state in states])
        states = [state for state in states if not state.done]
    for i, round_ in enumerate(todo):
        for j, data in enumerate(round_):
            (tmp_path / f"{i}-{j}").write_bytes(data)
    code = """
import sys
from pathlib import Path
from onbeat.samplers.state import ChunkState
sys.path.insert(0, "tests/samplers")
from test_ragged import step
for path in Path(sys.argv[1]).iterdir():
    path.write_bytes(step([ChunkState.from_bytes(path.read_bytes())])[0].to_bytes())
"""
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=100,
    )
    for i, after in enumerate(expected):
        assert [(tmp_path / f"{i}-{j}").read_bytes() for j in range(len(after))] == after


def test_samplers_of_resumed_rows_are_shared() -> None:
    state = ragged(1, 4)[0]
    one, two = (ChunkState.from_bytes(state.to_bytes()) for _ in range(2))
    assert one.samplers["video"] is two.samplers["video"] == state.samplers["video"]
