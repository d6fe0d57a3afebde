"""H.264 of any profile in a publisher's offer, though aiortc agrees to baseline only.

What is received is decoded by FFmpeg, which knows all profiles; only aiortc's comparison stands in
the way. It is shown baseline, and the answer gets the offered profile back, which an answer has to
repeat (RFC 6184, 8.2.2). What it is not: for offers that are sent to, where the profile matters.
"""

import re
from collections.abc import Mapping

SHOWN = "42e01f"
BASELINE = "42"
_FMTP = re.compile(r"a=fmtp:(\d+) (.*)")
_PROFILE = re.compile(r"(profile-level-id=)([0-9a-fA-F]{6})")


def any_profile(lines: list[str]) -> tuple[list[str], dict[int, str]]:
    """The lines with every profile as baseline, and what it was, by payload type."""
    shown, was = [], dict[int, str]()
    for line in lines:
        fmtp = _FMTP.match(line)
        profile = _PROFILE.search(line) if fmtp else None
        if fmtp and profile and not profile[2].startswith(BASELINE):
            was[int(fmtp[1])] = profile[2]
            line = _PROFILE.sub(rf"\g<1>{SHOWN}", line)
        shown.append(line)
    return shown, was


def restored(answer: str, was: Mapping[int, str]) -> str:
    """The answer with the profiles of the offer."""

    def put_back(match: re.Match[str]) -> str:
        profile = was.get(int(match[1]))
        return match[0] if profile is None else _PROFILE.sub(rf"\g<1>{profile}", match[0])

    return _FMTP.sub(put_back, answer) if was else answer
