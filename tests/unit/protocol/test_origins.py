"""The DNS-rebinding guard: names of this machine and addresses pass, all others do not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edged.protocol.origins import Guard

GUARD = Guard.of(
    host_name="Bench7",
    qualified_name="bench7.lab.example.",
    allowed_hosts=["Proxy.example", "alias.example:8443"],
    allowed_origins=["https://Tools.example:443/", "vscode-webview://panel"],
)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8767",
        "192.168.1.20:8767",
        "[::1]:8767",
        "[fe80::1%eth0]:8767",
        "[::ffff:10.0.0.1]",
        "localhost",
        "LocalHost:8767",
        "localhost.:8767",
        "bench7",
        "BENCH7:8767",
        "bench7.local",
        "bench7.lab.example",
        "bench7.lab.example.:1",
        "proxy.example:99",
        "alias.example:8443",
    ],
)
def test_an_address_or_a_name_of_this_machine_passes(host: str) -> None:
    assert GUARD.allows_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example.com",
        "evil.example.com:8767",
        "localhost.evil.example",
        "evil.localhost",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "user:pw@localhost",
        "localhost:8767@evil.example",
        "localhost/evil",
        "localhost evil",
        "localhost:",
        "localhost:999999",
        "localhost,evil.example",
        "[::1",
        "::1",
        "[localhost]",
        "[::1].evil.example",
        "0177.0.0.1",
        "2130706433",
        "0x7f.1",
        "1.2.3.4.5",
        "bench7.lab.evil",
        "bench8.local",
        "alias.example",
        "alias.example:1",
        "bench7.\u0131local",
        "\udcff",
    ],
)
def test_any_other_host_is_foreign(host: str) -> None:
    assert not GUARD.allows_host(host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:8767",
        "HTTPS://LOCALHOST:1",
        "http://127.0.0.1:6274",
        "http://127.8.9.10",
        "http://[::1]:6274",
        "https://tools.example",
        "https://tools.example:443",
        "vscode-webview://panel",
    ],
)
def test_a_loopback_origin_or_one_of_the_owner_passes(origin: str) -> None:
    assert GUARD.allows_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example.com",
        "http://localhost:8767@evil.example",
        "http://localhost@evil.example",
        "http://localhost.evil.example",
        "http://localhost:8767.evil.example",
        "http://127.0.0.1.evil.example",
        "http://192.168.1.20:8767",
        "http://bench7",
        "file://localhost",
        "ftp://localhost",
        "http:localhost",
        "//localhost",
        "localhost",
        "http://localhost/path",
        "http://localhost?x",
        "http://localhost#x",
        "http://localhost http://evil.example",
        "http://localhost, http://evil.example",
        "http://tools.example",
        "https://tools.example:444",
        "https://sub.tools.example",
        "vscode-webview://other",
        "http://0x7f000001",
        "http://[::ffff:8.8.8.8]",
    ],
)
def test_any_other_origin_is_foreign(origin: str) -> None:
    assert not GUARD.allows_origin(origin)


def test_a_machine_without_a_name_allows_no_empty_name() -> None:
    guard = Guard.of(host_name="")
    assert not guard.allows_host(".")
    assert not guard.allows_host(":80")
    assert guard.hosts == frozenset()


@settings(max_examples=100, deadline=None)
@given(st.text(), st.sampled_from(["@", ".", "/", "#", "?", "\\", ":", "%", "\t", " "]))
def test_no_tail_makes_a_foreign_name_pass(text: str, joint: str) -> None:
    assert not GUARD.allows_host(f"{text}{joint}evil.example")
    assert not GUARD.allows_origin(f"http://localhost{joint}{text}evil.example")
