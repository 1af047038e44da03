"""A program's own question for errors, in whatever form its instrument answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from edged.clock import SystemClock
from edged.errors import Invalid
from edged.profiles.model import Command, ErrorCheck, Parameter, ParameterType
from edged.scpi.kinds import ErrorKind
from edged.transports.visa import VisaLibrary
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.visa_bench import VisaBench, query
from tests.promises import promise

TSP = ErrorCheck(kind=ErrorKind.QUEUE, query="print(errorqueue.next())")
TSP_ERROR = "-2.85000e+02\tTSP Syntax error at line 1\t2.00000e+01\t1.00000e+00"
TSP_NONE = "0.00000e+00\tQueue Is Empty\t0.00000e+00"
LETTERS = ErrorCheck(kind=ErrorKind.CODE, query="1TE", pattern="^1TE(?P<code>[A-Z@])", none="^1TE@")
NUMBERED = ErrorCheck(
    kind=ErrorKind.QUEUE, query="FLT?", pattern="^E(?P<code>[0-9]+) ?(?P<text>.*)"
)
VOLTAGE = Parameter(name="voltage", type=ParameterType.FLOAT, max=5, min=0)


@pytest.fixture(scope="module")
def library() -> Iterator[VisaLibrary]:
    opened = VisaLibrary(library="@py", clock=SystemClock())
    yield opened
    opened.close()


@asynccontextmanager
async def unit(
    library: VisaLibrary, check: ErrorCheck, none: str, errors: list[str]
) -> AsyncIterator[tuple[VisaBench, LoopbackInstrument]]:
    profile = replace(
        PROFILE,
        connection=replace(PROFILE.connection, errors=check, on_connect=()),
        commands={
            "set_voltage": Command(
                name="set_voltage", scpi=("VOLT {voltage}",), parameters={"voltage": VOLTAGE}
            )
        },
    )
    async with LoopbackInstrument() as instrument:
        instrument.special[check.query] = lambda: (
            (errors.pop(0) if errors else none).encode() + b"\n"
        )
        lab = Lab(library, (profile,))
        try:
            await lab.begin(instrument)
            yield VisaBench(lab), instrument
        finally:
            await lab.discovery.stop()
            await lab.pool.stop()


@promise("visa.own-error-form")
@pytest.mark.parametrize(
    ("check", "none", "error", "asked"),
    [
        (TSP, TSP_NONE, TSP_ERROR, "print(errorqueue.next())"),
        (TSP, TSP_NONE, TSP_ERROR, "print( errorqueue.next( ) )"),
        (ErrorCheck(kind=ErrorKind.CODE, query="EXE?"), "0", "7", "EXE?"),
        (ErrorCheck(kind=ErrorKind.CODE, query="EXE?"), "0", "7", ":exe?"),
        (ErrorCheck(kind=ErrorKind.CODE, query="LASTERR"), "+0.0E+0", "+7.000E+00", "LASTERR"),
        (LETTERS, "1TE@", "1TEC", "1TE"),
        (NUMBERED, "E0", "E01 overload", "FLT?"),
        (ErrorCheck(kind=ErrorKind.QUEUE, query="ERR?"), '0,"No error"', '-113,"Odd"', "ERR?"),
    ],
)
async def test_an_error_of_a_programs_write_is_answered_as_the_instrument_answers_it(
    library: VisaLibrary, check: ErrorCheck, none: str, error: str, asked: str
) -> None:
    errors: list[str] = []
    async with unit(library, check, none, errors) as (bench, instrument):
        instrument.special[asked] = instrument.special[check.query]
        session = bench.session(instrument.address)
        errors.append(error)
        await session.write(b"NONSENSE")
        assert errors == [], "edged has read it"
        assert await query(session, asked) == error
        assert await query(session, asked) == none


@pytest.mark.parametrize(
    ("check", "none", "error", "number"),
    [
        (TSP, TSP_NONE, TSP_ERROR, -285),
        (ErrorCheck(kind=ErrorKind.CODE, query="EXE?"), "0", "7", 7),
        (NUMBERED, "E0", "E01 overload", -310),
    ],
)
async def test_who_asks_in_the_form_of_scpi_is_answered_in_that(
    library: VisaLibrary, check: ErrorCheck, none: str, error: str, number: int
) -> None:
    errors: list[str] = []
    async with unit(library, check, none, errors) as (bench, instrument):
        session = bench.session(instrument.address)
        errors.append(error)
        await session.write(b"NONSENSE")
        code, _, text = (await query(session, "SYST:ERR?")).partition(",")
        assert int(code) == number
        assert len(text) > len('""')
        assert "\t" not in text


@promise("visa.own-error-form")
async def test_a_tsp_program_counts_and_clears_the_errors_that_edged_has_read(
    library: VisaLibrary,
) -> None:
    errors: list[str] = []
    async with unit(library, TSP, TSP_NONE, errors) as (bench, instrument):
        session = bench.session(instrument.address)
        counts = ["0.00000e+00"]
        instrument.special["print(errorqueue.count)"] = lambda: counts[0].encode() + b"\n"
        for asked in ("print(errorqueue.count)", "print( errorqueue.count )"):
            instrument.special[asked] = instrument.special["print(errorqueue.count)"]
            assert await query(session, asked) == "0.00000e+00"
            errors += [TSP_ERROR, TSP_ERROR]
            await session.write(b"NONSENSE")
            assert await query(session, asked) == "2.00000e+00"
            counts[0] = "1.00000e+00"
            assert await query(session, asked) == "3.00000e+00"
            counts[0] = "0.00000e+00"
            # Inside of the instrument there is none left, and the program's own entries stay.
            instrument.special["code = errorqueue.next()"] = lambda: b""
            await session.write(b"code = errorqueue.next()")
            assert await query(session, "print(errorqueue.next())") == TSP_ERROR
            await session.write(b"errorqueue.clear()")
            assert instrument.received.count("errorqueue.clear()") >= 1
            assert await query(session, asked) == "0.00000e+00"
            assert await query(session, "print(errorqueue.next())") == TSP_NONE


@pytest.mark.parametrize(
    ("check", "none", "answer"),
    [
        (TSP, TSP_NONE, "-222\tData out of range"),
        (ErrorCheck(kind=ErrorKind.CODE, query="EXE?"), "0", "-222"),
        (ErrorCheck(kind=ErrorKind.QUEUE, query="ERR?"), '0,"No error"', '-222,"Data out of range'),
    ],
)
async def test_what_edged_refuses_is_an_entry_of_the_own_question_too(
    library: VisaLibrary, check: ErrorCheck, none: str, answer: str
) -> None:
    async with unit(library, check, none, []) as (bench, instrument):
        session = bench.session(instrument.address)
        with pytest.raises(Invalid):
            await session.write(b"VOLT 99")
        told = await query(session, check.query)
        assert told.startswith(answer)
        assert await query(session, check.query) == none


@pytest.mark.parametrize("asked", ["*ESR?", "EXR?"])
async def test_a_register_holds_the_events_of_the_instrument_and_of_what_was_refused(
    library: VisaLibrary, asked: str
) -> None:
    check = ErrorCheck(kind=ErrorKind.ESR, query=asked)
    events: list[str] = []
    async with unit(library, check, "0", events) as (bench, instrument):
        session = bench.session(instrument.address)
        events.append("32")
        with pytest.raises(Invalid):
            await session.write(b"VOLT 99")
        assert await query(session, asked) == "48", "command error and execution error"
        assert await query(session, asked) == "0"
