"""Looking at an SDP offer before anything is built for it: limits first, then sense.

An offer is untrusted text. It is counted by lines, cleaned of what is not wanted, parsed once by
aiortc and checked for what this side can send or take. No peer connection exists here.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from aiortc.codecs import CODECS
from aiortc.rtcpeerconnection import find_common_codecs
from aiortc.sdp import DIRECTIONS, MediaDescription, SessionDescription

from onbeat.webrtc.h264 import any_profile
from onbeat.webrtc.ice import usable_candidate
from onbeat.webrtc.settings import OfferError, PeerSettings

MAX_LINES = 1000
RECEIVES = ("recvonly", "sendrecv")
SENDS = ("sendonly", "sendrecv")
Role = Literal["view", "publish", "duplex"]
"""What the other side is: it receives (WHEP), sends (WHIP), or both."""
HASHES = ("sha-256", "sha-384", "sha-512")
_CONTROL = re.compile(r"[^\x20-\x7e\r\n\t\x80-\U0010ffff]|[\x85\u2028\u2029]")
PARSER_ERRORS = (ValueError, AssertionError, KeyError, IndexError, AttributeError, TypeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOffer:
    """An offer that can be answered. `sdp`: the cleaned text.

    video_codec: what it receives, None = no video; audio: whether it receives sound; sends: the
    kinds of media that it sends and that are taken; restored: H.264 profiles to put back into the
    answer, by payload type (see `h264.py`).
    """

    sdp: str
    video_codec: str | None
    audio: bool
    sends: frozenset[str] = frozenset()
    restored: Mapping[int, str] = field(default_factory=dict)


def check_offer(offer: str, settings: PeerSettings, role: Role = "view") -> CheckedOffer:
    """Raises OfferError, whose `param` names the part of the offer at fault."""
    _check_size(offer, settings)
    lines = offer.splitlines()
    _check_counts(lines, settings)
    cleaned = _cleaned(lines, settings.private_candidates)
    restored: dict[int, str] = {}
    if role == "publish":
        cleaned, restored = any_profile(cleaned)
    sdp = "\r\n".join(cleaned) + "\r\n"
    description = _parse(sdp)
    for number, media in enumerate(description.media):
        _check_media(media, f"m-line {number + 1} ({media.kind})")
    _check_bundle(description)
    return _choose(sdp, description, settings, role, restored)


def _check_size(offer: str, settings: PeerSettings) -> None:
    size = len(offer.encode("utf-8", "surrogatepass"))
    if size > settings.max_offer_bytes:
        raise OfferError(
            f"the offer has {size} bytes; at most {settings.max_offer_bytes} are taken",
            "offer",
            "too_large",
        )
    if not offer.startswith("v=0") or _CONTROL.search(offer):
        raise OfferError(
            'the offer is not SDP: it must be text that begins with "v=0"', "offer", "invalid_sdp"
        )


def _check_counts(lines: list[str], settings: PeerSettings) -> None:
    limits = {
        "m=": settings.max_media_lines,
        "a=candidate:": settings.max_candidates,
        "a=ssrc:": settings.max_ssrc_lines,
        "": MAX_LINES,
    }
    for prefix, limit in limits.items():
        count = sum(line.startswith(prefix) for line in lines)
        if count > limit:
            name = f'"{prefix}" lines' if prefix else "lines"
            raise OfferError(
                f"the offer has {count} {name}; at most {limit} are taken",
                prefix or "offer",
                "too_many",
            )


def _cleaned(lines: list[str], private: bool) -> list[str]:
    """Without unusable candidates and the claim that they are complete; every direction stated.

    Chrome hides its addresses behind mDNS names; without them the pair is found peer-reflexive.
    """
    default = next((line for line in _before_media(lines) if line[2:] in DIRECTIONS), "a=sendrecv")
    kept: list[str] = []
    stated = True
    for line in lines:
        if line.startswith("m="):
            kept += [] if stated else [default]
            stated = False
        stated = stated or line[2:] in DIRECTIONS
        unusable = line.startswith("a=candidate:") and not usable_candidate(line, private)
        if not unusable and line != "a=end-of-candidates":
            kept.append(line)
    return _with_ports(kept if stated else [*kept, default])


def _with_ports(lines: list[str]) -> list[str]:
    """Port 0 with a=bundle-only refuses nothing (RFC 9143, 6); max-bundle offers have both."""
    bounds = [at for at, line in enumerate(lines) if line.startswith("m=")] + [len(lines)]
    for start, end in itertools.pairwise(bounds):
        if "a=bundle-only" in lines[start:end]:
            lines[start] = re.sub(r"^(m=\w+) 0 ", r"\1 9 ", lines[start])
    return lines


def _before_media(lines: list[str]) -> list[str]:
    first = next((at for at, line in enumerate(lines) if line.startswith("m=")), len(lines))
    return lines[:first]


def _parse(sdp: str) -> SessionDescription:
    try:
        description = SessionDescription.parse(sdp)
    except (*PARSER_ERRORS, StopIteration) as error:
        why = f" ({error})" if str(error) else ""
        raise OfferError(f"the offer is not valid SDP{why}", "offer", "invalid_sdp") from error
    if not description.media:
        raise OfferError("the offer has no m-line", "m=", "invalid_sdp")
    return description


def _check_media(media: MediaDescription, name: str) -> None:
    def refuse(why: str, code: str = "invalid_sdp") -> OfferError:
        return OfferError(f"{name}: {why}", name, code)

    if media.kind not in ("audio", "video", "application"):
        raise refuse("only audio, video and application are taken", "unsupported")
    if media.kind == "application" and "SCTP" not in media.profile:
        raise refuse("an application m-line must be a data channel (SCTP)", "unsupported")
    if media.port == 0:
        raise refuse("its port is 0, it is refused by the offer itself", "unsupported")
    if media.kind != "application" and not media.rtcp_mux:
        raise refuse("a=rtcp-mux is needed", "unsupported")
    if media.ice is None or not media.ice.usernameFragment or not media.ice.password:
        raise refuse("a=ice-ufrag or a=ice-pwd is missing")
    hashes = [] if media.dtls is None else [print_.algorithm for print_ in media.dtls.fingerprints]
    if not any(name.lower() in HASHES for name in hashes):
        raise refuse(f"a=setup or a=fingerprint with one of {', '.join(HASHES)} is missing")
    if not media.rtp.muxId:
        raise refuse("a=mid is missing")


def _check_bundle(description: SessionDescription) -> None:
    mids = [media.rtp.muxId for media in description.media]
    kinds = [media.kind for media in description.media]
    for kind in ("audio", "video", "application"):
        if kinds.count(kind) > 1:
            raise OfferError(
                f"the offer has {kinds.count(kind)} {kind} m-lines; one is taken", kind, "too_many"
            )
    bundles = [set(group.items) for group in description.group if group.semantic == "BUNDLE"]
    if len(set(mids)) < len(mids) or (len(mids) > 1 and set(mids) not in bundles):
        raise OfferError(
            "all m-lines must have their own a=mid and be in one a=group:BUNDLE",
            "a=group",
            "unsupported",
        )


def _choose(
    sdp: str,
    description: SessionDescription,
    settings: PeerSettings,
    role: Role,
    restored: Mapping[int, str],
) -> CheckedOffer:
    wanted = {m.kind: m for m in description.media if m.kind != "application"}
    receives = _directed(wanted, RECEIVES) if role != "publish" else set()
    sends = _directed(wanted, SENDS) if role != "view" else set()
    _need_direction(receives, sends, role)
    codecs = {kind: _common(media) for kind, media in wanted.items()}
    video = [name for name in settings.video_codecs if name in codecs.get("video", [])]
    _need(video, "video", settings.video_codecs, "video" in wanted)
    opus = [name for name in codecs.get("audio", []) if name == "opus"]
    _need(opus, "audio", ("opus",), "audio" in wanted)
    return CheckedOffer(
        sdp=sdp,
        video_codec=video[0] if "video" in receives else None,
        audio="audio" in receives,
        sends=frozenset(sends),
        restored=restored,
    )


def _directed(wanted: Mapping[str, MediaDescription], directions: tuple[str, ...]) -> set[str]:
    return {kind for kind, media in wanted.items() if media.direction in directions}


def _need_direction(receives: set[str], sends: set[str], role: Role) -> None:
    if role == "publish":
        verb, directions, found = "sends", SENDS, sends
    else:
        verb, directions, found = "receives", RECEIVES, receives
    if not found:
        raise OfferError(
            f"the offer {verb} neither audio nor video (no {' or '.join(directions)} m-line)",
            "direction",
            "unsupported",
        )


def _common(media: MediaDescription) -> list[str]:
    return [codec.name for codec in find_common_codecs(CODECS[media.kind], media.rtp.codecs)]


def _need(found: list[str], kind: str, allowed: tuple[str, ...], wanted: bool) -> None:
    if wanted and not found:
        raise OfferError(
            f"{kind}: the offer has no codec that is spoken here ({', '.join(allowed)})",
            kind,
            "no_common_codec",
        )
