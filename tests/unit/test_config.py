"""Precedence, judgement and complaints of the configuration."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from edged.cli.config import configuration_page
from edged.config.instruments import ErrorsEntry, InstrumentEntry, ProbeEntry
from edged.config.keys import KEYS, RENAMED, BenchPage, Bus, LogLevel, RawScpi, SdkTools
from edged.config.load import Config, LoadedConfig, load_config
from edged.errors import ErrorCode, Invalid
from edged.host import Places
from tests.promises import promise

ROOT = Path(__file__).parent.parent.parent


FORMER_NAMES = {"LISTEN_PORT": "MCP_PORT", "LOUDNESS": "LOG_LEVEL"}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(
        config_file=tmp_path / "edged.yaml",
        bench_file=tmp_path / "bench.yaml",
        state_dir=tmp_path / "state",
        data_dir=tmp_path / "data",
        profile_dirs=(tmp_path / "profiles",),
        own_profile_dir=tmp_path / "profiles",
        sdk_wrapper_dirs=(),
        state_dirs=(tmp_path / "state",),
    )


def load(
    places: Places,
    text: str = "",
    *,
    drop_ins: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Sequence[tuple[str, str, str]] = (),
    is_simulated: bool = False,
) -> LoadedConfig:
    if text:
        places.config_file.write_text(text)
    for name, content in (drop_ins or {}).items():
        directory = places.config_file.with_name("edged.yaml.d")
        directory.mkdir(exist_ok=True)
        (directory / name).write_text(content)
    return load_config(places=places, environ=environ or {}, flags=flags, is_simulated=is_simulated)


def complaints(places: Places, text: str = "", **more: Mapping[str, str]) -> list[dict[str, str]]:
    with pytest.raises(Invalid) as caught:
        load(places, text, **more)  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.BAD_CONFIG
    listed = caught.value.data["complaints"]
    assert isinstance(listed, list)
    return listed


# Every key, with a value that is allowed and what becomes of it.
ALLOWED = {
    "MCP_ENABLED": ("false", False),
    "MCP_PORT": ("0", 0),
    "MCP_PATH": ("/lab/.mcp..v2", "/lab/.mcp..v2"),
    "BENCH_PAGE": ("full", BenchPage.FULL),
    "RESCAN_INTERVAL_SEC": ("1", 1),
    "INBOUND_AUTH_TOKEN": ("12345", "12345"),
    "EDGE_ID": ("bench-7", "bench-7"),
    "EDGE_NAME": ("Bench 7", "Bench 7"),
    "RPC_PORT": ("65535", 65535),
    "STATE_DIR": ("/s", Path("/s")),
    "DATA_DIR": ("/d", Path("/d")),
    "EXPERIMENT_DIRS": ("[/e]", (Path("/e"),)),
    "PROFILE_DIRS": ("[/a, /b]", (Path("/a"), Path("/b"))),
    "SDK_WRAPPER_DIRS": ("[/w]", (Path("/w"),)),
    "SDK_LIBRARIES": ("{dwf: /usr/lib/libdwf.so}", {"dwf": Path("/usr/lib/libdwf.so")}),
    "SDK_ENVIRONMENT": ("[GENICAM_GENTL64_PATH]", ("GENICAM_GENTL64_PATH",)),
    "SDK_TOOLS": ("connected", SdkTools.CONNECTED),
    "SDK_SETTINGS": ("{korad: {port: /dev/ttyACM0}}", {"korad": {"port": "/dev/ttyACM0"}}),
    "SDK_MEMORY_MB": ("256", 256),
    "BENCH_FILE": ("/b.yaml", Path("/b.yaml")),
    "INSTRUMENTS": (
        "[TCPIP::10.0.0.5::5025::SOCKET, {address: 'ASRL/dev/ttyUSB0::INSTR', name: psu, "
        'profile: rigol_dp832, read_termination: CRLF, write_termination: "\\r", '
        "timeout_ms: 500, baud_rate: 9600, data_bits: 7, parity: even, stop_bits: 1.5, "
        "flow: xon_xoff, after_write_ms: 20, min_gap_ms: 10, heartbeat: true, encoding: latin-1, "
        "errors: {query: 'ALL?', kind: code, detail: 'WHY?'}, probe: {query: 'ID?', expect: ^PSU}, "
        "on_connect: [HEAD OFF], on_release: ['OUTP OFF']}, "
        "{address: 'GPIB0::5::INSTR', errors: none, probe: none, on_connect: []}, "
        "{address: 'ASRL1::INSTR', profile: gen, bus_address: 6, before: [ADR 6]}, "
        "{address: 'ASRL1::INSTR', profile: gen, bus_address: B}, "
        "{address: 'ASRL1::INSTR@C', profile: gen}, "
        "{address: 'GPIB0::6::INSTR', "
        "errors: {query: {ask: 1TE}, pattern: '1TE(?P<code>.)', none: 1TE@}}]",
        (
            InstrumentEntry(address="TCPIP::10.0.0.5::5025::SOCKET"),
            InstrumentEntry(
                address="ASRL/dev/ttyUSB0::INSTR",
                name="psu",
                profile="rigol_dp832",
                read_termination="\r\n",
                write_termination="\r",
                timeout_ms=500,
                baud_rate=9600,
                data_bits=7,
                parity="even",
                stop_bits=1.5,
                flow="xon_xoff",
                after_write_ms=20,
                min_gap_ms=10,
                heartbeat=True,
                encoding="latin-1",
                errors=ErrorsEntry(kind="code", query="ALL?", detail="WHY?"),
                probe=ProbeEntry(query="ID?", expect="^PSU"),
                on_connect=("HEAD OFF",),
                on_release=("OUTP OFF",),
            ),
            InstrumentEntry(
                address="GPIB0::5::INSTR", errors=ErrorsEntry(), probe=ProbeEntry(), on_connect=()
            ),
            InstrumentEntry(
                address="ASRL1::INSTR@6", profile="gen", bus_address="6", before=("ADR 6",)
            ),
            InstrumentEntry(address="ASRL1::INSTR@B", profile="gen", bus_address="B"),
            InstrumentEntry(address="ASRL1::INSTR@C", profile="gen", bus_address="C"),
            InstrumentEntry(
                address="GPIB0::6::INSTR",
                errors=ErrorsEntry(kind="code", query="1TE", pattern="1TE(?P<code>.)", none="1TE@"),
            ),
        ),
    ),
    "DISCOVERY": ("[usb, lan]", (Bus.USB, Bus.LAN)),
    "SERIAL_PORTS": ("[/dev/ttyS0]", ("/dev/ttyS0",)),
    "VISA_LIBRARY": ("/usr/lib/libvisa.so", "/usr/lib/libvisa.so"),
    "EXPOSE": ("[private]", ("private",)),
    "VISA_SERVER": ("[hislip]", ("hislip",)),
    "HISLIP_PORT": ("0", 0),
    "EXPOSE_VISA": ("true", True),
    "ALLOWED_NETWORKS": ("[10.0.0.0/8]", (ipaddress.ip_network("10.0.0.0/8"),)),
    "ALLOWED_HOSTS": ("[bench.example.org]", ("bench.example.org",)),
    "ALLOWED_ORIGINS": ("[https://lab.example.org]", ("https://lab.example.org",)),
    "DIRECT_TOOLS_ALLOW": (
        "[get_status, 'execute_command:measure']",
        frozenset({"get_status", "execute_command:measure"}),
    ),
    "DIRECT_DANGER_ALLOW": ("false", False),
    "TOOLS": ("essential", "essential"),
    "TOOL_NAMES": ("strict", "strict"),
    "RAW_SCPI": ("off", RawScpi.OFF),
    "RELAY_URL": ("https://relay.example.org", "https://relay.example.org"),
    "RELAY_NATS_URL": ("tls://nats.example.org:4222", "tls://nats.example.org:4222"),
    "RELAY_CREDENTIALS": ("/c.creds", Path("/c.creds")),
    "RELAY_CA_FILE": ("/ca.pem", Path("/ca.pem")),
    "RELAY_ISSUER": ("https://id.example.org", "https://id.example.org"),
    "RELAY_JWKS_URL": ("http://127.0.0.1:9/jwks", "http://127.0.0.1:9/jwks"),
    "RELAY_FLEET": ("true", True),
    "FLEET_ALL": ("true", True),
    "FLEET_HOSTS": (
        '{edge-1: 10.0.0.7, edge-2: "[fd00::7]", "*": 10.20.0.0/16}',
        {"edge-1": "10.0.0.7", "edge-2": "fd00::7", "*": ipaddress.ip_network("10.20.0.0/16")},
    ),
    "RELAY_INVENTORY": ("jetstream", "jetstream"),
    "METRICS": ("off", "off"),
    "SESSION_IDLE_SEC": ("60", 60),
    "MAX_SESSIONS": ("10", 10),
    "WAVEFORM_MEMORY_MB": ("1", 1),
    "MAX_BLOCK_MB": ("1024", 1024),
    "AUDIT_RETENTION_DAYS": ("30", 30),
    "DATA_BUDGET_MB": ("100", 100),
    "HEARTBEAT_SEC": ("0", 0),
    "LEASE_MAX_SEC": ("60", 60),
    "GONE_AFTER_SEC": ("5", 5),
    "ABORT_AFTER_CRASH_SEC": ("0", 0),
    "ON_EXIT": ("safe", "safe"),
    "LOG_LEVEL": ("debug", LogLevel.DEBUG),
    "LOG_FORMAT": ("json", "json"),
}


@promise("config.all-keys")
def test_every_key_has_its_field_and_its_example_here() -> None:
    fields = [field.name for field in dataclasses.fields(Config)]
    assert [name.lower() for name in KEYS] == fields
    assert sorted(ALLOWED) == sorted(KEYS)


@promise("config.all-keys")
@pytest.mark.parametrize("key", sorted(ALLOWED))
def test_a_key_is_taken_from_the_file_and_from_the_environment(places: Places, key: str) -> None:
    text, meant = ALLOWED[key]
    from_file = load(places, f"{key}: {text}\n").config
    assert getattr(from_file, key.lower()) == meant
    places.config_file.unlink()
    from_environment = load(places, environ={f"EDGED_{key}": text}).config
    assert getattr(from_environment, key.lower()) == meant


OF_A_SERIAL_PORT = {
    "baud_rate": "baud_rate: 9600",
    "data_bits": "data_bits: 8",
    "parity": "parity: none",
    "stop_bits": "stop_bits: 1",
    "flow": "flow: none",
}
CHUNKS = {"chunk_bytes": "chunk_bytes: 1024"}
WRONG_THERE = {
    "the network": OF_A_SERIAL_PORT | CHUNKS,
    "GPIB": OF_A_SERIAL_PORT | CHUNKS,
    "USB": OF_A_SERIAL_PORT | {"heartbeat": "heartbeat: false"},
    "a serial port": CHUNKS,
}
OTHER_WIRES = {
    "TCPIP::h::5025::SOCKET": "the network",
    "tcpip0::h::hislip0::INSTR": "the network",
    "GPIB0::5::INSTR": "GPIB",
    "PRLGX-TCPIP::h::1234::5::INSTR": "GPIB",
    "USB0::0x1AB1::0x0E11::DP8::INSTR": "USB",
    "ASRL/dev/ttyUSB0::INSTR": "a serial port",
}


@promise("config.all-keys")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("MCP_ENABLED: on", 'true or false, not "on". In YAML 1.2 on, off'),
        ("MCP_ENABLED: 1", "true or false"),
        ("MCP_PORT: 65536", "is 65536, outside of 0 to 65535"),
        ("MCP_PORT: -1", "is -1, outside of 0 to 65535"),
        ("MCP_PORT: 8767.5", "whole number"),
        ("MCP_PORT: true", "whole number"),
        ("MCP_PORT: '8767'", "whole number"),
        ("MCP_PATH: mcp", "must begin with /, not"),
        ("MCP_PATH: /mcp?x=1", "must have no ? or #, not"),
        ("MCP_PATH: /mcp#x", "must have no ? or #, not"),
        ("MCP_PATH: '/my mcp'", "must have only letters, digits and . _ ~ - / in it, not"),
        (f"MCP_PATH: /{'a' * 201}", "must have at most 201 characters, not"),
        ("MCP_PATH: /lab//mcp", "must have no part that is empty, . or .., not"),
        ("MCP_PATH: /lab/../mcp", "must have no part that is empty, . or .., not"),
        ("MCP_PATH: /lab/.", "must have no part that is empty, . or .., not"),
        ("MCP_PATH: /bench", "must be neither /bench nor /metrics"),
        ("MCP_PATH: /metrics/x", "must be neither /bench nor /metrics"),
        ("RESCAN_INTERVAL_SEC: 0", "is 0, outside of 1 to 86400"),
        ("INBOUND_AUTH_TOKEN: ''", "printable"),
        ('INBOUND_AUTH_TOKEN: "a\\nb"', "printable"),
        ("INBOUND_AUTH_TOKEN: [a]", "must be one value, not a list"),
        ("EDGE_ID: a.b", "letters, digits"),
        ("PROFILE_DIRS: /a", 'must be a list, not "/a". Write [a, b], or [] for none.'),
        ("SDK_LIBRARIES: [a]", "must be a mapping (key: value), not a list"),
        ("DISCOVERY: [bluetooth]", "must be usb, serial, lan or gpib"),
        ("DISCOVERY: false", 'must be a list, not "false"'),
        ("ALLOWED_NETWORKS: [10.0.0.1/8]", "a network like"),
        ("ALLOWED_HOSTS: ['http://a']", "host name"),
        ("ALLOWED_ORIGINS: ['https://a/b']", "origin like"),
        ("DIRECT_TOOLS_ALLOW: get_status", "the word all or a list"),
        ("DIRECT_TOOLS_ALLOW: ['a b']", "<tool>:<scope>"),
        ("RAW_SCPI: none", "must be all, known, queries or off"),
        ("RELAY_JWKS_URL: http://id.example.org/jwks", "https:// (http:// only to a loopback"),
        ("RELAY_JWKS_URL: 'https://[::1'", "no URL"),
        ("RELAY_URL: relay.example.org", "URL"),
        ("LOG_LEVEL: loud", "must be debug, info"),
        ("INSTRUMENTS: [{name: psu}]", 'has no "address"'),
        ("INSTRUMENTS: [{address: 'TCPIP::1', timeout_ms: 0}]", '"timeout_ms" is 0'),
        ("INSTRUMENTS: [{address: 'TCPIP::1', adress: 1}]", 'Did you mean "address"?'),
        ("INSTRUMENTS: [{adress: 'TCPIP::1'}]", 'Did you mean "address"?'),
        ("INSTRUMENTS: [{name: psu1}]", 'has no "address"'),
        ("INSTRUMENTS: [{address: 'TCPIP::1', probe: {qery: 'ID?'}}]", 'Did you mean "query"?'),
        ("INSTRUMENTS: [nonsense]", "VISA resource string"),
        ("INSTRUMENTS: ['TCPIP::h::70000::SOCKET']", "has the port 70000"),
        ("INSTRUMENTS: [{address: 'PRLGX-TCPIP::h::0::5::INSTR'}]", "has the port 0"),
        (
            "INSTRUMENTS: ['TCPIP::h::1::SOCKET', {address: 'tcpip::h::1::SOCKET', name: a}]",
            "two different entries for tcpip::h::1::SOCKET",
        ),
        ("INSTRUMENTS: [{address: 'TCPIP::1', read_termination: xxxxx}]", "up to four"),
        *(
            (f"INSTRUMENTS: [{entries}]", said)
            for entries, said in (
                ("{address: 'ASRL1::INSTR', bus_address: 6}", "no profile to address it by"),
                ("{address: 'GPIB0::5::INSTR', bus_address: 6, profile: a}", "not at a serial"),
                ("{address: 'ASRL1::INSTR', bus_address: 'a b', profile: a}", "up to 16"),
            )
        ),
        *(
            (f"INSTRUMENTS: [{{address: '{address}', {field}}}]", f"{key} means nothing on {wire}")
            for address, wire in OTHER_WIRES.items()
            for key, field in WRONG_THERE[wire].items()
        ),
        *(
            (f"INSTRUMENTS: [{{address: 'TCPIP::1', {field}}}]", said)
            for field, said in (
                ("encoding: ebcdic", "must be ascii, latin-1"),
                ("errors: often", "must be none or"),
                ("errors: {query: 'ERR?', kind: often}", "must be queue, esr or code"),
                ("errors: {query: ERR, kind: queue}", "is not a query"),
                ("errors: {query: 'ERR?'}", 'INSTRUMENTS.errors has no "kind"'),
                (
                    "errors: {query: 'ERR?', pattern: 'E([0-9]+)'}",
                    "no group with the name code",
                ),
                ("errors: {query: 'ERR?', pattern: '('}", "not a regular expression"),
                ("errors: {query: 'ERR?', kind: queue, why: 1}", 'unknown key "why"'),
                ("probe: {query: 'ID?'}", 'has no "expect"'),
                ("probe: {query: 'ID?', expect: '('}", "not a regular expression"),
                ("probe: {query: 'ID?', expect: '(a+)+$'}", "can take very long"),
                ("on_connect: HEAD OFF", "must be a list"),
                ("on_connect: [':OUTP CH1,OFF']", "which touches an output"),
                ("on_connect: ['*IDN?']", "whose answer is not read"),
                ('on_connect: ["A\\nB"]', "printable"),
                ("on_release: [':OUTP CH1,ON']", "which switches on"),
                ("on_release: [':SOUR1:VOLT 5']", "changes what an output gives"),
            )
        ),
    ],
)
def test_a_value_that_cannot_be_is_complained_about(places: Places, line: str, said: str) -> None:
    key = line.partition(":")[0]
    complaint, *others = complaints(places, f"# first line\n{line}\n")
    # What a misspelt key leaves unsaid is missing, too.
    assert not others or "unknown key" in complaint["message"]
    assert complaint["where"] == f"{places.config_file}:2"
    assert complaint["key"] == key
    assert said in complaint["message"]


@promise("config.precedence")
def test_flag_beats_environment_beats_drop_in_beats_file_beats_default(places: Places) -> None:
    drop_ins = {
        "20-late.yaml": "MCP_PORT: 3\nRPC_PORT: 9\n",
        "10-early.yaml": "MCP_PORT: 2\nRPC_PORT: 2\n",
    }
    text = "MCP_PORT: 1\nRPC_PORT: 1\nMAX_SESSIONS: 1\n"
    environ = {"EDGED_MCP_PORT": "4", "HOME": "/ignored"}

    loaded = load(
        places, text, drop_ins=drop_ins, environ=environ, flags=[("MCP_PORT", "5", "--mcp-port")]
    )
    assert loaded.config.mcp_port == 5
    assert loaded.origins["MCP_PORT"] == "--mcp-port"

    loaded = load(places, environ=environ)
    assert loaded.config.mcp_port == 4
    assert loaded.origins["MCP_PORT"] == "EDGED_MCP_PORT in the environment"

    loaded = load(places)
    assert (loaded.config.mcp_port, loaded.config.rpc_port) == (3, 9)
    assert loaded.config.max_sessions == 1
    assert loaded.origins["RPC_PORT"].endswith("20-late.yaml:2")
    assert loaded.origins["LOG_LEVEL"] == "default"


PORT_6 = "{address: 'ASRL1::INSTR', bus_address: 6, profile: a}"


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        (PORT_6, [""]),
        (f"{PORT_6}, {PORT_6}", [""]),
        (f"'ASRL1::INSTR', {PORT_6}", ["this entry has none", ""]),
        (f"'ASRL2::INSTR', {PORT_6}", ["", ""]),
        (f"{PORT_6}, {PORT_6.replace('6', '7')}", ["", ""]),
        (f"{PORT_6}, {PORT_6.replace('6', '06')}", ["bus_address 6 of", "bus_address 06 of"]),
        (f"{PORT_6}, {PORT_6.replace(': a', ': b')}", ["two different", "two different"]),
        (f"{PORT_6.replace('6', 'a')}, {PORT_6.replace('6', 'A')}", ["bus_address a", "address A"]),
    ],
)
def test_entries_of_a_shared_port_that_contradict_each_other_are_told_apart(
    places: Places, entries: str, problems: list[str]
) -> None:
    found = load(places, f"INSTRUMENTS: [{entries}]\n").config.instruments
    assert len(found) == len(problems)
    for entry, told in zip(found, problems, strict=True):
        assert told in entry.problem
        assert bool(told) is bool(entry.problem)


@promise("config.precedence")
def test_a_key_with_nothing_after_it_has_its_default(places: Places) -> None:
    assert load(places, "MCP_PORT:\nINSTRUMENTS:\n").config.mcp_port == 8767


@promise("config.complaint")
def test_an_unknown_key_is_complained_about_with_the_nearest(places: Places) -> None:
    (complaint,) = complaints(places, "MCP_PORT: 1\nMCP_PRT: 2\n")
    assert complaint["where"] == f"{places.config_file}:2"
    assert "Did you mean MCP_PORT?" in complaint["message"]


@promise("config.complaint")
def test_a_key_under_its_former_name_is_taken_with_a_warning_that_names_the_new_one(
    places: Places,
) -> None:
    places.config_file.write_text("LISTEN_PORT: 9000\n")
    loaded = load_config(places=places, environ={"EDGED_LOUDNESS": "debug"}, renamed=FORMER_NAMES)
    assert (loaded.config.mcp_port, loaded.config.log_level) == (9000, LogLevel.DEBUG)
    assert loaded.origins["MCP_PORT"] == f"{places.config_file}:1"
    assert [warning.split(";")[0] for warning in loaded.warnings] == [
        f"{places.config_file}:1: LISTEN_PORT is called MCP_PORT now",
        "EDGED_LOUDNESS in the environment: LOUDNESS is called LOG_LEVEL now",
    ]


def test_a_key_under_both_its_names_in_one_file_is_refused(places: Places) -> None:
    places.config_file.write_text("MCP_PORT: 9000\nLISTEN_PORT: 9001\n")
    with pytest.raises(Invalid, match=":2: LISTEN_PORT is called MCP_PORT now, which is set here"):
        load_config(places=places, environ={}, renamed=FORMER_NAMES)


def test_a_former_name_leads_to_a_key_and_is_none_itself() -> None:
    assert all(today in KEYS and former not in KEYS for former, today in RENAMED.items())


def test_an_unknown_variable_is_complained_about(places: Places) -> None:
    (complaint,) = complaints(places, environ={"EDGED_mcp_port": "1"})
    assert complaint["where"] == "EDGED_mcp_port in the environment"
    assert "Did you mean MCP_PORT?" in complaint["message"]


@promise("config.complaint")
def test_everything_wrong_is_said_at_once(places: Places) -> None:
    found = complaints(
        places,
        "MCP_PORT: x\nRPC_PORT: y\n",
        drop_ins={"a.yaml": "[not, a, mapping]", "b.yaml": "A: [1\n"},
        environ={"EDGED_TOOLS": "[a", "EDGED_LOG_LEVEL": "loud"},
    )
    assert len(found) == 6


@promise("config.complaint")
def test_a_key_that_stands_twice_is_refused_with_both_lines(places: Places) -> None:
    (complaint,) = complaints(places, "MCP_PORT: 1\nRPC_PORT: 2\nMCP_PORT: 3\n")
    assert complaint["where"] == f"{places.config_file}:3"
    assert "first in line 1" in complaint["message"]


def test_a_named_file_must_exist(places: Places, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        load_config(places=places, environ={}, file=tmp_path / "none.yaml")


def test_relative_paths_start_from_the_file_that_names_them(places: Places) -> None:
    config = load(places, "STATE_DIR: here\n").config
    assert config.state_dir == places.config_file.parent / "here"
    assert load(places, environ={"EDGED_STATE_DIR": "x"}).config.state_dir == Path.cwd() / "x"


def test_data_follow_a_moved_state_directory_unless_set(places: Places) -> None:
    assert load(places).config.data_dir == places.data_dir
    assert load(places, environ={"EDGED_STATE_DIR": "/s"}).config.data_dir == Path("/s/data")
    both = {"EDGED_STATE_DIR": "/s", "EDGED_DATA_DIR": "/d"}
    assert load(places, environ=both).config.data_dir == Path("/d")


def test_one_port_for_both_listeners_is_refused(places: Places) -> None:
    (complaint,) = complaints(places, "MCP_PORT: 8766\n")
    assert "must differ" in complaint["message"]
    assert load(places, "MCP_PORT: 0\nRPC_PORT: 0\n").config.mcp_port == 0


@promise("config.sim-discovers-nothing")
def test_a_simulated_bench_looks_at_no_bus_unless_told(places: Places) -> None:
    assert load(places).config.discovery == (Bus.USB, Bus.SERIAL, Bus.LAN)
    assert load(places, is_simulated=True).config.discovery == ()
    assert load(places, "DISCOVERY:\n", is_simulated=True).config.discovery == ()
    assert load(places, "DISCOVERY: [usb]\n", is_simulated=True).config.discovery == (Bus.USB,)


def test_a_simulated_bench_loads_no_wrapper_unless_told(places: Places, tmp_path: Path) -> None:
    places = dataclasses.replace(places, sdk_wrapper_dirs=(tmp_path,))
    assert load(places).config.sdk_wrapper_dirs == (tmp_path,)
    assert load(places, is_simulated=True).config.sdk_wrapper_dirs == ()
    told = load(places, f"SDK_WRAPPER_DIRS: [{tmp_path}]\n", is_simulated=True)
    assert told.config.sdk_wrapper_dirs == (tmp_path,)


@promise("config.documented")
def test_the_page_of_keys_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == configuration_page(), "make docs writes it anew"
