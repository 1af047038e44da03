"""How an instrument is spoken to on each kind of wire: sub-maps of ``connection``."""

from __future__ import annotations

import re

import pytest

from edged.config.instruments import InstrumentEntry
from edged.errors import Invalid
from edged.instruments.instrument import connection_for
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import Connection, Profile
from edged.transports.address import parse_address

HEAD = """
format: 1
profile_key: acme
version: 1
manufacturer: Acme
model: P1
instrument_class: multimeter
source: made for tests
match: {idn: 'acme,p1', examples: ["ACME,P1,1,1"]}
abort: []
commands:
  measure: {scpi: "MEAS?", is_query: true, returns: {type: float, unit: V}}
"""


def profile_of(connection: str) -> Profile:
    return parse_profile(f"{HEAD}connection: {connection}\n", "acme.yaml")


@pytest.mark.parametrize(
    ("address", "wire"),
    [
        ("ASRL/dev/ttyUSB0::INSTR", "serial"),
        ("ASRL3::INSTR", "serial"),
        ("GPIB0::5::INSTR", "gpib"),
        ("PRLGX-TCPIP::192.168.1.30::1234::5::INSTR", "gpib"),
        ("TCPIP::192.168.1.30::gpib0,5::INSTR", "gpib"),
        ("TCPIP::192.168.1.20::5025::SOCKET", "lan"),
        ("TCPIP::192.168.1.20::inst0::INSTR", "lan"),
        ("TCPIP::192.168.1.20::hislip0::INSTR", "lan"),
        ("USB::0x1AB1::0x0E11::DP8::INSTR", "usb"),
        ("VICP::192.168.1.20::INSTR", ""),
    ],
)
def test_the_wire_is_the_one_at_the_instruments_connector(address: str, wire: str) -> None:
    assert parse_address(address).wire == wire


def test_a_wire_overrides_the_connection_and_the_owner_overrides_both() -> None:
    profile = profile_of(
        '{timeout_ms: 700, on_connect: ["A"], errors: {query: "ERR?", kind: code}, '
        'serial: {read_termination: "\\r", baud_rate: 19200, on_connect: ["B"], errors: none}, '
        "gpib: {timeout_ms: 900, acknowledge: '^OK$'}, lan: {min_gap_ms: 50}, "
        "usb: {after_write_ms: 20}}"
    )

    def on(address: str, **own: object) -> Connection:
        return connection_for(profile.connection, InstrumentEntry(address=address, **own))  # type: ignore[arg-type]

    serial, gpib = on("ASRL1::INSTR"), on("GPIB0::5::INSTR")
    lan, usb = on("TCPIP::h::5025::SOCKET"), on("USB::1::2::3::INSTR")
    assert (serial.read_termination, serial.baud_rate, serial.on_connect) == ("\r", 19_200, ("B",))
    assert (serial.errors.query, serial.timeout_ms) == ("", 700)
    assert (gpib.timeout_ms, gpib.acknowledge, gpib.on_connect) == (900, "^OK$", ("A",))
    assert (gpib.read_termination, gpib.errors.query) == ("\n", "ERR?")
    assert (lan.min_gap_ms, lan.timeout_ms, usb.after_write_ms) == (50, 700, 20)
    own = on("ASRL1::INSTR", read_termination="\r\n", on_connect=())
    assert (own.read_termination, own.baud_rate, own.on_connect) == ("\r\n", 19_200, ())


@pytest.mark.parametrize(
    ("connection", "on_connect"),
    [
        ('{on_connect: ["A"], on_connect_serial: ["B"]}', ("B",)),
        ('{on_connect_serial: ["B"], serial: {baud_rate: 9600}}', ("B",)),
        ('{on_connect_serial: ["B"], serial: {on_connect: ["C"]}}', ("C",)),
    ],
)
def test_the_key_of_serial_lines_is_short_for_the_sub_map(
    connection: str, on_connect: tuple[str, ...]
) -> None:
    entry = InstrumentEntry(address="ASRL1::INSTR")
    assert connection_for(profile_of(connection).connection, entry).on_connect == on_connect


@pytest.mark.parametrize("wire", ["serial", "gpib", "lan", "usb"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{baudrate: 9600}", "baud_rate"),
        ("{timeout_ms: 0}", "timeout_ms"),
        ("{serial: {}}", "serial"),
        ("[]", "mapping"),
        ("{chunk_bytes: 64, baud_rate: 9600, heartbeat: false, bits: 8}", "means nothing|bits"),
    ],
)
def test_a_sub_map_is_held_to_the_rules_of_connection(
    wire: str, settings: str, message: str
) -> None:
    with pytest.raises(Invalid) as caught:
        profile_of(f"{{{wire}: {settings}}}")
    assert f"connection.{wire}" in str(caught.value)
    assert re.search(message, str(caught.value) + str(caught.value.remedy))


@pytest.mark.parametrize(
    ("wire", "lacks"),
    [
        ("serial", "chunk_bytes: 64"),
        *((wire, f"{key}") for wire in ("gpib", "lan", "usb") for key in (
            "baud_rate: 9600", "data_bits: 7", "parity: even", "stop_bits: 2", "flow: none",
        )),
        ("gpib", "chunk_bytes: 64"),
        ("gpib", "shared: true"),
        ("lan", "chunk_bytes: 64"),
        ("usb", "shared: true"),
        ("usb", "heartbeat: false"),
        ("usb", "heartbeat_source: p. 3"),
    ],
)  # fmt: skip
def test_a_setting_that_a_wire_does_not_have_is_refused_there(wire: str, lacks: str) -> None:
    with pytest.raises(Invalid, match="means nothing on this kind of wire") as caught:
        profile_of(f"{{{wire}: {{{lacks}}}}}")
    assert f'connection.{wire}: "{lacks.partition(":")[0]}"' in str(caught.value)


@pytest.mark.parametrize("wire", ["serial", "gpib", "lan", "usb"])
def test_a_line_of_a_wire_that_touches_an_output_is_an_error_of_lint(wire: str) -> None:
    profile = profile_of(f'{{heartbeat: false, {wire}: {{on_connect: ["OUTP ON"]}}}}')
    found = lint_profile(profile, ProfileLibrary())
    assert any('on_connect sends "OUTP ON"' in one.message for one in found), found
    assert any(one.severity == "error" for one in found)
