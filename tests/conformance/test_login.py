"""Official clients that know nothing but a front's address: they find the issuer, log in and call.

The issuer is ``edged dev-issuer serve --login``: OAuth 2.1 with PKCE, with a page and a button.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY
from tests.bench.relay_chain import EDGE, Chain, a_port, running_chain
from tests.bench.sdk_session import NODE, node_binary
from tests.promises import promise

CLIENTS = REPOSITORY / "tests" / "clients"
PYTHONS = {"python-sdk-1": "mcp1", "python-sdk-2": "mcp2"}
TYPESCRIPTS = {"typescript-sdk-1": "1", "typescript-sdk-2": "2"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    port = a_port()
    with running_chain(
        tmp_path_factory.mktemp("login"),
        a_port,
        fronts=1,
        front_port=port,
        front_settings={"RELAY_URL": f"http://127.0.0.1:{port}", "FLEET_ALL": True},
        issuer_options=("--login", "ada", "--tools", "get_status,fleet__list_edges"),
    ) as running:
        yield running


def logged_in(name: str, url: str, tool: str) -> Any:
    if name in PYTHONS:
        python = REPOSITORY / ".venv-clients" / PYTHONS[name] / "bin" / "python"
        command = [str(python), str(CLIENTS / f"{PYTHONS[name]}_login.py"), url, tool]
    else:
        script = CLIENTS / "node" / "ts_login.mjs"
        flag = "--experimental-import-meta-resolve"
        command = [str(node_binary()), flag, str(script), url, tool, TYPESCRIPTS[name]]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NODE_PACKAGES": str(NODE / "npm")},
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@promise("login.found")
@pytest.mark.parametrize("name", [*PYTHONS, *TYPESCRIPTS])
def test_a_client_finds_the_issuer_logs_its_person_in_and_calls(chain: Chain, name: str) -> None:
    told = logged_in(name, chain.url(), "get_status")
    assert told["result"]["edge_id"] == EDGE
    assert told["is_renewed"] is True


@promise("login.found")
def test_a_client_logs_in_for_the_fleet_as_well(chain: Chain) -> None:
    url = f"http://127.0.0.1:{chain.front_ports[0]}/mcp"
    told = logged_in("python-sdk-1", url, "fleet__list_edges")
    assert [edge["edge_id"] for edge in told["result"]["edges"]] == [EDGE]


@promise("login.told")
def test_who_has_no_token_is_told_where_to_look_and_nobody_by_another_name(chain: Chain) -> None:
    base = f"http://127.0.0.1:{chain.front_ports[0]}"
    for resource in (f"/mcp/{EDGE}", "/mcp"):
        refused = fetched(f"{base}{resource}", data=b"{}")
        place = f"{base}/.well-known/oauth-protected-resource{resource}"
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{place}"'
        told = fetched(place, headers={"Origin": "https://any.example"})
        assert told.status == 200
        assert told.headers["Access-Control-Allow-Origin"] == "*"
        assert json.loads(told.body)["authorization_servers"] == [chain.issuer_url]
        assert fetched(place, headers={"Host": "evil.example"}).status == 403
    bad = fetched(f"{base}/mcp/{EDGE}", data=b"{}", headers={"Authorization": "Bearer a.b.c"})
    assert 'error="invalid_token"' in bad.headers["WWW-Authenticate"]
    assert fetched(f"{base}/.well-known/oauth-protected-resource").status == 404


@dataclass(frozen=True)
class Fetched:
    status: int
    headers: Mapping[str, str]
    body: bytes


def fetched(url: str, data: bytes | None = None, headers: Mapping[str, str] = {}) -> Fetched:
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", "Accept": "*/*", **headers}
    )
    try:
        answer = urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        return Fetched(answer.status, answer.headers, answer.read())
