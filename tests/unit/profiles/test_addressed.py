"""Profiles of units that share a port: ``{address}`` and what may be sent."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edged.config.instruments import InstrumentEntry
from edged.errors import Invalid
from edged.instruments.instrument import connection_for
from edged.profiles.addressed import names_address, with_address
from edged.profiles.authoring.checking import checking_section
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.model import Connection, FieldsAnswer, Profile
from edged.profiles.raw import addresses_another
from edged.scpi.errors import parse_error
from edged.transports.address import Transport, parse_address
from tests.bench.addressed_units import MFC, PROFILE
from tests.bench.documented import documented_profiles


def profile_of(text: str) -> Profile:
    return parse_profile(text, "acme.yaml")


def unit_of(text: str, bus: str) -> Profile:
    profile = with_address(profile_of(text), bus)
    return replace(profile, connection=replace(profile.connection, bus_address=bus))


@pytest.mark.parametrize(
    ("text", "key", "port", "bus", "transport"),
    [
        ("ASRL/dev/ttyUSB0::INSTR@6", "ASRL/dev/ttyUSB0::INSTR@6", "ASRL/dev/ttyUSB0::INSTR", "6",
         Transport.SERIAL),
        ("asrl3::instr@A", "ASRL3::INSTR@A", "ASRL3::INSTR", "A", Transport.SERIAL),
        ("TCPIP::10.0.0.1::4001::SOCKET@07", "TCPIP0::10.0.0.1::4001::SOCKET@07",
         "TCPIP0::10.0.0.1::4001::SOCKET", "07", Transport.SOCKET),
        ("ASRL/dev/ttyUSB0::INSTR", "ASRL/dev/ttyUSB0::INSTR", "ASRL/dev/ttyUSB0::INSTR", "",
         Transport.SERIAL),
    ],
)  # fmt: skip
def test_the_address_of_a_unit_behind_a_port_holds_both(
    text: str, key: str, port: str, bus: str, transport: Transport
) -> None:
    address = parse_address(text)
    assert (address.key, address.port, address.bus) == (key, port, bus)
    assert address.transport is transport
    assert parse_address(address.key).key == key


def test_an_address_stands_in_every_line_and_pattern_of_its_units_profile() -> None:
    profile = profile_of(MFC)
    assert names_address(profile)
    unit = with_address(profile, "B")
    assert not names_address(unit)
    assert unit.commands["set_flow"].scpi == ("BS{flow:.2f}",)
    assert unit.commands["set_flow"].parameters == profile.commands["set_flow"].parameters
    assert unit.connection.identify is not None
    assert (unit.connection.identify.ask, unit.connection.identify.expect) == ("B", "^B ")
    assert unit.connection.acknowledge == "^B "
    assert (unit.abort[0].send, unit.abort[0].ask) == ("BS0", "B")
    assert with_address(unit, "C") is unit, "there is no place for one any more"
    assert with_address(profile_of(PROFILE), "6").connection.before == ("ADR 6",)


def test_lines_of_the_owner_hold_it_too() -> None:
    entry = InstrumentEntry(address="ASRL1::INSTR@6", profile="acme", before=("SEL {address}",))
    assert connection_for(Connection(before=("ADR 1",)), entry).before == ("SEL 6",)


def test_a_parameter_of_that_name_is_a_parameter() -> None:
    text = PROFILE.replace('before: ["ADR {address}"]\n  shared: true', "min_gap_ms: 1")
    text += '  poke: {scpi: "POKE {address}", parameters: {address: {type: int, min: 0, max: 9}}}\n'
    profile = profile_of(text)
    assert profile.commands["poke"].scpi == ("POKE {address}",)


@pytest.mark.parametrize("old", ["  shared: true\n", "  shared: true\n  heartbeat: false\n"])
def test_a_profile_whose_units_are_alone_has_no_address(old: str) -> None:
    with pytest.raises(Invalid, match="shared: true"):
        profile_of(PROFILE.replace(old, ""))


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("PV 5", False),
        ("ADR 6", False),
        ("adr  6", False),
        ("ADR 7", True),
        ("ADR7", True),
        ("PV?;ADR 7", True),
        (":ADR 7", True),
        ("ADR 6;ADR 7", True),
        ("ADR?", True),
    ],
)
def test_a_line_that_addresses_another_unit_is_found(line: str, is_refused: bool) -> None:
    assert bool(addresses_another(unit_of(PROFILE, "6"), line)) is is_refused


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [("A", False), ("AS2.00", False), ("AV", False), ("BS2", True), ("*@=B", True), ("S2", True)],
)
def test_where_each_line_says_for_whom_it_is_an_unknown_one_must_say_so(
    line: str, is_refused: bool
) -> None:
    assert bool(addresses_another(unit_of(MFC, "A"), line)) is is_refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROFILE, ""),
        (MFC, ""),
        (PROFILE.replace('  before: ["ADR {address}"]\n', ""), "no line has {address}"),
        (PROFILE.replace('["ADR {address}"]', '["ADR {address}", "OUTP ON"]'), "touches an output"),
        (PROFILE + '  other: {scpi: "ADR 7"}\n', "may address another unit"),
        (PROFILE + '  other: {scpi: ["adr 7", "PV 1"]}\n', "may address another unit"),
        (PROFILE + '  other: {scpi: "ST {address}"}\n', ""),
        (MFC + '  hold: {scpi: "H"}\n', '"H" has no {address}'),
        (MFC.replace('send: "{address}S0"', 'send: "S0"'), '"S0" has no {address}'),
        (MFC.replace('ask: "{address}", expect: "', 'ask: "?", expect: "'), '"?" has no {address}'),
        (
            MFC.replace("  shared: true", "  errors: {query: 'E?', kind: code}\n  shared: true"),
            "E?",
        ),
        (
            PROFILE.replace(
                "  shared: true",
                "  shared: true\n  on_connect_serial: ['A']\n  serial: {on_connect: ['B']}",
            ),
            "Keep one",
        ),
    ],
)
def test_lint_knows_what_units_that_share_a_port_need(text: str, message: str) -> None:
    found = lint_profile(profile_of(text), ProfileLibrary())
    errors = [one.sentence for one in found if one.severity == "error"]
    assert "<address>" not in str(errors)
    assert [one for one in errors if message in one] if message else not errors, errors


def test_lint_says_that_units_without_a_name_cannot_be_told_apart() -> None:
    (named,) = re.findall("^identify: .*$", PROFILE, re.M)
    for text, is_warned in (
        (PROFILE, False),
        (PROFILE.replace(named, "never_ask_idn: true"), True),
    ):
        found = [one.sentence for one in lint_profile(profile_of(text), ProfileLibrary())]
        assert any("which of them has answered" in one for one in found) is is_warned, found


@pytest.mark.parametrize("key", ["tdk_genesys", "alicat_mc", "keithley_2602b", "newport_smc100"])
def test_the_profiles_of_the_documentation_are_clean(key: str) -> None:
    profile = profile_of(documented_profiles()[key])
    found = lint_profile(profile, ProfileLibrary())
    assert [one.sentence for one in found if one.severity == "error"] == []


def test_the_errors_of_an_smc100_and_of_tsp_are_read_as_documented() -> None:
    texts = documented_profiles()
    check = with_address(profile_of(texts["newport_smc100"]), "2").connection.errors
    for answer, text in (("2TE@", ""), ("2TEC", "error C")):
        error = parse_error(check.kind, answer, check.pattern, check.none)
        assert (error.text, error.is_odd) == (text, False)
    assert check.query == "2TE"
    tsp = profile_of(texts["keithley_2602b"]).connection.errors
    error = parse_error(tsp.kind, "-2.85000e+02\tTSP Syntax error\t2.00000e+01\t1.00000e+00")
    assert error.code == -285


def test_the_address_stands_in_keys_expressions_and_lines_of_a_watchdog() -> None:
    text = PROFILE.replace(
        "abort: [",
        """watchdog:
  enable: ["WD{address} {s}"]
  disable: ["WD{address} 0"]
  range: [1, 60]
  tripped: {ask: "WD{address}?", expect: "^{address} 1"}
  clear: ["WC{address}"]
  feeds: ["WF{address}"]
abort: [""",
        1,
    )
    text += """
  move:
    scpi: "PA"
    complete: {poll: {ask: "TS"}, until: 'value == "{address}TS33"'}
  where:
    scpi: "TP"
    is_query: true
    returns: {fields: [{name: place, key: "{address}TP", type: float}]}
"""
    profile = unit_of(text, "6")
    assert profile.watchdog is not None
    lines = (*profile.watchdog.enable, *profile.watchdog.disable, *profile.watchdog.clear)
    assert (*lines, *profile.watchdog.feeds) == ("WD6 {s}", "WD6 0", "WC6", "WF6")
    assert profile.commands["move"].complete is not None
    assert profile.commands["move"].complete.until == 'value == "6TS33"'
    returns = profile.commands["where"].returns
    assert isinstance(returns, FieldsAnswer)
    assert returns.fields[0].key == "6TP"
    assert "<address>" not in profile_markdown(profile_of(text))
    assert "<address>" not in checking_section(profile_of(text))
