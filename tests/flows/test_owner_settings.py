"""What INSTRUMENTS says of one instrument, and error queries that nobody answers."""

from collections.abc import AsyncIterator

import pytest

from edged.clock import SystemClock
from edged.config.instruments import ErrorsEntry, InstrumentEntry, ProbeEntry
from edged.errors import ErrorCode, Failed
from edged.instruments.conversation import command_conversation
from edged.instruments.instrument import Instrument
from edged.instruments.pool import Arrived
from edged.transports.visa import VisaLibrary
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.promises import promise


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    visa = VisaLibrary(clock=SystemClock())
    lab = Lab(visa)
    yield lab
    await lab.discovery.stop()
    await lab.pool.stop()
    visa.close()


@pytest.fixture
async def psu() -> AsyncIterator[LoopbackInstrument]:
    async with LoopbackInstrument() as instrument:
        yield instrument


async def set_volts(instrument: Instrument) -> None:
    assert instrument.profile is not None
    command = PROFILE.commands["set"]
    connection = instrument.profile.connection
    await instrument.converse(
        lambda: command_conversation(lines=command.scpi, command=command, connection=connection),
        timeout_s=5,
        name="set",
    )


@promise("instruments.owner-settings")
async def test_first_words_last_words_and_error_checks_are_the_owners(
    lab: Lab, psu: LoopbackInstrument
) -> None:
    psu.special["ALL?"] = lambda: b"0\n"
    entry = InstrumentEntry(
        address=psu.address,
        timeout_ms=2000,
        errors=ErrorsEntry(kind="code", query="ALL?"),
        on_connect=("CHDR OFF",),
        on_release=("OUTP OFF", "LOC"),
    )
    await lab.begin(entry)
    instrument = await lab.saw(Arrived)
    assert psu.received == ["*IDN?", "CHDR OFF", "ALL?"]
    await set_volts(instrument)
    psu.special["ALL?"] = lambda: b"7\n"
    with pytest.raises(Failed) as caught:
        await set_volts(instrument)
    assert caught.value.code is ErrorCode.INSTRUMENT_ERROR
    await lab.discovery.stop()
    await lab.pool.stop()
    await psu.heard("LOC")
    assert psu.received[-2:] == ["OUTP OFF", "LOC"]
    assert "SYST:ERR?" not in psu.received


async def test_without_error_checks_nothing_is_asked_after_a_write(
    lab: Lab, psu: LoopbackInstrument
) -> None:
    entry = InstrumentEntry(address=psu.address, errors=ErrorsEntry(), on_connect=())
    await lab.begin(entry)
    await set_volts(await lab.saw(Arrived))
    assert await lab.ask(lab.pool.all()[0], "ECHO? 1") == "1"
    # Whether a write is acknowledged can only be seen, once for each header.
    assert psu.received == ["*IDN?", "VOLT 1", "*IDN?", "ECHO? 1"]
    await set_volts(lab.pool.all()[0])
    assert await lab.ask(lab.pool.all()[0], "ECHO? 2") == "2"
    assert psu.received[4:] == ["VOLT 1", "ECHO? 2"]


@pytest.mark.parametrize(("expect", "is_offered"), [("^here$", True), ("^elsewhere$", False)])
async def test_a_probe_of_the_owner_decides_whether_the_profile_fits(
    lab: Lab, psu: LoopbackInstrument, expect: str, is_offered: bool
) -> None:
    probe = ProbeEntry(query="ECHO? here", expect=expect)
    await lab.begin(InstrumentEntry(address=psu.address, timeout_ms=2000, probe=probe))
    assert (await lab.saw(Arrived)).is_offered is is_offered


@promise("instruments.silent-error-query")
@pytest.mark.parametrize(
    ("answer", "told"),
    [(b"", 'does not answer its error query "SYST:ERR?"'), (b"WHAT\n", 'answers "WHAT" to its')],
)
async def test_an_instrument_that_knows_no_error_query_works_and_a_warning_says_so(
    lab: Lab, psu: LoopbackInstrument, answer: bytes, told: str
) -> None:
    psu.special["SYST:ERR?"] = lambda: answer
    await lab.begin(InstrumentEntry(address=psu.address, timeout_ms=1500))
    instrument = await lab.saw(Arrived)
    assert instrument.is_offered
    assert lab.discovery.set_aside() == []
    (warning,) = lab.discovery.summary()["warnings"]
    assert warning["instrument_id"] == instrument.id
    assert told in warning["warning"]
    assert instrument.summary()["warning"] == warning["warning"]
    psu.received.clear()
    await set_volts(instrument)
    assert await lab.ask(instrument, "ECHO? 1") == "1"
    assert [line for line in psu.received if line != "*IDN?"] == ["VOLT 1", "ECHO? 1"]
    assert psu.received[-2] == "*IDN?"


async def test_an_error_query_that_is_lost_once_is_asked_again(
    lab: Lab, psu: LoopbackInstrument
) -> None:
    answers = [b"", b'0,"No error"\n']
    psu.special["SYST:ERR?"] = lambda: answers.pop(0) if len(answers) > 1 else answers[0]
    await lab.begin(InstrumentEntry(address=psu.address, timeout_ms=1500))
    instrument = await lab.saw(Arrived)
    assert instrument.warning == ""
    assert instrument.connection.errors == PROFILE.connection.errors


async def test_one_that_hangs_after_its_name_is_set_aside_all_the_same(
    lab: Lab, psu: LoopbackInstrument
) -> None:
    def fall_silent() -> bytes:
        psu.is_silent = True
        return b""

    psu.special["SYST:ERR?"] = fall_silent
    await lab.begin(InstrumentEntry(address=psu.address, timeout_ms=1500))
    assert lab.pool.all() == ()
    assert lab.discovery.set_aside()[0]["is_set_aside"]
