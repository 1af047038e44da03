"""The fleet's page in Debian's chromium."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edged.relay.announcement import here_subject
from tests.bench.browser import Browser
from tests.bench.fleet_bench import UNIT
from tests.bench.nats_server import running_nats
from tests.bench.relay_chain import a_port, fleet_token, process
from tests.browser.looking import violations
from tests.promises import promise

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@dataclass
class FrontAlone:
    """A front, and edges that only speak."""

    directory: Path
    issuer: str
    nats_port: int
    port: int

    def token(self, *tools: str) -> str:
        directory = self.directory / "issuer"
        return fleet_token(directory, self.issuer, *tools, edges="edge-1,edge-2")

    def say(self, edge_id: str, **told: Any) -> None:
        data = json.dumps({"version": "1.0", **told}).encode()
        with socket.create_connection(("127.0.0.1", self.nats_port), 5) as line:
            line.sendall(
                b'CONNECT {"verbose":false}\r\nPUB %b %d\r\n%b\r\nPING\r\n'
                % (here_subject(edge_id).encode(), len(data), data)
            )
            with line.makefile("rb") as answers:
                while answers.readline() != b"PONG\r\n":
                    pass


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontAlone]:
    directory = tmp_path_factory.mktemp("fleet")
    with contextlib.ExitStack() as stack:
        nats = stack.enter_context(running_nats(directory / "nats", a_port()))
        serve = ("dev-issuer", "serve", "--port", "0", "--directory", str(directory / "issuer"))
        issuer = stack.enter_context(process(directory / "issuer.log", *serve, reads_line=True))
        settings = {
            "RELAY_NATS_URL": nats.url,
            "RELAY_ISSUER": issuer["issuer"],
            "RELAY_JWKS_URL": issuer["jwks_url"],
            "FLEET_HOSTS": '{"edge-2": "127.0.0.1"}',
        }
        words = [f"--set={key}={value}" for key, value in settings.items()]
        told = stack.enter_context(
            process(directory / "front.log", "relay", "--port", "0", *words, reads_line=True)
        )
        yield FrontAlone(directory, issuer["issuer"], nats.port, told["port"])


@promise("fleet.page-shell")
def test_the_page_asks_for_a_token_keeps_it_in_memory_and_shows_what_it_lists(
    front: FrontAlone, browser: Browser
) -> None:
    address = f"http://127.0.0.1:{front.port}/fleet"
    lease = {"who": "bob", "purpose": "", "expires_ms": 1}
    browser.complaints()
    browser.requests()
    browser.open(address)
    browser.sees("A token for the fleet")
    assert "edge-1" not in browser.text
    token = front.token("fleet__list_edges")

    def seen() -> bool:
        front.say("edge-1", units=[{**UNIT, "alias": HOSTILE[:70], "lease": lease}])
        front.say("edge-2", page="http://127.0.0.1:9/bench")
        browser.open(address)
        browser.type("#token", token)
        browser.click("button")
        browser.wait(lambda: "benches are here" in browser.text)
        return "2 of 2 benches are here" in browser.text

    browser.wait(seen, 20)
    for words in ("edge-1", "DP832", "ready", "reserved by bob", HOSTILE[:70], "no units"):
        assert words in browser.text, words
    assert browser.run("return document.title") == "edged: the fleet"
    assert browser.run("return document.querySelectorAll('td img, td script').length") == 0
    assert browser.run("return document.querySelector('td a').href") == "http://127.0.0.1:9/bench"
    # The token is nowhere that outlives the page.
    kept = browser.run(
        "return [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, "
        "location.href, document.documentElement.outerHTML, document.getElementById('token').value]"
    )
    assert not any(token[-40:] in part for part in kept)
    browser.open(address)
    browser.sees("A token for the fleet")
    assert "edge-1" not in browser.text
    assert browser.complaints() == []
    assert {request.split("/")[2] for request in browser.requests()} == {f"127.0.0.1:{front.port}"}


@promise("fleet.page-shell")
def test_a_token_that_is_not_accepted_is_asked_for_again(
    front: FrontAlone, browser: Browser
) -> None:
    browser.open(f"http://127.0.0.1:{front.port}/fleet")
    for token, words in (
        ("x.y.z", "not accepted"),
        (front.token("fleet__call"), "does not allow fleet__list_edges"),
    ):
        browser.type("#token", token)
        browser.click("button")
        browser.sees(words)
    browser.complaints()  # chromium tells of 401 and 403 by itself


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_the_fleet_s_page(
    front: FrontAlone, browser: Browser, scheme: str
) -> None:
    browser.scheme(scheme)
    front.say("edge-1", units=[UNIT])
    browser.open(f"http://127.0.0.1:{front.port}/fleet")
    browser.type("#token", front.token("fleet__list_edges"))
    browser.click("button")
    browser.sees("benches are here")
    found = violations(browser)
    assert found == []
