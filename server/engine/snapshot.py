"""What a stream needs to go on in another engine: the final latents of its window, as bytes.

No torch and no model here, so that the front can pack what it read from the ring. Keys and values
are not stored: the new engine commits the latents again, a few rows in each tick.
"""

from collections.abc import Sequence

import msgspec


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`latents`: per chunk, oldest first, the modalities in the model's order as float32 bytes;
    `next_chunk`: index of the first chunk that is to be made."""

    next_chunk: int
    latents: list[bytes]


def pack_snapshot(*, next_chunk: int, latents: Sequence[bytes]) -> bytes:
    """MessagePack of a stream's window. `latents` as they lie in the ring, oldest first."""
    return msgspec.msgpack.encode(Snapshot(next_chunk=next_chunk, latents=list(latents)))


def unpack_snapshot(data: bytes, *, chunk_bytes: int, window_chunks: int) -> Snapshot:
    """Reads `pack_snapshot`, keeping the newest `window_chunks` chunks.

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
    newest = snapshot.latents[-window_chunks:]
    return Snapshot(next_chunk=snapshot.next_chunk, latents=newest)
