"""What messages show of a value: short, and never the credentials of an address."""

import pytest

from onbeat.server.config import SettingsError, load_settings
from onbeat.server.jobs.object_store import ObjectStore
from onbeat.server.wording import LONGEST_URL, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("http://me:geheim@host:80/x", "'http://***@host:80/x'"),
        ("http://me:ge/heim@host", "'http://***@host'"),
        ("postgresql://me:ge@heim@db/jobs", "'postgresql://***@db/jobs'"),
        ("turn:me:geheim@host:3478", "'turn:***@host:3478'"),
        ("//geheim@host", "'//***@host'"),
        (f"http://me:{'geheim' * LONGEST_URL}@host", "'http://***@'"),
        ({"url": "http://me:geheim@host"}, '{"url": "http://***@host"}'),
        ("https://host:8080/@me?to=a@b", "'https://host:8080/@me?to=a@b'"),
        ("http://[::1]:80/@me", "'http://[::1]:80/@me'"),
        ("a@b.example: 1", "'a@b.example: 1'"),
    ],
)
def test_credentials_are_not_shown(value: object, text: str) -> None:
    assert shown(value) == text and "geheim" not in shown(value)


def test_settings_say_what_is_allowed_and_show_no_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for flags, said in (
        ({"max_jobs_queued": 0}, "max_jobs_queued: 0 is not allowed; allowed: 1 or more"),
        ({"max_jobs_queued": "x"}, "max_jobs_queued: 'x' is not allowed; allowed: a whole number"),
        ({"lease_seconds": 1}, "lease_seconds: 1 is not allowed; allowed: 2 or more"),
        ({"audio_only": 1}, "audio_only: unknown setting; allowed: "),
        ({"artifacts_redirect": "maybe"}, "'maybe' is not allowed; allowed: true or false"),
        ({"webhook_networks": "10.0.0.1/8"}, "allowed: networks such as 10.0.0.0/8, 127.0.0.1"),
        ({"turn_urls": "turn:me:geheim@host"}, "'turn:***@host' is no TURN address; allowed: "),
    ):
        with pytest.raises(SettingsError) as raised:
            load_settings(**flags)
        told = str(raised.value)
        assert said in told and "Input should" not in told and "geheim" not in told, told
    monkeypatch.setenv("ONBEAT_RECORDINGS_MAX_MIB", "-1")
    with pytest.raises(SettingsError, match="'-1' is not allowed; allowed: 0 or more"):
        load_settings()


def test_a_bucket_with_keys_in_its_address_is_refused() -> None:
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    with pytest.raises(SettingsError, match=r"'s3://\*\*\*@bucket'.*keys in AWS_\*"):
        ObjectStore("s3://me:geheim@bucket")
