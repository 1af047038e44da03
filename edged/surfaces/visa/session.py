"""A VISA session: one program on one unit, bytes in and bytes out.

Each message that is whole passes the command path as an action of its own. A question is begun and
not waited for: its answer is fetched as soon as the line is its turn, and kept for the program,
which keeps the line in turn until it has read it (``Hold``). So an answer can reach nobody else,
and no answer that is late can be taken for the next one's.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any, Final

from edged.actions.action import Action, NamedAction, SendProgram
from edged.actions.caller import Caller
from edged.actions.cause import CALLER_CANCELLED, CALLER_GONE, Cause
from edged.actions.outcome import Outcome, Tell
from edged.clock import Clock
from edged.commands.leases import LeaseControl, LeaseStanding
from edged.commands.pending import Hold, Pending, settled
from edged.deadlines import Deadlines
from edged.errors import (
    Conflict,
    EdgedError,
    ErrorCode,
    Failed,
    Invalid,
    NeedsApproval,
    Refused,
)
from edged.http.connection import HttpConnection
from edged.instruments.instrument import Instrument
from edged.record import record
from edged.scpi.errors import ErrorQuestion, is_same_question
from edged.scpi.kinds import ErrorKind
from edged.scpi.program import Incoming, ProgramMessage
from edged.surfaces.visa.question import ProgramQuestion
from edged.surfaces.visa.status import MessagePart, Own, ProgramStatus, StatusBit, asks, steps_of

PERMISSION: Final = "send_scpi"
"""The tool as which all that such a program does is allowed or not."""
LOCK_S: Final = 60
"""What a lock lasts where it is not renewed."""
LONGEST_AT_ONCE: Final = 64 * 1024
"""Bytes of a piece that are taken apart without handing back to the loop."""
LOOK_AGAIN_S: Final = 0.1
"""Between two looks whether somebody else's lease has ended."""
CLEARED: Final = Cause("by a device clear of its program")
FOLLOWED: Final = Cause("by the next message of its program")
HELD_S: Final = 60.0
"""What an unread question holds where the program would wait for ever."""
LONGEST_S: Final = 600.0
"""What an answer may take, whatever the program's time limit."""

Begin = Callable[[Action, Tell], Outcome | Pending]


@record
class VisaWork:
    """What every session works with.

    Attributes:
        begin: begins an action on the command path, counted, and with its caller's leases kept.
        judge: raises why the command path would refuse an action; nothing is sent.
        new_id: makes action ids.
    """

    begin: Begin
    judge: Callable[[Action], object]
    leases: LeaseControl
    clock: Clock
    new_id: Callable[[], str]


class VisaSession:
    """One program on one unit. Made by ``VisaDesk.open``; lives on the event loop.

    What is refused is raised, and stands in the program's own error queue besides.

    Args:
        caller: who the program is.
        timeout_s: its time limit; ``None``: as the profile says; infinite: it would wait for ever.
        on_close: told once.

    Attributes:
        instrument: the unit.
        timeout_s: may be set anew at any time.
        is_left: the connection that it came by last is gone; its program may be, too.
    """

    def __init__(
        self,
        work: VisaWork,
        instrument: Instrument,
        caller: Caller,
        *,
        timeout_s: float | None = None,
        on_close: Callable[[VisaSession], None],
    ) -> None:
        self.instrument = instrument
        self.timeout_s = timeout_s
        self._on_answer: Callable[[], None] | None = None
        self._work = work
        self._caller = self._came_as = caller
        self._on_close = on_close
        self._incoming = Incoming()
        self._status = ProgramStatus()
        self._question: ProgramQuestion | None = None
        self._pending: Pending | None = None
        self._hold: Hold | None = None
        self._deadlines = Deadlines(asyncio.get_running_loop(), call)
        self._settled = asyncio.Event()
        # Messages are taken one after the other, whoever writes them.
        self._turn = asyncio.Lock()
        # A long piece is being taken apart, and others wait for it.
        self._arriving = asyncio.Lock()
        self._lease_id = ""
        self._answers_stb = True
        # The last question that went to the instrument.
        self._asked = ""
        # The last message, where it asks nothing or its answer was read: what comes then can be
        # read.
        self._written = ""
        # What came as if to answer it, and whether that may come later.
        self._came = b""
        self._may_answer = False
        self.is_closed = False
        self.is_left = False

    @property
    def caller(self) -> Caller:
        """Who it is, with the lease that its lock is."""
        return self._caller

    @property
    def has_lock(self) -> bool:
        """It has the unit to itself, as far as it knows."""
        return bool(self._lease_id)

    @property
    def is_answered(self) -> bool:
        """Some of an answer waits to be read."""
        return self._question is not None and self._question.has_answer

    @property
    def is_asking(self) -> bool:
        """A question of its own is under way."""
        return self._question is not None and not self._question.is_settled

    @property
    def has_asked(self) -> bool:
        """It has asked something, and neither read all of it nor heard why there is no answer."""
        return self._question is not None

    @property
    def may_be_answered(self) -> bool:
        """Its last message asks nothing, and nobody knows whether it is answered."""
        return self._may_answer and bool(self._written) and not self.has_asked

    def has_overheard(self) -> bool:
        """Whether that was answered by now; ``read`` gives it."""
        actor = self.instrument.actor
        return self.may_be_answered and actor is not None and actor.has_overheard(self._written)

    def come_as(self, caller: Caller) -> None:
        """Who it is by its latest request: what a token allows may have changed."""
        self.is_left = False
        if caller is not self._came_as:
            self._came_as = caller
            lease = self._lease_id or caller.lease
            self._caller = replace(caller, client=self._caller.client, lease=lease)

    def came_by(self, connection: HttpConnection) -> None:
        """A program has a connection for each unit, and is gone when that is.

        A relay's connections carry whichever program asks next: the end of one tells of none.
        """
        if self._came_as.claims is None:
            connection.on_closed = self.client_left

    def client_left(self) -> None:
        """The connection that it asked by is gone: an answer that nobody reads keeps no line."""
        self.is_left = True
        if self._hold is not None:
            self._hold.end()

    def peek(self, most: int) -> bytes | None:
        """All of an answer that is here and was not read yet; ``None`` where it is longer."""
        return None if self._question is None else self._question.peek(most)

    def taken(self) -> None:
        """What ``peek`` gave was read."""
        if self.is_answered:
            self._read_all()

    # What a program does

    async def write(self, data: bytes, *, is_end: bool = True) -> None:
        """Take bytes; each message that is whole is sent, in order.

        Returns once a message that sets something was carried out, or a question begun: its answer
        is for ``read``.

        Args:
            is_end: the transport's END comes after them.

        Raises:
            Invalid, Refused, Conflict: it was not sent; what follows it in ``data`` neither.
            Failed: it was sent, or was to be, and nobody knows what became of it.
        """
        left = self.begin_write(data, is_end=is_end)
        if left is not None:
            await left

    def begin_write(self, data: bytes, *, is_end: bool = True) -> Coroutine[Any, Any, None] | None:
        """``write`` as far as that waits for nothing: a question alone is begun here.

        Returns:
            What is left of it, to be awaited; ``None``: nothing.
        """
        self._check_open()
        if len(data) > LONGEST_AT_ONCE or self._arriving.locked():
            return self._take_long(data, is_end=is_end)
        try:
            taken = list(self._incoming.feed(data, is_end=is_end))
        except Invalid as broken:
            self._status.refuse(broken)
            raise
        if len(taken) == 1 and not self._turn.locked() and self._asks(taken[0]):
            steps = self._steps(taken[0])
            if not steps:
                self._drop_unread()
                self._ask(taken[0])
                return None
        return self._take_all(taken) if taken else None

    async def read(self, count: int, timeout_s: float | None = None) -> tuple[bytes, bool]:
        """The next bytes of the answer, as soon as it is there.

        Args:
            count: bytes at most.
            timeout_s: how long to wait for it; ``None``: as long as its session's time limit.

        Returns:
            The bytes, and whether they are its last.

        Raises:
            Failed: TIMEOUT, it is not there yet, or nothing was asked; or why there is none.
            EdgedError: what was asked was refused while it waited.
        """
        self._check_open()
        if self._question is None and self._written:
            self._listen(timeout_s)
        question = self._question
        if question is None:
            self._status.cut(-420)
            raise Failed("Nothing was asked, so there is nothing to read.", code=ErrorCode.TIMEOUT)
        wait_s = self._limits()[1] if timeout_s is None else timeout_s
        if not question.is_settled and not await self.wait_answered(wait_s):
            raise Failed(
                f"{self.instrument.called} has not answered within {wait_s:g} s.",
                code=ErrorCode.TIMEOUT,
                data={"instrument_id": self.instrument.id},
            )
        if question is not self._question:
            raise Failed("What was asked was given up meanwhile.", code=ErrorCode.CANCELLED)
        if question.error is not None:
            self._drop()
            raise question.error
        piece, is_last = question.take(count)
        if is_last:
            self._read_all()
        return piece, is_last

    def tell_within(self, wait_s: float, tell: Callable[[], None]) -> None:
        """Have ``tell`` called once what was asked is settled, or so long from now.

        Whoever was to be told before is told now: another has asked since.
        """
        self._tell()
        self._on_answer = tell
        self._deadlines.add(self._tell, wait_s)

    def _tell(self) -> None:
        tell, self._on_answer = self._on_answer, None
        if tell is not None:
            self._deadlines.discard(self._tell)
            tell()

    async def wait_answered(self, timeout_s: float) -> bool:
        """Wait until what was asked is settled; whether it is."""
        if math.isinf(timeout_s):
            await self._settled.wait()
        elif not self._settled.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._settled.wait()
        return self._settled.is_set()

    async def read_stb(self) -> int:
        """The status byte: the instrument's with what is this program's own; never raises.

        While a question of its own is under way the instrument is not asked: it would not answer.
        """
        own = self._status.byte
        if self._question is not None:
            return own | (StatusBit.MAV if self._question.has_answer else 0)
        return own | await self._ask_stb()

    async def clear(self) -> None:
        """Device clear: what was asked is given up, and what was not read forgotten."""
        self._incoming.clear()
        self._written = ""
        self._may_answer = False
        self._drop(CLEARED)

    async def trigger(self) -> None:
        """Group execute trigger; as ``write`` of ``*TRG``."""
        await self.write(b"*TRG")

    async def lock(self, timeout_s: float = 0.0, *, lease_id: str = "") -> str:
        """Have the unit to itself: a lease of a minute, to be renewed by ``renew_lock``.

        Args:
            timeout_s: how long to wait for somebody else to give it back.
            lease_id: of a lock of another program, which it shares: it is that one's to give back.

        Returns:
            The lease's id: its own, or that by which its caller has the unit already.

        Raises:
            Conflict: LEASED, or another's run is under way there.
            NotFound: UNKNOWN_LEASE, the lease that is presented has ended.
            Refused, Failed: as bench__reserve.
        """
        self._check_open()
        presented = lease_id or ("" if self._lease_id else self._caller.lease)
        if presented:
            caller = replace(self._caller, lease=presented)
            self._work.leases.check_presented(caller, self.instrument)
            self._caller = caller
        until = self._work.clock.monotonic() + timeout_s
        while True:
            standing = self._work.leases.standing(self._caller, self.instrument)
            if standing is LeaseStanding.OWN:
                return self._caller.lease
            is_last = self._work.clock.monotonic() >= until
            if standing is LeaseStanding.FREE or is_last:
                break
            await self._work.clock.sleep(LOOK_AGAIN_S)
        if self._lease_id:
            # It has ended, by its time or by its owner's word.
            self._forget_lock()
        asked = {
            "instruments": [self.instrument.id],
            "ttl_s": LOCK_S,
            "purpose": f"lock of {self._caller.client or 'a VISA program'}",
        }
        told = await self._ordered("bench__reserve", "visa.lock", asked)
        self._lease_id = told["lease_id"]
        self._caller = replace(self._caller, lease=self._lease_id)
        return self._lease_id

    async def renew_lock(self) -> None:
        """Let its lock last a minute from now.

        Raises:
            NotFound: UNKNOWN_LEASE, it has ended.
        """
        if self._lease_id:
            await self._ordered("bench__renew", "visa.renew", {"lease_id": self._lease_id})

    async def unlock(self) -> None:
        """Give it back; one that has ended already is given back, one of another is left."""
        if not self._lease_id:
            self._caller = replace(self._caller, lease=self._came_as.lease)
        else:
            lease_id = self._lease_id
            self._forget_lock()
            with contextlib.suppress(EdgedError):
                await self._ordered("bench__release", "visa.unlock", {"lease_id": lease_id})

    def hold_lock(self, lease_id: str) -> None:
        """Present a lease that its road holds for several programs; empty: none any more."""
        self._forget_lock()
        if lease_id:
            self._lease_id = lease_id
            self._caller = replace(self._caller, lease=lease_id)

    def interrupted(self) -> None:
        """Its road has carried an answer that, as it turns out, the program has never read."""
        self._status.cut(-410)

    async def close(self, cause: Cause = CALLER_GONE) -> None:
        """The program is gone: its question is given up, its lock given back; may be said twice."""
        if not self.is_closed:
            self.is_closed = True
            self._drop(cause)
            self._on_close(self)
            await self.unlock()

    # One message

    async def _take_long(self, data: bytes, *, is_end: bool) -> None:
        """Look for the messages of a long piece one by one: each may take a millisecond."""
        taken = []
        async with self._arriving:
            try:
                for message in self._incoming.feed(data, is_end=is_end):
                    taken.append(message)
                    await asyncio.sleep(0)
            except Invalid as broken:
                self._status.refuse(broken)
                raise
            except asyncio.CancelledError:
                self._incoming.clear()
                raise
        await self._take_all(taken)

    async def _take_all(self, messages: list[ProgramMessage]) -> None:
        async with self._turn:
            for number, message in enumerate(messages):
                if number:
                    await asyncio.sleep(0)  # Judging one may take some milliseconds.
                await self._take(message)

    def _steps(self, message: ProgramMessage) -> Sequence[MessagePart]:
        return steps_of(message, self.instrument.connection.errors.query)

    def _drop_unread(self) -> None:
        """IEEE 488.2, 6.3.2.3: who asks anew before it has read gets no old answer."""
        self._written = self._asked = ""
        self._may_answer = False
        if self._question is not None:
            is_unread = not self._question.is_over
            self._drop(FOLLOWED)
            if is_unread:
                self._status.cut(-410)

    async def _take(self, message: ProgramMessage) -> None:
        self._drop_unread()
        steps = self._steps(message)
        if steps:
            await self._take_apart(steps)
        elif self._asks(message):
            self._ask(message)
        else:
            await self._exchange(message)
            # Some instruments answer lines that ask nothing (TSP: ``print``).
            self._written = message.text
            if self._came:
                self._offer(self._came)

    def _ask(self, message: ProgramMessage) -> None:
        """Begin a question."""
        self._asked = message.text
        self._begin(partial(self._action, message))

    def _listen(self, timeout_s: float | None) -> None:
        """Begin to read what the last message is answered by, although it asks nothing."""
        limit_s = self._limits()[0] if timeout_s is None else min(timeout_s, LONGEST_S)

        def action(hold: Hold) -> SendProgram:
            # It is judged as a query that changes nothing, for nothing is sent.
            asked = self._action(_message(Own.STATUS.value), hold)
            told = {**asked.arguments, "scpi_command": f"(what {self._written} is answered by)"}
            return replace(asked, listens_to=self._written, timeout_s=limit_s, arguments=told)

        self._begin(action)

    def _begin(self, action: Callable[[Hold], SendProgram]) -> None:
        """Begin what is answered."""
        question = ProgramQuestion()

        def tell(outcome: Outcome | None) -> None:
            if question is self._question:
                self._pending = None
                self._conclude(question, outcome)

        self._hold = Hold()
        self._question = question
        self._settled.clear()
        begun = self._work.begin(action(self._hold), tell)
        if isinstance(begun, Pending):
            self._pending = begun
            self._deadlines.add(self._end_hold, self._limits()[1])
            return
        error = begun.error
        if error is not None and not isinstance(error, Failed):
            self._drop()
            self._status.refuse(error)
            raise error
        self._conclude(question, begun)

    def _conclude(self, question: ProgramQuestion, outcome: Outcome | None) -> None:
        if outcome is None:
            question.failed(Failed("What was asked was given up.", code=ErrorCode.CANCELLED))
        elif outcome.error is not None:
            self._status.refuse(outcome.error)
            question.failed(outcome.error)
        else:
            question.answered(_answer(outcome))
        if question.error is not None and self._hold is not None:
            self._hold.end()
        self._settled.set()
        self._tell()

    def _end_hold(self) -> None:
        if self._hold is not None:
            self._hold.end()

    async def _take_apart(self, steps: Sequence[MessagePart]) -> None:
        """A message that asks for something of its own."""
        await self._refuse_whole(steps)
        answers = []
        for step in steps:
            answer = await self._answer_own(step)
            if step.asks:
                answers.append(answer.rstrip(b"\r\n"))
        if answers:
            self._offer(b";".join(answers) + self._line_end())

    def _offer(self, answer: bytes) -> None:
        """An answer that is here already waits to be read."""
        self._question = ProgramQuestion()
        self._question.answered(answer)
        self._settled.set()
        self._tell()

    async def _refuse_whole(self, steps: Sequence[MessagePart]) -> None:
        """Raise why a later step would be refused, before the first is sent.

        A line has the class of its weakest unit. A person who must approve a step is asked there.
        """
        texts = [step.text for step in steps if step.own is not Own.CLEAR]
        if len(texts) < 2:
            return
        whole = _message(";".join(texts))
        try:
            self._work.judge(self._action(whole))
        except NeedsApproval:
            return
        except EdgedError:
            # By the path itself, so that the refusal is recorded.
            await self._exchange(whole)

    async def _answer_own(self, step: MessagePart) -> bytes:
        match step.own:
            case Own.CLEAR:
                self._status.clear()
                with contextlib.suppress(Refused, Conflict, Invalid):
                    # Where somebody else has it, its own queue is all that is cleared.
                    await self._exchange(_message(step.text), is_own=True)
                return b""
            case _ if self._asks_register(step):
                return str(self._status.events() | await self._ask_events(step.text)).encode()
            case Own.STATUS:
                return str(self._status.byte | await self._ask_stb()).encode()
            case ErrorQuestion() if self._status.count:
                return await self._answer_errors(step.own, step.text)
            case _:
                query = self.instrument.connection.errors.query
                # However the program spaces it: edged knows that its own spelling is answered.
                text = query if is_same_question(step.text, query) else step.text
                return await self._exchange(_message(text))

    async def _answer_errors(self, asked: ErrorQuestion, text: str) -> bytes:
        """Of a queue that is not empty: its own entries come first."""
        match asked:
            case ErrorQuestion.NEXT:
                return self._next_error(text).encode("latin-1", errors="replace")
            case ErrorQuestion.NEXT_CODE:
                return str(self._status.next().number).encode()
        count = self._status.count
        theirs = b""
        with contextlib.suppress(EdgedError):
            theirs = (await self._exchange(_message(text), is_own=True)).strip()
        if asked is ErrorQuestion.COUNT:
            return _sum(count, theirs)
        entries = self._status.all()
        is_bare = asked is ErrorQuestion.ALL_CODES
        told = [str(e.number if is_bare else e).encode() for e in entries]
        if theirs and theirs.lstrip(b"+-")[:1] != b"0":
            told.append(theirs)
        return b",".join(told)

    def _next_error(self, text: str) -> str:
        """The oldest entry, in the form of the question."""
        check = self.instrument.connection.errors
        entry = self._status.next()
        return entry.as_own(check) if is_same_question(text, check.query) else str(entry)

    def _asks_register(self, step: MessagePart) -> bool:
        """Whether a step asks for the instrument's event register, by ``*ESR?`` or its own name."""
        check = self.instrument.connection.errors
        is_named = check.kind is ErrorKind.ESR and is_same_question(step.text, check.query)
        return step.own is Own.EVENTS or is_named

    async def _ask_events(self, text: str) -> int:
        """The instrument's event register; not where somebody else has the instrument."""
        if self._work.leases.standing(self._caller, self.instrument) is LeaseStanding.ANOTHERS:
            return 0
        answer = await self._exchange(_message(text))
        return _number(answer)

    async def _ask_stb(self) -> int:
        """The instrument's status byte as it tells it; 0 where it does not."""
        if not self._answers_stb:
            return 0
        try:
            answer = await self._exchange(_message(Own.STATUS.value), is_own=True)
        except Failed as failed:
            # It may not know the question, and would be asked again and again.
            self._answers_stb = failed.code is not ErrorCode.TIMEOUT
            return 0
        except EdgedError:
            return 0
        return _number(answer) & ~int(StatusBit.MAV)

    async def _exchange(self, message: ProgramMessage, *, is_own: bool = False) -> bytes:
        """Send a message and wait for what comes of it.

        Args:
            is_own: the program did not ask for it in so many words, and is told of no refusal.
        """
        outcome = await settled(partial(self._work.begin, self._action(message)))
        error = outcome.error
        is_done = error is None
        self._came = outcome.data["came"] if is_done else b""
        self._may_answer = is_done and outcome.data["may_answer"]
        if error is None:
            self._status.complain(outcome.data["stale_errors"])
            return _answer(outcome)
        if isinstance(error, Failed) and error.code is ErrorCode.INSTRUMENT_ERROR:
            # It went out, and the instrument complains: that is for the program to ask.
            texts = error.data.get("errors", (error.message,))
            self._status.complain(texts, error.data.get("entries", ()))
            return b""
        if not is_own:
            self._status.refuse(error)
        raise error

    def _action(self, message: ProgramMessage, hold: Hold | None = None) -> SendProgram:
        return SendProgram(
            tool=PERMISSION,
            caller=self._caller,
            action_id=self._work.new_id(),
            arguments={"instrument_id": self.instrument.id, "scpi_command": message.text},
            instrument_id=self.instrument.id,
            scpi=message.text,
            data=message.data,
            timeout_s=self._limits()[0],
            hold=hold,
        )

    async def _ordered(self, operation: str, name: str, asked: dict[str, Any]) -> Any:
        """Have something of the bench done, allowed as all else is."""
        action = NamedAction(
            operation=operation,
            tool=name,
            plain_tool=PERMISSION,
            caller=self._caller,
            action_id=self._work.new_id(),
            arguments=asked,
        )
        outcome = await settled(partial(self._work.begin, action))
        if outcome.error is not None:
            raise outcome.error
        return outcome.data

    # Small things

    def _asks(self, message: ProgramMessage) -> bool:
        return asks(message, self.instrument.profile)

    def _limits(self) -> tuple[float, float]:
        """What an answer may take, and how long it holds the line unread, in seconds."""
        if self.timeout_s is None:
            return 0.0, self.instrument.connection.timeout_ms / 1000
        if math.isinf(self.timeout_s):
            return LONGEST_S, HELD_S
        return min(self.timeout_s, LONGEST_S), min(self.timeout_s, LONGEST_S)

    def _drop(self, cause: Cause = CALLER_CANCELLED) -> None:
        """The question is over: read, given up, or followed by another."""
        pending, self._pending, self._question = self._pending, None, None
        self._settled.clear()
        self._deadlines.discard(self._end_hold)
        if self._hold is not None:
            self._hold.end()
            self._hold = None
        if pending is not None:
            pending.cancel(cause)

    def _read_all(self) -> None:
        """The answer was read: who reads on gets what comes behind it, on a wire without ends."""
        self._drop()
        if not self.instrument.transport.has_messages:
            self._written = self._written or self._asked

    def _forget_lock(self) -> None:
        if self._caller.lease == self._lease_id:
            self._caller = replace(self._caller, lease="")
        self._lease_id = ""

    def _line_end(self) -> bytes:
        return (self.instrument.connection.read_termination or "\n").encode("ascii")

    def _check_open(self) -> None:
        if self.is_closed:
            raise Failed("This session is closed.", code=ErrorCode.UNKNOWN_SESSION)


def _answer(outcome: Outcome) -> bytes:
    block = outcome.data["block"]
    return b"" if block is None else bytes(block)


def _sum(count: int, theirs: bytes) -> bytes:
    """A count of errors with the instrument's own, in the form of that."""
    own = theirs.decode("latin-1")
    try:
        total = count + round(float(own))
    except (ValueError, OverflowError):
        return str(count).encode()
    return (f"{total:.5e}" if "e" in own.lower() else str(total)).encode()


def _message(text: str) -> ProgramMessage:
    return ProgramMessage(data=text.encode("latin-1"), text=text)


def _number(answer: bytes) -> int:
    """The number of a register; 0 where it is none."""
    digits = answer.strip().lstrip(b"+")
    return int(digits) & 0xFF if digits.isdigit() and len(digits) < 6 else 0
