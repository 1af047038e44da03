from dataclasses import replace
from typing import Any

import pytest

from edged.profiles.format.connection_facts import connection_facts, connection_of
from edged.profiles.model import Connection, ErrorCheck
from edged.scpi.kinds import ErrorKind

PLAIN = Connection()
SERIAL = Connection(
    read_termination="\r",
    timeout_ms=300,
    chunk_bytes=64,
    baud_rate=9600,
    parity="even",
    stop_bits=1.5,
    flow="xon_xoff",
    errors=ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?"),
    on_connect=(":SYST:REM",),
    on_release=(":SYST:LOC",),
)


@pytest.mark.parametrize("connection", [PLAIN, SERIAL])
def test_a_connection_is_read_back_as_it_was_written(connection: Connection) -> None:
    assert connection_of(connection_facts(connection)) == connection


@pytest.mark.parametrize(
    "change",
    [
        {"timeout_ms": "300"},
        {"timeout_ms": True},
        {"parity": 1},
        {"stop_bits": "1"},
        {"on_connect": "*RST"},
        {"on_release": [1]},
        {"errors": ["queue", "SYST:ERR?"]},
        {"errors": ["magic", "", ""]},
        {"encoding": None},
    ],
)
def test_facts_that_are_none_make_no_connection(change: dict[str, Any]) -> None:
    assert connection_of({**connection_facts(SERIAL), **change}) is None


@pytest.mark.parametrize("facts", [None, "", [], {}])
def test_a_row_without_facts_makes_no_connection(facts: object) -> None:
    assert connection_of(facts) is None


def test_a_row_of_before_there_were_patterns_of_errors_is_read() -> None:
    check = ErrorCheck(kind=ErrorKind.CODE, query="1TE", pattern="(?P<code>.)", none="@")
    facts = connection_facts(replace(SERIAL, errors=check))
    kept = connection_of(facts)
    assert kept is not None
    assert kept.errors == check
    old = connection_of({**facts, "errors": facts["errors"][:3]})
    assert old is not None
    assert old.errors == replace(check, pattern="", none="")
