"""No stream starves: under overload equal streams share their misses, whatever their order.

Ranks: streams of one owner, with equal steps and lead, are equal. What it is not: how many chunks
are on time in all (the simulator's comparisons).
"""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.server.engine.messages import ChunkDropped, ChunkReady, OpenStream
from onbeat.server.engine.simulate.world import World
from tests.server.engine.setups import SPEC, Setup

CHUNKS, WARM = 90, 15


def outcomes(setup: Setup, starts: list[float]) -> dict[str, list[bool]]:
    """By stream: whether each chunk was on time, from the moment on at which all run."""
    world = World(setup.machine, SPEC, setup.settings)
    for i, start in enumerate(starts):
        opening = OpenStream(stream_id=f"s{i}", kind="live", prompt="rain", seed=i)
        world.at(start, opening)
    world.run(CHUNKS * SPEC.chunk_seconds)
    chunks: dict[str, dict[int, bool]] = defaultdict(dict)
    for event in world.events:
        if isinstance(event, ChunkReady):
            chunks[event.stream_id][event.chunk] = event.on_time
        elif isinstance(event, ChunkDropped):
            chunks[event.stream_id][event.chunk] = False
    world.close()
    return {name: [on for _, on in sorted(c.items())][WARM:] for name, c in chunks.items()}


@given(
    curve=st.sampled_from("AB"),
    row=st.sampled_from([0.012, 0.02, 0.03]),
    anytime=st.booleans(),
    firm=st.sampled_from([(29, 30), (4, 5)]),
    starts=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8),
)
@settings(max_examples=30, deadline=None, database=None, derandomize=True)
def test_equal_streams_have_their_share_of_the_chunks_that_are_on_time(
    curve: str, row: float, anytime: bool, firm: tuple[int, int], starts: list[float]
) -> None:
    """Each has at least half of the mean share; streams whose instants come in the middle of long
    forwards have less than others."""
    setup = Setup(curve=curve, row=row, anytime=anytime, firm=firm)
    shares = {name: sum(on) / len(on) for name, on in outcomes(setup, starts).items()}
    assert len(shares) == len(starts)
    mean = sum(shares.values()) / len(shares)
    assert min(shares.values()) >= 0.5 * mean, shares
