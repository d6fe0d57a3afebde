"""SDP fragments of a PATCH: candidates that come late, new ICE credentials, and the answer to them.

RFC 8840 (trickle-ice-sdpfrag) as RFC 9725, 4.3 uses it, and the JSON that some mobile clients send
in its place. What it is not: doing anything with it (restart.py).
"""

import json
import re
from dataclasses import dataclass

from onbeat.webrtc.settings import OfferError

MAX_CANDIDATES = 64
"""Lines of one fragment. Clients repeat every candidate for each m-line."""
MAX_LINES = 400
_LINE = re.compile(r"[a-z]=.*")
_UFRAG = re.compile(r"[A-Za-z0-9+/]{4,256}")
_PASSWORD = re.compile(r"[A-Za-z0-9+/]{22,256}")
_UNKNOWN_COMPONENT = re.compile(r"(a=candidate:\S+) 0 ")
END = "a=end-of-candidates"
UNSET = {"null", "undefined"}
"""What a client in JavaScript writes for credentials that it has not read yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What a fragment says. candidates: lines "a=candidate:...", each once.

    ufrag, password: of the sender, None where it names none; ended: no more candidates will come.
    """

    ufrag: str | None
    password: str | None
    candidates: tuple[str, ...]
    ended: bool


def parse_fragment(text: str) -> Fragment:
    """Raises OfferError, code "invalid_fragment" or "too_many"."""
    lines = _from_json(text) if text.lstrip().startswith("{") else _lines(text)
    candidates = dict.fromkeys(_known(line) for line in lines if line.startswith("a=candidate:"))
    found = Fragment(
        ufrag=_only(lines, "a=ice-ufrag:", _UFRAG),
        password=_only(lines, "a=ice-pwd:", _PASSWORD),
        candidates=tuple(candidates),
        ended=END in lines,
    )
    if (found.ufrag is None) != (found.password is None):
        raise _invalid("a=ice-ufrag and a=ice-pwd belong together")
    if not (candidates or found.ended or found.ufrag):
        raise _invalid("it holds no candidate, no end of candidates and no credentials")
    return found


def _invalid(why: str) -> OfferError:
    return OfferError(f"the fragment is not taken: {why}", "fragment", "invalid_fragment")


def _lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line]
    wrong = next((line for line in lines if not _LINE.fullmatch(line)), None)
    if wrong is not None:
        raise _invalid(f'{wrong[:40]!r} is no line of SDP such as "a=candidate:..."')
    count = sum(line.startswith("a=candidate:") for line in lines)
    if count > MAX_CANDIDATES or len(lines) > MAX_LINES:
        raise OfferError(
            f"the fragment has {len(lines)} lines, {count} of them candidates; "
            f"at most {MAX_LINES} and {MAX_CANDIDATES} are taken",
            "fragment",
            "too_many",
        )
    return lines


def _from_json(text: str) -> list[str]:
    """A candidate as browsers write it to JSON; an empty one ends them."""
    try:
        candidate = json.loads(text)["candidate"]
    except (ValueError, KeyError, RecursionError) as error:
        raise _invalid('as JSON it needs a text "candidate"') from error
    if not isinstance(candidate, str) or "\n" in candidate or "\r" in candidate:
        raise _invalid('as JSON it needs a text "candidate"')
    return [f"a={candidate}" if candidate else END]


def _known(line: str) -> str:
    """One client writes component 0 where it knows none; bundled media have component 1."""
    return _UNKNOWN_COMPONENT.sub(r"\1 1 ", line)


def _only(lines: list[str], prefix: str, form: re.Pattern[str]) -> str | None:
    found = {line.removeprefix(prefix).strip() for line in lines if line.startswith(prefix)}
    found -= UNSET
    if len(found) > 1:
        raise _invalid(f"{prefix} has {len(found)} values; all media share one")
    value = next(iter(found), None)
    if value is not None and not form.fullmatch(value):
        raise _invalid(f"{prefix} {value[:40]!r} is not {form.pattern}")
    return value


def restart_answer(answer: str, ufrag: str, password: str, candidates: list[str]) -> str:
    """What answers a restart (RFC 9725, 4.3.3): for the first m-line of the SDP `answer`."""
    media = answer[answer.index("m=") :].splitlines()
    mid = next(line for line in media if line.startswith("a=mid:"))
    lines = [
        f"a=ice-ufrag:{ufrag}",
        f"a=ice-pwd:{password}",
        re.sub(r" \d+ ", " 9 ", media[0], count=1),
        mid,
        *(f"a=candidate:{candidate}" for candidate in candidates),
        END,
    ]
    return "\r\n".join(lines) + "\r\n"
