"""Seconds before its playout at which a chunk's last step must be done: the decode lane's share.

Two answers. `promised`: what admission keeps for a stream whose chunk is the last of a whole batch,
on a slow day. `usual`: what a tick expects of the chunks at hand, most of which find a part of the
others in front of them. Taking the first for the second gave up chunks that were in time in the
end. Plain numbers. What it is not: the order of decoding (decode.py).
"""

from onbeat.server.engine.cost import CostModel

FOUND = 0.5
"""The share of a batch that a chunk finds in front of it: the first none, the last all of it."""


def usual(cost: CostModel, *, batch: int, backlog: int, rows: int, delivery: float) -> float:
    """`batch`: chunks that become ready together; `backlog`: those in the lane now; `rows`: of one
    decode at most; `delivery`: seconds kept free after it."""
    queue = max(float(backlog), FOUND * batch) * cost.row_seconds(rows)
    return delivery + cost.median(1) + queue


def promised(cost: CostModel, *, batch: int, rows: int, delivery: float) -> float:
    """The same for the last chunk of a batch, by the 99th percentile of its own decode."""
    return delivery + cost.predict(1) + batch * cost.row_seconds(rows)
