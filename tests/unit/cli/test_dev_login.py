"""Logging in at the development issuer: what a code, a client and a verifier must be."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from edged_relay.dev_login import CODE_S, DevLogin
from tests.bench.driven_clock import DrivenClock

ISSUER = "http://127.0.0.1:8769"
BACK = "http://127.0.0.1:5000/callback"
VERIFIER = "v" * 43
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
)
RESOURCE = "https://relay.example/mcp/edge-1"


@pytest.fixture
def login(driven_clock: DrivenClock) -> DevLogin:
    return DevLogin(ISSUER, user="ada", mint=lambda edge: f"token for {edge}", clock=driven_clock)


def post(login: DevLogin, path: str, **fields: str) -> Any:
    answer = login.post(path, urlencode(fields).encode())
    assert answer is not None
    return answer


def registered(login: DevLogin, *uris: object) -> Any:
    answer = login.post("/register", json.dumps({"redirect_uris": list(uris or (BACK,))}).encode())
    assert answer is not None
    return answer


def client_of(login: DevLogin) -> str:
    return str(json.loads(registered(login).body)["client_id"])


def wish(client_id: str, **changes: str) -> dict[str, str]:
    return {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": BACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": RESOURCE,
        "state": "s1",
        **changes,
    }


def code_of(login: DevLogin, client_id: str, **changes: str) -> str:
    answer = post(login, "/authorize", **wish(client_id, **changes))
    assert answer.status == 303, answer.body
    back = urlsplit(answer.location)
    told = parse_qs(back.query)
    assert f"{back.scheme}://{back.netloc}{back.path}" == BACK
    assert (told["state"], told["iss"]) == (["s1"], [ISSUER])
    return told["code"][0]


def redeem(login: DevLogin, client_id: str, code: str, **changes: str) -> Any:
    fields = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "redirect_uri": BACK,
        "code": code,
        "code_verifier": VERIFIER,
        **changes,
    }
    return post(login, "/token", **fields)


def test_a_code_gives_a_token_for_the_resource_that_was_asked_for(login: DevLogin) -> None:
    client = client_of(login)
    told = json.loads(redeem(login, client, code_of(login, client), resource=RESOURCE).body)
    assert told["access_token"] == "token for edge-1"
    assert (told["token_type"], told["expires_in"]) == ("Bearer", 300)
    fleet = code_of(login, client, resource="https://relay.example/mcp")
    assert json.loads(redeem(login, client, fleet).body)["access_token"] == "token for None"


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"client_id": "another"},
        {"redirect_uri": "http://127.0.0.1:5000/other"},
        {"resource": "https://relay.example/mcp/edge-2"},
        {"grant_type": "password"},
    ],
)
def test_a_code_in_other_hands_or_for_another_resource_gives_nothing(
    login: DevLogin, changes: dict[str, str]
) -> None:
    client = client_of(login)
    code = code_of(login, client)
    assert redeem(login, **{"client_id": client, "code": code, **changes}).status == 400


def test_a_code_works_once_and_for_a_minute(login: DevLogin, driven_clock: DrivenClock) -> None:
    client = client_of(login)
    code = code_of(login, client)
    assert redeem(login, client, code).status == 200
    assert redeem(login, client, code).status == 400
    late = code_of(login, client)
    driven_clock.move(CODE_S + 1)
    assert redeem(login, client, late).status == 400


def test_a_refresh_token_works_once_and_for_its_client(login: DevLogin) -> None:
    client = client_of(login)
    refresh = json.loads(redeem(login, client, code_of(login, client)).body)["refresh_token"]
    wanted = {"grant_type": "refresh_token", "refresh_token": refresh}
    assert post(login, "/token", **wanted, client_id="another").status == 400
    # It was shown by somebody else: it is nobody's any more.
    assert post(login, "/token", **wanted, client_id=client).status == 400
    refresh = json.loads(redeem(login, client, code_of(login, client)).body)["refresh_token"]
    wanted = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": client}
    told = json.loads(post(login, "/token", **wanted).body)
    assert told["access_token"] == "token for edge-1"
    assert post(login, "/token", **wanted).status == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "nobody"},
        {"redirect_uri": "https://evil.example/"},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
        {"resource": ""},
        {"resource": "https://relay.example/admin"},
    ],
)
def test_what_is_asked_wrongly_sends_nobody_on(login: DevLogin, changes: dict[str, str]) -> None:
    asked = wish(client_of(login)) | changes
    for answer in (login.get("/authorize", urlencode(asked)), post(login, "/authorize", **asked)):
        assert answer is not None
        assert (answer.status, answer.location) == (400, "")


@pytest.mark.parametrize("uri", ["http://evil.example/", "javascript:x", "https://a/#f", 7, ""])
def test_a_client_is_sent_back_to_https_or_this_machine_alone(login: DevLogin, uri: object) -> None:
    assert registered(login, uri).status == 400


def test_the_page_shows_what_came_as_text(login: DevLogin) -> None:
    asked = wish(client_of(login), state='"><script>alert(1)</script>')
    page = login.get("/authorize", urlencode(asked))
    assert page is not None
    assert b"<script" not in page.body
    assert b"Log in as ada" in page.body


def test_bytes_that_are_no_form_are_refused(login: DevLogin) -> None:
    for path in ("/register", "/authorize", "/token"):
        answer = login.post(path, b"\xff\xfe{")
        assert answer is not None
        assert answer.status == 400
    assert login.post("/elsewhere", b"") is None
