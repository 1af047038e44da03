"""Any method with any parameters: an answer, and never a 500, a traceback or a hang."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edged.operations.table import static_tools
from edged.surfaces.rpc.methods import METHOD_TABLE
from tests.bench.engine import Engine
from tests.bench.engine_process import EngineProcess, engine_process
from tests.bench.waiting import HANGS_S
from tests.promises import promise

NAMES = sorted({*METHOD_TABLE} | {tool.name for tool in static_tools()})
WORDS = ["psu1", "dmm1", "set_voltage", "channel", "*IDN?", "jsonl", "", "\x00", "é" * 300]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = sorted({key for kind in METHOD_TABLE.values() for key in kind.schema.get("properties", ())})
PARAMS = st.dictionaries(
    st.sampled_from([*KEYS, "command_name", "parameters", "scpi_command", "sweep_id", "points"]),
    VALUES,
    max_size=5,
) | st.lists(VALUES, max_size=2)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with engine_process(tmp_path_factory.mktemp("rpc")) as running:
        yield running
        assert running.stop() == 0
        log = running.log.read_text(errors="replace")
        assert "Traceback" not in log
        assert "internal_fault" not in log


@promise("rpc.nothing-crashes")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from(NAMES) | st.text(max_size=30), params=PARAMS)
def test_whatever_is_asked_gets_an_answer(engine: Engine, method: str, params: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    line = http.client.HTTPConnection("127.0.0.1", engine.ports["rpc_port"], timeout=HANGS_S)
    try:
        line.request("POST", "/rpc", body.encode(), {"Content-Type": "application/json"})
        answer = line.getresponse()
        reply = json.loads(answer.read())
    finally:
        line.close()
    assert answer.status < 500
    assert ("result" in reply) != ("error" in reply)
    assert reply.get("error", {}).get("code") != -32603
    assert "Traceback" not in json.dumps(reply)
