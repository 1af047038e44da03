"""The DNS-rebinding guard: names of this machine and addresses pass, all others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.http_rules import Guard
from tests.promises import promise

GUARD = Guard.of(
    host_name="Bench7",
    qualified_name="bench7.lab.example.",
    allowed_hosts=["Proxy.example", "alias.example:8443"],
    allowed_origins=["https://Tools.example:443/", "vscode-webview://panel"],
)


def allows(origin: str, *, host: str = "127.0.0.1:8767", fetch_site: str | None = None) -> bool:
    return GUARD.allows_origin(origin, host=host, fetch_site=fetch_site)


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
    assert allows(origin)


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
    assert not allows(origin)


@promise("mcp.own-origin")
@pytest.mark.parametrize("fetch_site", [None, "same-origin", "Same-Origin"])
@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://192.168.1.20:8767", "192.168.1.20:8767"),
        ("http://bench7:8767", "bench7:8767"),
        ("HTTP://Bench7.Lab.Example:8767", "bench7.lab.example.:8767"),
        ("http://bench7", "bench7"),
        ("http://bench7:80", "bench7"),
        ("http://bench7", "bench7:80"),
        ("http://[FD00::7]:8767", "[fd00::7]:8767"),
        ("http://localhost:8767", "localhost:8767"),
    ],
)
def test_the_origin_of_the_request_itself_passes(
    origin: str, host: str, fetch_site: str | None
) -> None:
    assert GUARD.allows_host(host)
    assert allows(origin, host=host, fetch_site=fetch_site)


@promise("mcp.own-origin")
@pytest.mark.parametrize("fetch_site", ["same-site", "cross-site", "none", "", "same-origin, x"])
def test_where_a_browser_says_whose_page_it_was_that_must_agree(fetch_site: str) -> None:
    own = "192.168.1.20:8767"
    assert not allows(f"http://{own}", host=own, fetch_site=fetch_site)
    assert not allows("http://127.0.0.1:8767", fetch_site=fetch_site)


@pytest.mark.parametrize("fetch_site", [None, "same-origin"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://192.168.1.20:8767",
        "http://192.168.1.20",
        "http://192.168.1.20:8768",
        "http://192.168.1.21:8767",
        "http://192.168.1.20:8767/",
        "http://192.168.1.20:8767@evil.example",
        "http://evil.example:8767",
    ],
)
def test_an_origin_that_differs_in_anything_is_another(origin: str, fetch_site: str | None) -> None:
    assert not allows(origin, host="192.168.1.20:8767", fetch_site=fetch_site)


@promise("mcp.pages-of-other-ports")
@pytest.mark.parametrize("fetch_site", ["same-site", "cross-site", "same-origin"])
@pytest.mark.parametrize("port", [6274, 8766])
def test_a_page_of_another_loopback_port_is_refused_unless_the_owner_names_it(
    fetch_site: str, port: int
) -> None:
    page = f"http://localhost:{port}"
    assert not allows(page, host="localhost:8767", fetch_site=fetch_site)
    named = Guard.of(host_name="bench7", allowed_origins=[page])
    assert named.allows_origin(page, host="localhost:8767", fetch_site=fetch_site)


def test_an_endpoint_that_clients_reach_by_https_is_its_own_origin_by_https_only() -> None:
    guard = Guard.of(host_name="", allowed_hosts=["relay.example"], scheme="https")
    for origin, is_own in {"https://relay.example": True, "http://relay.example": False}.items():
        assert guard.allows_origin(origin, host="relay.example", fetch_site=None) is is_own


def test_a_machine_without_a_name_allows_no_empty_name() -> None:
    guard = Guard.of(host_name="")
    assert not guard.allows_host(".")
    assert not guard.allows_host(":80")
    assert guard.hosts == frozenset()


@given(st.text(), st.sampled_from(["@", ".", "/", "#", "?", "\\", ":", "%", "\t", " "]))
def test_no_tail_makes_a_foreign_name_pass(text: str, joint: str) -> None:
    assert not GUARD.allows_host(f"{text}{joint}evil.example")
    assert not allows(f"http://localhost{joint}{text}evil.example")
