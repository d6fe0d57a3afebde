"""Late candidates and ICE restarts for aioice, which has the former and not the latter.

A restart (RFC 8445, 9) changes both sides' credentials and the remote candidates; the sockets, and
DTLS above them, stay. Media flow over the old pair until a new one is nominated. It leans on
private names of aioice; the tests hold them.
"""

from aioice import Candidate
from aioice.ice import CandidatePair, Connection
from aioice.utils import random_string

from onbeat.webrtc.ice import usable_candidate

MAX_REMOTE = 64
"""Remote candidates of one connection; more are ignored."""
PREFIX = "a=candidate:"


async def add_candidates(connection: Connection, lines: tuple[str, ...], private: bool) -> int:
    """How many of the candidates are tried; unusable ones are dropped without a word."""
    before = len(connection._remote_candidates)
    for line in lines:
        if len(connection._remote_candidates) >= MAX_REMOTE:
            break
        if usable_candidate(line, private) and not connection._remote_candidates_end:
            await connection.add_remote_candidate(Candidate.from_sdp(line.removeprefix(PREFIX)))
    if connection._check_list_done and not connection._closing:
        _check_new(connection)
    return len(connection._remote_candidates) - before


async def restart(
    connection: Connection, ufrag: str, password: str, lines: tuple[str, ...], private: bool
) -> tuple[str, str, list[str]]:
    """New local ufrag and password, and the local candidates, which stay.

    Raises ConnectionError for a connection that has not begun or has ended.
    """
    if connection.remote_username is None or connection._closing:
        raise ConnectionError("this connection has no ICE session to restart")
    _forget_checks(connection)
    connection.remote_username, connection.remote_password = ufrag, password
    connection._local_username, connection._local_password = random_string(4), random_string(22)
    connection._remote_candidates_end = False
    await add_candidates(connection, lines, private)
    candidates = [candidate.to_sdp() for candidate in connection.local_candidates]
    return connection.local_username, connection.local_password, candidates


def _forget_checks(connection: Connection) -> None:
    """Only the pair in use is kept, and is to be checked again under the new credentials."""
    used = list(connection._nominated.values())
    for pair in connection._check_list:
        if pair.task is not None:
            pair.task.cancel()
            pair.task = None
    for pair in used:
        pair.nominated = pair.remote_nominated = False
        pair.state = CandidatePair.State.WAITING
    connection._check_list[:] = used
    connection._remote_candidates[:] = [pair.remote_candidate for pair in used]
    connection._nominating.clear()


def _check_new(connection: Connection) -> None:
    """Nobody else starts checks once the first round is over."""
    for pair in connection._check_list:
        if pair.state in (CandidatePair.State.WAITING, CandidatePair.State.FROZEN):
            connection.check_start_task(pair)
