"""Other people's clients side by side at one engine: old and new, while instruments come and go."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.bench.restarting_bench import restarting_bench, two_supplies
from tests.bench.sdk_session import CLIENTS, sdk_session
from tests.promises import promise

# fastmcp's stateless client offers no way to listen for changes.
LISTENING = [name for name in CLIENTS if name != "fastmcp"]


@promise("clients.official")
@promise("list-changed.second-instance")
@promise("names.never-retarget")
def test_official_clients_hear_side_by_side_of_instruments_and_come_back_after_a_restart(
    tmp_path: Path,
) -> None:
    with (
        two_supplies() as sim,
        restarting_bench(sim, tmp_path) as bench,
        contextlib.ExitStack() as stack,
    ):
        clients = {
            name: stack.enter_context(sdk_session(name, bench.mcp_url)) for name in LISTENING
        }
        for client in clients.values():
            assert "rigol_dp832__measure_voltage" in client.do("list")

        bench.plug()
        for name, client in clients.items():
            assert client.do("wait_list_changed", within_s=20), name
            names = client.do("list")
            assert "rigol_dp832__set_voltage" not in names
            setters = sorted(tool for tool in names if tool.endswith("__set_voltage"))
            assert len(setters) == 2
            stale = {"channel": 1, "voltage": 1}
            told = client.do("call", name="rigol_dp832__set_voltage", arguments=stale)
            assert told["is_error"] is True
            assert any(f"now called '{tool}'" in told["text"] for tool in setters)

        bench.unplug()
        for name, client in clients.items():
            assert client.do("wait_list_changed", within_s=20), name
        left = [tool for tool in client.do("list") if tool.endswith("__set_voltage")]
        assert len(left) == 1
        mark = sim.mark()
        assert client.call(left[0], channel=1, voltage=2.5)["success"] is True
        assert any("VOLT 2.5" in text for text in sim.received("psu1", since=mark))

        bench.restart()
        for name, client in clients.items():
            first = client.order("call", name="get_status", arguments={})
            assert ("ok" in first) is (name == "python-sdk-2"), first
            client.reconnect()
            assert client.call("get_status")["instrument_count"] == 1
