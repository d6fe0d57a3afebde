"""Fragments: what clients send in a PATCH, and what answers a restart."""

import json

import pytest

from onbeat.webrtc.fragment import MAX_CANDIDATES, parse_fragment, restart_answer
from onbeat.webrtc.settings import OfferError

CANDIDATE = "a=candidate:1 1 udp 2130706431 192.0.2.7 50000 typ host"
CREDENTIALS = f"a=ice-ufrag:EsAw\r\na=ice-pwd:{'P2uY' * 6}\r\n"
MEDIA = "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n"


def test_a_trickled_candidate() -> None:
    found = parse_fragment(f"{CREDENTIALS}{MEDIA}{CANDIDATE}\r\na=end-of-candidates\r\n")
    assert (found.ufrag, found.candidates, found.ended) == ("EsAw", (CANDIDATE,), True)
    assert found.password == "P2uY" * 6


def test_each_candidate_counts_once() -> None:
    """Some clients repeat all of them for each m-line."""
    found = parse_fragment(2 * f"{MEDIA}{CANDIDATE}\n")
    assert found.candidates == (CANDIDATE,) and found.ufrag is None and not found.ended


def test_credentials_that_a_client_has_not_read_yet_are_none() -> None:
    found = parse_fragment(f"a=ice-ufrag:null\r\na=ice-pwd:null\r\n{CANDIDATE}\r\n")
    assert found.ufrag is None and found.password is None and found.candidates


def test_component_0_is_meant_as_1() -> None:
    found = parse_fragment(CANDIDATE.replace(":1 1 udp", ":1 0 udp"))
    assert found.candidates == (CANDIDATE,)


@pytest.mark.parametrize(
    ("text", "candidates", "ended"),
    [
        (json.dumps({"candidate": CANDIDATE[2:], "sdpMid": "0"}), (CANDIDATE,), False),
        ('{"candidate": ""}', (), True),
    ],
)
def test_json_of_mobile_clients(text: str, candidates: tuple[str, ...], ended: bool) -> None:
    found = parse_fragment(text)
    assert (found.candidates, found.ended) == (candidates, ended)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", "invalid_fragment", "no candidate"),
        (MEDIA, "invalid_fragment", "no candidate"),
        ("hello", "invalid_fragment", "no line of SDP"),
        ("{", "invalid_fragment", "JSON"),
        ('{"candidate": 7}', "invalid_fragment", "JSON"),
        ('{"candidate": "candidate:1\\na=x"}', "invalid_fragment", "JSON"),
        ("[" * 100_000, "invalid_fragment", "no line of SDP"),
        ("a=ice-ufrag:EsAw", "invalid_fragment", "belong together"),
        (f"{CREDENTIALS}a=ice-ufrag:Other", "invalid_fragment", "2 values"),
        (CREDENTIALS.replace("EsAw", "E"), "invalid_fragment", "not [A-Z"),
        (CREDENTIALS.replace("EsAw", "a b c d"), "invalid_fragment", "not [A-Z"),
        (f"{CANDIDATE}\n" * (MAX_CANDIDATES + 1), "too_many", "at most"),
        ("a=x\n" * 500, "too_many", "at most"),
    ],
)
def test_what_is_not_taken(text: str, code: str, says: str) -> None:
    with pytest.raises(OfferError) as refused:
        parse_fragment(text)
    assert refused.value.code == code and says in refused.value.message


def test_the_answer_to_a_restart_is_for_the_first_media() -> None:
    answer = (
        "v=0\r\nm=audio 40000 UDP/TLS/RTP/SAVPF 96\r\na=sendonly\r\na=mid:a0\r\n"
        "m=video 40000 UDP/TLS/RTP/SAVPF 97\r\na=mid:v1\r\n"
    )
    text = restart_answer(answer, "new1", "secret" * 4, ["1 1 udp 1 192.0.2.1 40000 typ host"])
    assert text.splitlines() == [
        "a=ice-ufrag:new1",
        f"a=ice-pwd:{'secret' * 4}",
        "m=audio 9 UDP/TLS/RTP/SAVPF 96",
        "a=mid:a0",
        "a=candidate:1 1 udp 1 192.0.2.1 40000 typ host",
        "a=end-of-candidates",
    ]
    assert text.endswith("\r\n")
    assert parse_fragment(text).ufrag == "new1"
