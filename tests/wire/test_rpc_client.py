"""The small client of the CLI against a port that answers as told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.errors import ErrorCode, Failed, Refused
from edged.surfaces.rpc.client import EngineFile, RpcClient, find_engine, open_events
from edged.surfaces.rpc.proof import keep_rpc_key
from tests.bench.answering_server import AnsweringServer, answering_server
from tests.promises import promise


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with answering_server() as board:
        yield board


def engine_at(port: int, state_dir: Path = Path()) -> EngineFile:
    return EngineFile(path=state_dir / "engine.json", pid=1, rpc_port=port, mcp_port=None, facts={})


def test_a_call_is_one_json_rpc_request(server: AnsweringServer) -> None:
    server.result({"version": "1"})
    assert RpcClient(engine_at(server.port), token=None).call("version") == {"version": "1"}
    (asked,) = server.asked
    assert asked.path == "/rpc"
    assert asked.body == {"jsonrpc": "2.0", "id": 1, "method": "version", "params": {}}
    assert "Authorization" not in asked.headers
    assert asked.headers["Content-Type"] == "application/json"


@promise("rpc.token-of-client")
def test_the_token_goes_to_the_engine_that_has_the_key(
    server: AnsweringServer, tmp_path: Path
) -> None:
    server.result(1)
    server.key = keep_rpc_key(tmp_path)
    RpcClient(engine_at(server.port, tmp_path), token="s3cret").call("version")
    assert server.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in server.proved[0].headers


@promise("rpc.proof")
@pytest.mark.parametrize("secrets", [{"token": "s3cret"}, {"token": None, "lease": "s3cret"}])
@pytest.mark.parametrize("key", [None, b"", b"another key"])
@pytest.mark.parametrize("has_key", [True, False])
def test_another_program_on_the_port_gets_no_secret(
    server: AnsweringServer,
    tmp_path: Path,
    secrets: dict[str, Any],
    key: bytes | None,
    has_key: bool,
) -> None:
    server.result(1)
    server.key = key
    if has_key:
        keep_rpc_key(tmp_path)
    client = RpcClient(engine_at(server.port, tmp_path), **secrets)
    with pytest.raises(Failed, match=f"Another program has port {server.port}") as caught:
        client.call("version")
    assert caught.value.code is ErrorCode.NO_ENGINE
    assert server.asked == []
    assert "s3cret" not in str(server.proved)
    client = RpcClient(engine_at(server.port, tmp_path), token="s3cret")
    with pytest.raises(Failed, match="Another program"), open_events(client, ["audit"]):
        pass
    assert "s3cret" not in str(server.proved)


@promise("rpc.proof")
def test_a_proof_that_was_passed_on_from_another_port_is_none(
    server: AnsweringServer, tmp_path: Path
) -> None:
    server.key, server.proves_for = keep_rpc_key(tmp_path), 8766
    with pytest.raises(Failed, match="Another program"):
        RpcClient(engine_at(server.port, tmp_path), token="s3cret").call("version")
    assert server.asked == []


@promise("rpc.proof")
def test_a_key_that_may_not_be_read_keeps_the_token_here(
    server: AnsweringServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(state_dir: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(state_dir))

    monkeypatch.setattr("edged.surfaces.rpc.client.read_rpc_key", refuse)
    with pytest.raises(Failed, match="cannot be checked: its key cannot be read"):
        RpcClient(engine_at(server.port, tmp_path), token="s3cret").call("version")
    assert server.asked == server.proved == []


def test_an_engine_without_its_port_says_why(tmp_path: Path) -> None:
    facts = {"pid": 7, "rpc_port": None, "mcp_port": 8765, "rpc_error": "It is held by python."}
    (tmp_path / "engine.json").write_text(json.dumps(facts))
    with pytest.raises(
        Failed, match=r"PID 7\) runs, but could not bind .* held by python"
    ) as caught:
        RpcClient(find_engine([tmp_path]), token=None).call("version")
    assert caught.value.code is ErrorCode.NO_ENGINE


@promise("rpc.token-of-client")
def test_a_missing_token_is_said_with_its_key(server: AnsweringServer) -> None:
    server.answer({"error": {"code": -33001, "message": "wants its token"}}, status=401)
    with pytest.raises(Refused, match="INBOUND_AUTH_TOKEN") as caught:
        RpcClient(engine_at(server.port), token=None).call("version")
    assert caught.value.code is ErrorCode.NOT_AUTHENTICATED


def test_an_error_keeps_its_code_message_and_remedy(server: AnsweringServer) -> None:
    data = {"code": "unknown_tool", "message": "no", "remedy": "Look.", "data": {}}
    server.answer({"id": 1, "error": {"code": -32602, "message": "no such tool", "data": data}})
    with pytest.raises(Failed) as caught:
        RpcClient(engine_at(server.port), token=None).call("tools/call")
    assert caught.value.code is ErrorCode.UNKNOWN_TOOL
    assert str(caught.value) == "no such tool Look."


def test_a_tools_failure_is_an_answer(server: AnsweringServer) -> None:
    client = RpcClient(engine_at(server.port), token=None)
    server.result({"is_error": True, "result": {"success": False}, "error": {"message": "late"}})
    answer = client.call_tool("tools/call")
    assert (answer.result, answer.error) == ({"success": False}, {"message": "late"})
    server.result({"is_error": False, "result": [1]})
    assert client.call_tool("tools/call").error is None


@promise("cli.no-engine")
@pytest.mark.parametrize(
    ("body", "status"),
    [(b"<html>", 200), (b"[" * 100_000, 200), (b"[]", 200), (b"{}", 404), (b'{"error": 1}', 200)],
)
def test_another_program_on_the_port_is_told_apart(
    server: AnsweringServer, body: bytes, status: int
) -> None:
    server.answer(body, status=status)
    with pytest.raises(Failed, match="is not an engine") as caught:
        RpcClient(engine_at(server.port), token=None).call("version")
    assert caught.value.code is ErrorCode.NO_ENGINE


@promise("cli.no-engine")
def test_a_dead_engine_is_named_by_its_pid(free_port: Callable[[], int]) -> None:
    with pytest.raises(Failed, match="PID 1") as caught:
        RpcClient(engine_at(free_port()), token=None).call("version")
    assert caught.value.code is ErrorCode.NO_ENGINE


def test_a_silent_engine_is_given_up_in_time(server: AnsweringServer) -> None:
    server.hold.clear()
    with pytest.raises(Failed, match=r"within 0\.1 s") as caught:
        RpcClient(engine_at(server.port), token=None, timeout_s=0.1).call("version")
    assert caught.value.code is ErrorCode.TIMEOUT


@promise("cli.no-engine")
def test_the_first_state_directory_with_an_engine_counts(tmp_path: Path) -> None:
    for name, port in (("b", 2), ("c", 3)):
        (tmp_path / name).mkdir()
        facts = {"pid": 7, "rpc_port": port, "mcp_port": None, "version": "0"}
        (tmp_path / name / "engine.json").write_text(json.dumps(facts))
    found = find_engine([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert (found.rpc_port, found.mcp_port, found.facts["version"]) == (2, None, "0")


@promise("cli.no-engine")
def test_an_engine_of_another_user_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("edged.surfaces.rpc.client.open_bytes", refuse)
    with pytest.raises(Failed, match=r"engine\.json may not be read") as caught:
        find_engine([tmp_path])
    assert caught.value.code is ErrorCode.NO_ENGINE
    assert "Start" not in caught.value.remedy


@promise("cli.no-engine")
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 50_000, '{"pid": 1}', '{"pid": 1, "rpc_port": 0}', "\x00"]
)
def test_a_broken_engine_file_is_no_engine(tmp_path: Path, text: str) -> None:
    (tmp_path / "engine.json").write_text(text)
    with pytest.raises(Failed, match="No engine is running") as caught:
        find_engine([tmp_path])
    assert caught.value.code is ErrorCode.NO_ENGINE
