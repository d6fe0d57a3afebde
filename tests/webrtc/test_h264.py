"""Profiles of H.264 that aiortc does not know, in a publisher's offer and back in the answer."""

from onbeat.webrtc.h264 import any_profile, restored

HIGH = "a=fmtp:106 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=640028"
BASE = "a=fmtp:107 profile-level-id=42e01f;packetization-mode=1"


def test_other_profiles_are_shown_as_baseline_and_put_back() -> None:
    shown, was = any_profile(["m=video 9 X 106 107", HIGH, BASE, "a=fmtp:108 apt=106"])
    assert was == {106: "640028"}
    assert shown[1].endswith("profile-level-id=42e01f") and shown[2] == BASE
    assert restored("\r\n".join(shown), was).split("\r\n")[1] == HIGH


def test_an_answer_without_other_profiles_stays() -> None:
    assert restored(BASE, {}) == BASE and restored(BASE, {106: "640028"}) == BASE
