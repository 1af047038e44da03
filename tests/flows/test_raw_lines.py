"""What a raw line may do, on every road to a unit, judged by the bytes that reach the unit.

One engine behind a relay. Its owner has set a rule for each unit: a limit and a denial, a dead-man,
an interlock.
Whatever a program sends there, only known commands within the rules and common queries arrive.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pyvisa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyvisa.resources import MessageBasedResource

from edged.profiles.raw import LineClass, class_of, identify
from edged.protocol.hislip import MessageType
from tests.bench.command_line import NO_PROFILES, edged
from tests.bench.engine import Engine
from tests.bench.hislip_program import HislipProgram
from tests.bench.relay_chain import Chain, a_port, running_chain
from tests.bench.shipped import shipped_library
from tests.bench.waiting import wait_for
from tests.promises import promise

UNITS = {
    "psu1": "rigol_dp832",
    "tc1": "oxford_itc503",
    "psu2": "keysight_n6700",
    "smu1": "keysight_b2901a",
    "dmm1": "keysight_34461a",
    "free1": "rigol_dp832",
}
BENCH: dict[str, Any] = {
    "format": 1,
    "psu1": {
        "limits": {"set_voltage": {"voltage": {"max": 12}}},
        "deny": ["output_on"],
        "allow_raw": ["SYST:BEEP"],
    },
    "tc1": {"limits": {"set_setpoint": {"temperature": {"max": 160}}}},
    "psu2": {"dead_man_s": 60},
    "interlocks": [
        {
            "name": "rail",
            "when": {"instrument": "dmm1", "command": "measure_dc_voltage"},
            "must": "value > 100",
            "poll_s": 1,
            "max_age_s": 10,
            "guards": ["smu1.output_on"],
        }
    ],
}
Send = Callable[[str, bytes], None]
INVALID_PARAMS = -32602
"""What MCP answers to a line that is no raw line at all (a line end, a control character)."""


@dataclass(slots=True)
class Bench:
    engine: Engine
    chain: Chain
    token: str
    programs: dict[str, MessageBasedResource]
    hislips: dict[str, HislipProgram]

    def received(self, send: Send, unit: str, data: bytes) -> list[str]:
        """The lines that a unit receives while a program sends this."""
        mark = self.engine.sim("log", since=2**53)["last"]
        send(unit, data)
        page = self.engine.sim("log", instrument=unit, since=mark)
        arrived = [entry["text"] for entry in page["entries"] if entry["direction"] == "in"]
        # A road may end what it does with a query of its own.
        return [text for text in arrived if text.strip() != "*IDN?"]

    # The roads

    def by_tool(self, unit: str, data: bytes) -> None:
        body = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "send_scpi",
                    "arguments": {"instrument_id": unit, "scpi_command": data.decode("latin-1")},
                },
            }
        )
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.engine.mcp_url, body.encode(), headers)
        with (
            contextlib.suppress(urllib.error.HTTPError),
            urllib.request.urlopen(request, timeout=30) as answer,
        ):
            answer.read()

    def by_relay(self, unit: str, data: bytes) -> None:
        arguments = {"instrument_id": unit, "scpi_command": data.decode("latin-1")}
        status, said = self.chain.post(
            self.token, "tools/call", name="send_scpi", arguments=arguments
        )
        # It was judged as a raw line: no front and no permission refused it before.
        assert status == 200, said
        assert "error" not in said or said["error"]["code"] == INVALID_PARAMS, said

    def by_rpc(self, unit: str, data: bytes) -> None:
        self.engine.tool("send_scpi", instrument_id=unit, scpi_command=data.decode("latin-1"))

    def by_edged(self, unit: str, data: bytes) -> None:
        with contextlib.suppress(pyvisa.Error):
            self.programs[unit].write_raw(data)
            self.programs[unit].clear()

    def by_hislip(self, unit: str, data: bytes) -> None:
        program = self.hislips[unit]
        program.write(data)
        if unit != "tc1":
            # Messages are taken in turn: once this one is answered, the other was dealt with.
            program.write("*IDN?")
            while program.sync.next(60.0).kind != MessageType.DATA_END:
                pass
        program.clear()

    @property
    def roads(self) -> tuple[Send, ...]:
        return (self.by_tool, self.by_relay, self.by_rpc, self.by_edged, self.by_hislip)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("raw")
    (directory / "bench.yaml").write_text(json.dumps(BENCH))
    named = ",".join(f"{name}={key}" for name, key in UNITS.items())
    with contextlib.ExitStack() as stack:
        chain = stack.enter_context(
            running_chain(
                directory,
                a_port,
                fronts=1,
                edge_arguments=("--sim", "--instruments", named),
                edge_settings={"VISA_SERVER": ["hislip"], "HISLIP_PORT": 0, "DISCOVERY": []},
            )
        )
        engine = engine_of(chain)
        wait_for(lambda: len(engine.tool("list_instruments")["result"]) == len(UNITS))
        rm = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
        stack.callback(rm.close)
        programs = {name: rm.open_resource(name) for name in UNITS}
        port = int(engine.ports["hislip_port"])
        hislips = {
            name: stack.enter_context(HislipProgram.open(port, f"hislip_{name}")) for name in UNITS
        }
        token = chain.token("send_scpi", danger=True, lives_s=3600)
        yield Bench(engine, chain, token, programs, hislips)  # type: ignore[arg-type]


def engine_of(chain: Chain) -> Engine:
    """The engine at the edge, for those who stand beside it."""
    ports = json.loads((chain.state_dir / "engine.json").read_text())
    log = chain.directory / "supervisor.log"
    return Engine(state_dir=chain.state_dir, log=log, ports=ports)


SUPPLY = [
    b"SYST:ERR? #0\n\xa0:SOUR1:VOLT 27\n\xa0:OUTP CH1,ON\n",
    b"SYST:ERR? #0:SOUR1:VOLT 27",
    b"SYST:ERR? #215;:SOUR1:VOLT 27",
    b"*IDN? #0\n:SOUR1:VOLT 27\n",
    b"*IDN?;\xa0:OUTP CH1,ON",
    b':SOUR1:VOLT? ";:OUTP CH1,ON"',
    b":MEAS:VOLT? CH1,';:OUTP CH1,ON;'",
    b"SOUR1::VOLT 27",
    b"*X:SOUR1:VOLT? 1",
    b"*CAL?",
    b"*RST?",
    b"*RCL 1",
    b"*SAV 1",
    b":OUTP:TRAC CH1,ON",
    b":SOUR1:VOLT 27\x00",
    b":SOUR1:VOLT MAX",
    b":SYST:BEEP 1",
    b":FOO?",
    b"*CLS;" * 63 + b":OUTP CH1,ON",
]


@promise("raw.unknown-is-refused-where-guarded")
@pytest.mark.parametrize("data", SUPPLY, ids=range(len(SUPPLY)))
def test_no_line_reaches_a_limited_supply_but_by_what_it_is(bench: Bench, data: bytes) -> None:
    for send in bench.roads:
        arrived = bench.received(send, "psu1", data)
        assert not [line for line in arrived if is_foreign("psu1", line)], (send, arrived)
        assert_is_safe(bench)


def assert_is_safe(bench: Bench) -> None:
    """Output 1 of psu1 is off and set to 12 V at most, by the simulator's own word."""
    channel = bench.engine.sim("state")["instruments"]["psu1"]["state"]["ch1"]
    assert not channel["is_on"]
    assert channel["volts_set"] <= 12


def is_foreign(unit: str, line: str) -> bool:
    """Whether a line that arrived is no known command or common query of its unit."""
    profile = shipped_library().profiles[UNITS[unit]]
    return any(
        class_of(identify(profile, one)) is LineClass.UNKNOWN for one in line.split("\n") if one
    )


@promise("raw.unknown-is-refused-where-guarded")
@pytest.mark.parametrize(
    "data",
    [b"SYST:ERR? #0\rT5\n", b"SYST:ERR?\rT5\n", b"V\rT5", b"R1;T5", b"T5 ", b"T05", b"*IDN?\rT5\r"],
    ids=range(7),
)
def test_a_set_point_over_the_limit_is_not_hidden_from_a_unit_without_scpi(
    bench: Bench, data: bytes
) -> None:
    data = data.replace(b"T5", b"T250").replace(b"T05", b"T0250")
    for send in bench.roads:
        arrived = bench.received(send, "tc1", data)
        assert not [line for line in arrived if "T250" in line or "T0250" in line], (send, arrived)


@promise("dead-man.untouched")
@pytest.mark.parametrize(
    "data",
    [
        b"SYST:ERR? #0\nOUTP:PROT:WDOG OFF\n",
        b"SYST:ERR? #0\n\xa0OUTP:PROT:WDOG OFF\n",
        b"OUTP:PROT:WDOG:STAT OFF",
        b"*IDN?;OUTP:PROT:WDOG OFF",
        b"VOLT? (@1);:OUTP:PROT:CLE (@1)",
        b"OUTP:PROT::WDOG OFF",
    ],
    ids=range(6),
)
def test_no_line_stops_a_dead_man(bench: Bench, data: bytes) -> None:
    for send in bench.roads:
        arrived = bench.received(send, "psu2", data)
        assert not [line for line in arrived if "WDOG" in line or "PROT:CLE" in line], send


@promise("raw.unknown-is-refused-where-guarded")
def test_an_unknown_query_does_not_reach_a_unit_that_an_interlock_guards(bench: Bench) -> None:
    for send in bench.roads:
        assert bench.received(send, "smu1", b":FOO:BAR?") == [], send
        assert bench.received(send, "smu1", b":READ? 1;:OUTP ON") == [], send


@promise("raw.allowed-lines")
def test_what_the_owner_lists_passes_and_nothing_more(bench: Bench) -> None:
    for send in bench.roads:
        assert [line for line in bench.received(send, "psu1", b":SYSTem:BEEPer") if "SYS" in line]
        assert not bench.received(send, "psu1", b":SYST:BEEP 2")


@promise("raw.unknown-is-refused-where-guarded")
def test_a_refusal_names_the_rule_and_the_nearest_commands(bench: Bench) -> None:
    answer = bench.engine.tool("send_scpi", instrument_id="psu1", scpi_command=":OUTP:FOO CH1")
    said = answer["result"]["error"]
    assert "it may do anything, and the owner has set limits and deny for psu1" in said["message"]
    assert "output_off" in said["remedy"]
    assert "allow_raw" in said["remedy"]
    answer = bench.engine.tool("send_scpi", instrument_id="smu1", scpi_command=":FOO?")
    assert "the interlock rail" in answer["result"]["error"]["message"]


@promise("raw.unknown-is-a-write")
def test_an_unknown_query_of_a_free_unit_is_sent_and_its_outputs_are_unknown(bench: Bench) -> None:
    assert bench.received(bench.by_rpc, "free1", b":SYST:VERS?")
    told = bench.engine.tool("get_status")["result"]["told_on"]
    free = bench.engine.tool("list_instruments", filter="free1")["result"][0]["id"]
    assert [entry["outputs"] for entry in told if entry["instrument_id"] == free] == [["*"]]
    words = ("doctor", "--config", str(bench.chain.directory / "edge.yaml"), "--json")
    said = edged(*words, environ=NO_PROFILES).stdout
    why = f"of free1 ({free}) is not known: a raw line that no command of its profile matches was"
    assert why in said


@promise("raw.unknown-is-a-write")
def test_an_unknown_line_waits_for_a_run_of_its_unit(bench: Bench) -> None:
    begun = bench.engine.tool(
        "start_stream",
        instrument_id="free1",
        command_name="measure_voltage",
        parameters={"channel": 1},
        duration_ms=60_000,
        detach=True,
    )["result"]
    answer = bench.engine.tool("send_scpi", instrument_id="free1", scpi_command=":SYST:VERS?")
    assert begun["stream_id"] in answer["result"]["error"]["message"]
    known = bench.engine.tool("send_scpi", instrument_id="free1", scpi_command=":SOUR1:VOLT?")
    assert known["result"]["error"] is None
    bench.engine.tool("stop_stream", stream_id=begun["stream_id"])


PIECES = st.lists(
    st.sampled_from(
        [b":SOUR1:VOLT 27", b":SOUR1:VOLT 5", b":OUTP CH1,ON", b"*IDN?", b"SYST:ERR?", b" #0",
         b"#15", b" #210", b";", b"\n", b"\r", b"\xa0", b'"', b"'", b",", b"(@1)", b"::", b"*",
         b"?", b" ", b"\x00", b":OUTP? CH1", b"*RCL 1", b":APPL CH1,27,1", b":OUTP:TRAC CH1,ON",
         b":TIMER ON,CH1"]
    ),
    min_size=1,
    max_size=8,
).map(b"".join)  # fmt: skip


@promise("raw.unknown-is-refused-where-guarded")
@given(st.one_of(PIECES, st.binary(min_size=1, max_size=60)), st.integers(0, 4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_bytes_a_program_sends_only_what_is_known_arrives(
    bench: Bench, data: bytes, road: int
) -> None:
    arrived = bench.received(bench.roads[road], "psu1", data)
    assert not [line for line in arrived if is_foreign("psu1", line)], arrived
    assert_is_safe(bench)
