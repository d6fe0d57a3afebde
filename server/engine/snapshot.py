"""What a stream needs to go on in another engine: the final latents of its window, as bytes.

No torch and no model here, so that the front can pack what it read from the ring. Keys and values
are not stored: the new engine commits the latents again, a few rows in each tick.
"""

from collections.abc import Sequence

import msgspec


class Tallies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stream has counted so far, so that its counters go on elsewhere."""

    made: int = 0
    on_time: int = 0
    late: int = 0
    dropped: int = 0
    steps: int = 0
    by_steps: dict[int, int] = {}
    reanchored: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`latents`: per chunk, oldest first, the modalities in the model's order as float32 bytes;
    `next_chunk`: index of the first chunk that is to be made. `chunks`, `seeds`: indices and seeds
    of these chunks, if they are not the last ones under the stream's seed; `fresh`: whether the
    next chunk is the first of its scene (None: if there are no latents); `level`: of the ladder;
    `decoded`: chunks that the stream's decoder has heard, so that its sound goes on as it would
    have (None: of no matter)."""

    next_chunk: int
    latents: list[bytes]
    chunks: list[int] = []
    seeds: list[int] = []
    fresh: bool | None = None
    level: int = 0
    tallies: Tallies = Tallies()
    decoded: int | None = None


def pack_snapshot(*, next_chunk: int, latents: Sequence[bytes]) -> bytes:
    """MessagePack of a stream's window. `latents` as they lie in the ring, oldest first."""
    return pack(Snapshot(next_chunk=next_chunk, latents=list(latents)))


def pack(snapshot: Snapshot) -> bytes:
    """MessagePack of all that a snapshot can hold."""
    return msgspec.msgpack.encode(snapshot)


def unpack_snapshot(data: bytes, *, chunk_bytes: int, keep: int) -> Snapshot:
    """Reads `pack_snapshot`, keeping the newest `keep` chunks.

    Raises ValueError if `data` is no snapshot or its chunks are not `chunk_bytes` long.
    """
    try:
        snapshot = msgspec.msgpack.decode(data, type=Snapshot)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"snapshot: {len(data)} bytes that are not a snapshot ({error})"
        ) from error
    wrong = sorted({len(x) for x in snapshot.latents} - {chunk_bytes})
    if wrong:
        raise ValueError(f"snapshot: chunks of {wrong} bytes; allowed: {chunk_bytes}")
    if not 0 <= snapshot.next_chunk < 1 << 32:
        raise ValueError(f"snapshot: next_chunk is {snapshot.next_chunk}; allowed: 0 to 2^32 - 1")
    for name in ("chunks", "seeds"):
        count = len(getattr(snapshot, name))
        if count not in (0, len(snapshot.latents)):
            raise ValueError(f"snapshot: {count} {name}; allowed: {len(snapshot.latents)}, or none")
    return msgspec.structs.replace(
        snapshot,
        latents=snapshot.latents[-keep:],
        chunks=snapshot.chunks[-keep:],
        seeds=snapshot.seeds[-keep:],
    )
