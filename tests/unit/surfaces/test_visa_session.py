"""A VISA session on loopback instruments: what a program is told, and whose answer it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from edged.actions.action import SendProgram
from edged.actions.caller import Caller, Claims, Route
from edged.auth.permissions import Grant
from edged.clock import SystemClock
from edged.commands.leases import LeaseStanding
from edged.config.keys import RawScpi
from edged.errors import ErrorCode, Failed, Invalid, NotFound, Refused
from edged.instruments.conversation import lines_conversation, raw_conversation
from edged.instruments.mailbox import Priority
from edged.profiles.model import Command, Parameter, ParameterType, ScalarAnswer
from edged.profiles.unit_rules import UnitRules
from edged.scpi.kinds import AnswerType
from edged.transports.visa import VisaLibrary
from tests.bench.lab import PROFILE, Lab
from tests.bench.loopback_instrument import LoopbackInstrument
from tests.bench.visa_bench import VisaBench, query
from tests.promises import promise

VOLTAGE = Parameter(name="voltage", type=ParameterType.FLOAT, unit="V", min=0, max=5)
SUPPLY = replace(
    PROFILE,
    commands={
        "set_voltage": Command(
            name="set_voltage", scpi=("VOLT {voltage}",), parameters={"voltage": VOLTAGE}
        ),
        "get_voltage": Command(
            name="get_voltage",
            scpi=("VOLT?",),
            is_query=True,
            returns=ScalarAnswer(type=AnswerType.FLOAT),
        ),
    },
)


@pytest.fixture(scope="module")
def library() -> Iterator[VisaLibrary]:
    opened = VisaLibrary(library="@py", clock=SystemClock())
    yield opened
    opened.close()


@pytest.fixture
async def supply() -> AsyncIterator[LoopbackInstrument]:
    async with LoopbackInstrument() as instrument:
        yield instrument


@pytest.fixture
async def lab(library: VisaLibrary, supply: LoopbackInstrument) -> AsyncIterator[Lab]:
    lab = Lab(library, (SUPPLY,))
    await lab.begin(supply)
    yield lab
    await lab.discovery.stop()
    await lab.pool.stop()


@pytest.fixture
def bench(lab: Lab) -> VisaBench:
    return VisaBench(lab)


async def test_what_is_asked_is_answered_with_its_line_end(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    await session.write(b"ECHO? 12\n")
    assert await session.read(2) == (b"12", False)
    assert await session.read(100) == (b"\n", True)
    (action,) = bench.actions
    assert isinstance(action, SendProgram)
    assert (action.tool, action.caller.client) == ("send_scpi", "script.py")


async def test_a_known_command_is_held_to_the_profiles_bounds_though_raw_scpi_is_free(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    with pytest.raises(Invalid, match="99"):
        await session.write(b"VOLT 99")
    with pytest.raises(Refused):
        await session.write(b":VOLT MAX")
    await session.write(b"VOLT 3;")
    assert not any("99" in line or "MAX" in line for line in supply.received)
    assert "VOLT 3;" in supply.received


def in_a_block(header: str, line: str) -> bytes:
    """What is one message by IEEE 488.2, and two to an instrument that knows no block there."""
    data = f"\n{line}\n"
    return f"{header} #2{len(data):02}{data}".encode()


@pytest.mark.parametrize("length", range(8, 13))
async def test_the_data_of_a_block_goes_out_whatever_its_length(
    bench: VisaBench, supply: LoopbackInstrument, length: int
) -> None:
    session = bench.session(supply.address)
    data = "x" * length
    await session.write(f"*CLS;DATA #2{length:02}{data}".encode())
    assert f"*CLS;DATA #2{length:02}{data}" in supply.received


@promise("raw.unknown-is-refused-where-guarded")
@pytest.mark.parametrize("header", ["VOLT?", "SYST:ERR?", "*IDN?;SYST:ERR?", "VOLT 1;ECHO"])
@pytest.mark.parametrize("line", ["OUTPUT:OPEN 1", "ECHO? 1", "VOLT 1\nOUTPUT:OPEN 1"])
@pytest.mark.parametrize("has_profile", [True, False])
async def test_nothing_is_hidden_in_a_block_from_a_unit_with_rules(
    lab: Lab,
    bench: VisaBench,
    supply: LoopbackInstrument,
    header: str,
    line: str,
    *,
    has_profile: bool,
) -> None:
    unit = lab.pool.get(supply.address)
    unit.rules = UnitRules(key="A001", deny=frozenset({"open"}))
    if not has_profile:
        unit.profile = None
    session = bench.session(supply.address)
    with pytest.raises(Refused, match="it may do anything, and the owner has set deny"):
        await session.write(in_a_block(header, line))
    assert not [text for text in supply.received if "OPEN" in text or "ECHO" in text]


@promise("raw.classes")
@pytest.mark.parametrize(
    "message",
    ["VOLT 1;*CLS;ECHO 1", "VOLT 1;SYST:ERR?;ECHO? 1", "*ESR?;VOLT 1;SYST:ERR:COUN?",
     ";".join(["*CLS"] * 65)],
)  # fmt: skip
async def test_nothing_of_a_message_is_sent_where_a_later_part_of_it_is_refused(
    lab: Lab, bench: VisaBench, supply: LoopbackInstrument, message: str
) -> None:
    lab.pool.get(supply.address).rules = UnitRules(key="A001", deny=frozenset({"open"}))
    session = bench.session(supply.address)
    before = list(supply.received)
    with pytest.raises((Refused, Invalid)):
        await session.write(message.encode())
    assert supply.received == before
    assert not await session.read_stb() & 16


@promise("raw.classes")
async def test_a_message_of_allowed_parts_is_sent_part_by_part(
    lab: Lab, bench: VisaBench, supply: LoopbackInstrument
) -> None:
    lab.pool.get(supply.address).rules = UnitRules(key="A001", deny=frozenset({"open"}))
    session = bench.session(supply.address)
    await session.write(b"VOLT 1;*CLS;VOLT 2")
    sent = [line for line in supply.received if line.startswith(("VOLT", "*CLS"))]
    assert sent == ["VOLT 1", "*CLS", "VOLT 2"]


@promise("visa.own-queue")
async def test_a_refusal_stands_in_the_programs_own_queue_in_every_spelling(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session, other = bench.session(supply.address), bench.session(supply.address, "other.py")
    for ask in ("SYST:ERR?", ":SYSTem:ERRor:NEXT?", "STAT:QUE?", "syst:err?"):
        with pytest.raises(Invalid):
            await session.write(b"VOLT 99")
        assert await session.read_stb() & 4
        assert (await query(session, ask)).startswith('-222,"Data out of range;')
        assert not await session.read_stb() & 4
    assert (await query(other, "SYST:ERR?")).startswith("0")
    with pytest.raises(Invalid):
        await session.write(b"VOLT 99")
    assert await query(session, "SYST:ERR:CODE?") == "-222"


@promise("visa.own-queue")
async def test_clearing_clears_the_programs_own_queue_and_register(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    supply.special["*ESR?"] = lambda: b"1\n"
    with pytest.raises(Invalid):
        await session.write(b"VOLT 99")
    assert await query(session, "*ESR?") == str(16 | 1)
    assert await query(session, "*ESR?") == "1"
    with pytest.raises(Invalid):
        await session.write(b"VOLT 99")
    await session.write(b"*CLS")
    assert "*CLS" in supply.received
    assert (await query(session, "SYST:ERR?")).startswith("0")


@promise("visa.own-queue")
async def test_the_register_of_an_instrument_that_another_has_is_not_read(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    bench.leases.standing_now = LeaseStanding.ANOTHERS
    assert await query(session, "*ESR?") == "0"
    assert "*ESR?" not in supply.received


async def test_what_the_instrument_complains_of_is_the_writers_to_ask(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session, other = bench.session(supply.address), bench.session(supply.address, "other.py")
    supply.errors.append('-113,"Undefined header"')
    await session.write(b"NONSENSE")
    assert (await query(other, "SYST:ERR?")).startswith("0")
    assert await query(session, "SYST:ERR?") == '-113,"Undefined header"'


@promise("visa.held-question")
async def test_a_question_keeps_the_line_until_it_is_read(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session, other = bench.session(supply.address), bench.session(supply.address, "other.py")
    await session.write(b"ECHO? mine")
    await session.wait_answered(5)
    theirs = asyncio.create_task(query(other, "ECHO? theirs"))
    await asyncio.sleep(0.05)
    assert not theirs.done()
    assert "ECHO? theirs" not in supply.received
    assert (await session.read(100))[0] == b"mine\n"
    assert await theirs == "theirs"


@promise("visa.held-question")
async def test_what_makes_safe_passes_a_line_that_is_kept(
    bench: VisaBench, lab: Lab, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    await session.write(b"ECHO? mine")
    await session.wait_answered(5)
    unit = session.instrument
    await unit.converse(
        lambda: raw_conversation(lines=("ECHO? off",), asks=True, connection=unit.connection),
        priority=Priority.SAFE, timeout_s=1, name="abort",
    )  # fmt: skip
    assert supply.received[-1] == "ECHO? off"
    assert (await session.read(100))[0] == b"mine\n"


@promise("visa.held-question")
@pytest.mark.parametrize("how", ["time", "close", "clear", "next"])
async def test_a_kept_line_is_given_back(
    bench: VisaBench, supply: LoopbackInstrument, how: str
) -> None:
    timeout_s = 0.2 if how == "time" else 30.0
    session = bench.session(supply.address, timeout_s=timeout_s)
    other = bench.session(supply.address, "other.py", timeout_s=10.0)
    await session.write(b"ECHO? mine")
    await session.wait_answered(5)
    waiting = asyncio.create_task(query(other, "ECHO? theirs"))
    match how:
        case "close":
            await session.close()
        case "clear":
            await session.clear()
        case "next":
            await session.write(b"VOLT 1")
    async with asyncio.timeout(5):
        assert await waiting == "theirs"
    if how == "time":
        assert (await session.read(100))[0] == b"mine\n"
    if how == "next":
        assert await query(session, "SYST:ERR?") == '-410,"Query INTERRUPTED"'


async def test_who_reads_without_having_asked_is_told_at_once(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    with pytest.raises(Failed, match="Nothing was asked"):
        await session.read(100)
    assert await query(session, "SYST:ERR?") == '-420,"Query UNTERMINATED"'


LONG = b"".join(b"VOLT %d%s\n" % (number % 5, b" " * 2_000) for number in range(40))
"""More messages than are looked for at once."""


async def seen_while(bench: VisaBench, written: Coroutine[Any, Any, None]) -> list[int]:
    """How many actions had begun at each turn of the loop until a write is over."""
    task, seen = asyncio.ensure_future(written), []
    while not task.done():
        seen.append(len(bench.actions))
        await asyncio.sleep(0)
    await task
    return seen


@promise("mcp.bounded-bodies")
async def test_others_run_while_the_messages_of_a_long_piece_are_found(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    seen = await seen_while(bench, bench.session(supply.address).write(LONG))
    assert seen.count(0) >= 40
    assert seen[-1] <= len(bench.actions) == 40


@promise("mcp.bounded-bodies")
async def test_others_run_between_two_questions_of_one_piece(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    seen = await seen_while(bench, bench.session(supply.address).write(b"ECHO? 1\nECHO? 2\n"))
    assert 1 in seen


async def test_nothing_of_a_long_piece_is_sent_where_its_end_is_refused(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    with pytest.raises(Invalid, match="ends before the length"):
        await session.write(LONG + b"X #15abc")
    assert not bench.actions
    await session.write(b"VOLT 2\n")
    assert [action.arguments["scpi_command"] for action in bench.actions] == ["VOLT 2"]


async def test_a_piece_behind_a_long_one_is_taken_after_it(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    await asyncio.gather(session.write(LONG), session.write(b"VOLT 5\n"))
    assert len(bench.actions) == 41
    assert bench.actions[-1].arguments["scpi_command"] == "VOLT 5"


async def test_nothing_of_a_long_piece_that_is_given_up_is_sent_later(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    written = asyncio.ensure_future(session.write(LONG))
    await asyncio.sleep(0)
    written.cancel()
    with pytest.raises(asyncio.CancelledError):
        await written
    await session.write(b"VOLT 2\n")
    assert [action.arguments["scpi_command"] for action in bench.actions] == ["VOLT 2"]


@promise("visa.not-crossed")
async def test_a_late_answer_is_not_taken_for_the_next_ones(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address, timeout_s=0.05)
    await session.write(b"DELAY? 0.2")
    with pytest.raises(Failed, match="not answered"):
        await session.read(100)
    session.timeout_s = 5.0
    assert await query(session, "ECHO? next") == "next"


@promise("visa.messages")
async def test_a_block_goes_out_byte_for_byte_and_comes_so(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    block = b"#14\x00\n;\xff"
    await session.write(b":DATA:ARB " + block + b"\n")
    assert (await query(session, "*IDN?")).startswith("ACME")
    supply.special["CURVE?"] = lambda: b"#15\x00\n;\xff\x00\n"
    await session.write(b"CURVE?")
    assert (await session.read(100))[0] == b"#15\x00\n;\xff\x00\n"


@promise("visa.messages")
async def test_a_block_makes_a_message_one_that_may_do_anything(
    lab: Lab, bench: VisaBench, supply: LoopbackInstrument
) -> None:
    message = b"DATA #18;VOLT 99\n"
    calm = Grant(tools=frozenset({"send_scpi"}), danger=False)
    with pytest.raises(Refused):
        await VisaBench(lab, grant=calm).session(supply.address).write(message)
    assert not any("99" in line for line in supply.received)
    await bench.session(supply.address).write(message)
    assert "DATA #18;VOLT 99" in supply.received


@promise("visa.always")
@pytest.mark.parametrize("raw", [RawScpi.OFF, RawScpi.QUERIES, RawScpi.KNOWN])
async def test_what_tells_who_it_is_passes_whatever_raw_scpi_says(
    lab: Lab, supply: LoopbackInstrument, raw: RawScpi
) -> None:
    session = VisaBench(lab, raw=raw).session(supply.address)
    for text in ("*OPC?", "*STB?", "*OPT?"):
        supply.special[text] = lambda: b"1\n"
        await query(session, text)
    await query(session, "*IDN?")
    await query(session, "SYST:ERR?")
    await session.write(b"*CLS")
    if raw is not RawScpi.QUERIES:
        with pytest.raises(Refused):
            await session.write(b"ECHO? 1")
        assert (await query(session, "SYST:ERR?")).startswith('-203,"Command protected;')


async def test_danger_is_that_of_the_known_command_or_all_of_it(
    lab: Lab, supply: LoopbackInstrument
) -> None:
    calm = Grant(tools=frozenset({"send_scpi"}), danger=False)
    session = VisaBench(lab, grant=calm).session(supply.address)
    await session.write(b"VOLT 2")
    await query(session, "*IDN?")
    with pytest.raises(Refused, match="dangerous"):
        await session.write(b"ECHO? 1")


async def test_a_dangerous_question_in_a_block_is_dangerous(
    lab: Lab, supply: LoopbackInstrument
) -> None:
    (unit,) = lab.pool.all()
    asked = replace(SUPPLY.commands["get_voltage"], name="read", scpi=("READ?",), is_dangerous=True)
    unit.profile = replace(SUPPLY, commands={**SUPPLY.commands, "read": asked})
    calm = Grant(tools=frozenset({"send_scpi"}), danger=False)
    session = VisaBench(lab, grant=calm).session(supply.address)
    with pytest.raises(Refused, match="dangerous"):
        await session.write(in_a_block("VOLT?", "READ?"))


async def test_who_may_not_send_scpi_opens_nothing(lab: Lab, supply: LoopbackInstrument) -> None:
    grant = Grant(tools=frozenset({"list_instruments"}), danger=True)
    with pytest.raises(Refused):
        VisaBench(lab, grant=grant).session(supply.address)


async def test_a_unit_is_found_by_every_name_of_it(bench: VisaBench, lab: Lab) -> None:
    (unit,) = lab.pool.all()
    for name in (unit.id, unit.address, unit.address.lower(), "A001"):
        assert bench.desk.find(name) is unit
    with pytest.raises(NotFound):
        bench.desk.find("nobody")


async def test_three_that_ask_at_once_never_get_anothers_answer(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    async def ask(program: str) -> list[Any]:
        session = bench.session(supply.address, program, timeout_s=20.0)
        return [
            (program, number)
            for number in range(200)
            if await query(session, f"ECHO? {program}{number}") != f"{program}{number}"
        ]

    assert await asyncio.gather(*map(ask, ("a", "b", "c"))) == [[], [], []]


@promise("visa.client-gone")
@pytest.mark.parametrize("is_relayed", [False, True])
async def test_the_end_of_a_connection_is_its_programs_end_unless_a_relay_has_others_on_it(
    bench: VisaBench, supply: LoopbackInstrument, is_relayed: bool
) -> None:
    connection = SimpleNamespace(on_closed=None)
    claims = Claims(
        iss="issuer",
        aud="edge:bench",
        sub="bob",
        exp=2**40,
        iat=0,
        edge_id="bench",
        tools_allow=frozenset({"send_scpi"}),
        danger_allow=False,
    )
    direct = Caller(route=Route.DIRECT, session_id="s", remote="127.0.0.1")
    caller = Caller(route=Route.RELAY, claims=claims) if is_relayed else direct
    session = bench.desk.open(supply.address, program="script.py", caller=caller)
    session.came_by(connection)
    assert (connection.on_closed is None) is is_relayed
    if connection.on_closed is not None:
        connection.on_closed()
    assert session.is_left is not is_relayed


@promise("answer.unasked")
async def test_a_program_that_reads_after_a_line_without_a_question_mark_gets_what_came(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address)
    supply.special["R1"] = lambda: b"R+1.25\r\n"
    for _ in range(3):
        await session.write(b"R1")
        assert await session.read(100) == (b"R+1.25\r\n", True)
    supply.special["print(t)"] = lambda: b"1\n2\n3\n"
    await session.write(b"print(t)")
    assert [await session.read(2) for _ in range(3)] == [
        (b"1\n", False),
        (b"2\n", False),
        (b"3\n", True),
    ]
    # Nobody is warned of what this program asked for.
    assert session.instrument.habits.warning == ""
    assert await query(session, "ECHO? 7") == "7"


@promise("answer.unasked")
async def test_an_answer_that_comes_late_is_waited_for_by_the_read(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address, timeout_s=5.0)
    await session.write(b"ARM")
    reading = asyncio.create_task(session.read(100))
    while session.instrument.actor is None or not session.instrument.actor.is_serving:
        await asyncio.sleep(0)
    await supply.say(b"1.5\n")
    assert await reading == (b"1.5\n", True)
    reading = asyncio.create_task(session.read(100))
    await supply.say(b"2.5\n")
    assert await reading == (b"2.5\n", True)
    # Nothing of it is recorded as sent.
    assert supply.received.count("ARM") == 1
    assert "*STB?" not in supply.received
    assert await query(session, "ECHO? 7") == "7"


@promise("answer.unasked")
async def test_a_read_after_a_line_that_is_not_answered_ends_at_its_limit(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address, timeout_s=0.2)
    await session.write(b"ARM")
    for _ in range(2):
        with pytest.raises(Failed) as late:
            await session.read(100)
        assert late.value.code is ErrorCode.TIMEOUT
    assert supply.connections == 1
    assert await query(session, "ECHO? 7") == "7"


@promise("answer.unasked")
async def test_a_stop_ends_a_read_that_waits_and_the_line_stays(
    bench: VisaBench, lab: Lab, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address, timeout_s=30.0)
    await session.write(b"ARM")
    reading = asyncio.create_task(session.read(100))
    unit = session.instrument
    while unit.actor is None or not unit.actor.is_serving:
        await asyncio.sleep(0)
    await unit.converse(
        lambda: lines_conversation(("OUTP OFF",), unit.connection),
        priority=Priority.SAFE,
        timeout_s=5,
        name="safe",
    )
    await supply.heard("OUTP OFF")
    with pytest.raises(Failed) as ended:
        await reading
    assert ended.value.code is ErrorCode.PREEMPTED
    assert supply.connections == 1


@promise("answer.unasked")
async def test_who_reads_on_gets_the_lines_that_come_later(
    bench: VisaBench, supply: LoopbackInstrument
) -> None:
    session = bench.session(supply.address, timeout_s=5.0)
    supply.special["FORM?"] = lambda: b"1\n"
    for is_waited_for in (True, False):
        await session.write(b"FORM?")
        assert await session.read(100) == (b"1\n", True)
        if is_waited_for:
            reading = asyncio.create_task(session.read(100))
            while session.instrument.actor is None or not session.instrument.actor.is_serving:
                await asyncio.sleep(0)
            await supply.say(b"2\n")
            assert await reading == (b"2\n", True)
        else:
            await supply.say(b"2\n")
            assert await session.read(100) == (b"2\n", True)
    # Nobody else's question is answered by them.
    await session.write(b"FORM?")
    assert await session.read(100) == (b"1\n", True)
    await supply.say(b"2\n")
    assert await query(session, "ECHO? 7") == "7"
