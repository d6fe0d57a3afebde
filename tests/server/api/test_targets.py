"""Which addresses something may be sent to."""

import ipaddress

import pytest

from onbeat.server.api.targets import BadTarget, addresses, is_public, parse_target


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"]
    + ["100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "240.0.0.1"]
    + ["::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1"]
    + ["::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:db8::1"],
)
def test_internal(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


def test_a_target_taken_apart() -> None:
    target = parse_target("https://Example.com:8443/a/b?c=d#e")
    assert (target.scheme, target.host, target.port) == ("https", "example.com", 8443)
    assert (target.path, target.authority) == ("/a/b?c=d", "example.com:8443")
    assert parse_target("http://[2606:4700::1]/").authority == "[2606:4700::1]"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1.:80/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://127.1./", "127.0.0.1"),
        ("http://Example.com./", "example.com"),
        ("http://[::FFFF:127.0.0.1]/", "::ffff:7f00:1"),
    ],
)
def test_a_host_has_one_form(url: str, host: str) -> None:
    assert parse_target(url).host == host


async def test_an_address_is_not_said_to_be_itself() -> None:
    with pytest.raises(BadTarget, match=r"^169\.254\.169\.254 is internal; allowed: public ones$"):
        await addresses(parse_target("http://169.254.169.254/latest"))
    with pytest.raises(BadTarget, match=r"^localhost is .+, which is internal"):
        await addresses(parse_target("http://localhost/"))


@pytest.mark.parametrize(
    "url",
    ["http://a\r\nb/", "http://a/\x00", "http://a:99999/", "http://ä/", "https://exa%6dple.com/"]
    + ["http://a..b/", "http://./", "http://999.1.1.1/", "http://1.2.3.4.5/", "http://-a.example/"]
    + ["http://[fe80::1%25eth0]/", f"http://{'a' * 64}.example/", f"http://{'a.' * 127}example/"],
)
def test_none(url: str) -> None:
    with pytest.raises(BadTarget):
        parse_target(url)
