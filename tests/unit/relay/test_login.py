"""What a front tells of who gives tokens for what it serves."""

from __future__ import annotations

import json

import pytest

from edged_relay.login import WELL_KNOWN, LoginMetadata, challenge_of
from tests.promises import promise

FRONT = LoginMetadata.of("https://relay.example/", "https://issuer.example")


@promise("login.told")
@pytest.mark.parametrize("resource", ["/mcp/edge-1", "/mcp/no-such-edge", "/mcp"])
def test_the_metadata_of_a_resource_names_it_and_the_issuer_and_no_bench(resource: str) -> None:
    assert FRONT is not None
    document = FRONT.document(f"{WELL_KNOWN}{resource}")
    assert document is not None
    assert json.loads(document) == {
        "resource": f"https://relay.example{resource}",
        "resource_name": "edged lab bench",
        "authorization_servers": ["https://issuer.example"],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize(
    "path", ["", "/", "/fleet", "/mcp/", "/mcp/a/b", "/mcp/%65dge", "/mcp/../x", "/mcp/" + "e" * 65]
)
def test_what_is_no_resource_has_no_metadata(path: str) -> None:
    assert FRONT is not None
    assert FRONT.document(f"{WELL_KNOWN}{path}") is None
    assert FRONT.document(f"/elsewhere{path}") is None


@promise("login.told")
def test_a_refusal_says_where_the_metadata_is_and_whether_a_token_came() -> None:
    assert FRONT is not None
    place = f'resource_metadata="https://relay.example{WELL_KNOWN}/mcp/edge-1"'
    assert FRONT.challenge("/mcp/edge-1", has_token=False) == f"Bearer {place}"
    assert FRONT.challenge("/mcp/edge-1", has_token=True) == (
        f'Bearer error="invalid_token", {place}'
    )


@pytest.mark.parametrize(
    ("relay_url", "issuer"),
    [
        (None, "https://issuer.example"),
        ("https://relay.example", "the lab's issuer"),
        ("http://relay.example", "https://issuer.example"),
        ("https://relay.example", "http://issuer.example"),
        ("https://[", "https://issuer.example"),
    ],
)
def test_where_a_client_could_follow_nothing_nothing_is_told(
    relay_url: str | None, issuer: str
) -> None:
    assert LoginMetadata.of(relay_url, issuer) is None
    assert challenge_of(None, "/mcp", has_token=False) == "Bearer"
    assert challenge_of(None, "/mcp", has_token=True) == 'Bearer error="invalid_token"'


def test_this_very_machine_will_do_for_a_trial() -> None:
    assert LoginMetadata.of("http://127.0.0.1:8768", "http://localhost:8769") is not None
