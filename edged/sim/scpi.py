"""Text in, text out: what all pretended instruments share. Pure.

A model is a ``ModelSpec``: an identity, a dialect, a table from SCPI headers to functions, and a
state that ``build`` makes. ``PretendedInstrument`` reads messages by that table and the common
commands below, keeps the error queue and the status registers, and lets slow commands take time by
yielding pauses. Nothing here knows a socket or reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from edged.sim.call import Call, ScpiError
from edged.sim.headers import Vocabulary, split_list, split_units
from edged.sim.physics import World

__all__ = [
    "Answer",
    "Dialect",
    "Later",
    "ModelSpec",
    "PretendedInstrument",
    "State",
    "Status",
    "Unit",
    "block",
]

MOST_ERRORS: Final = 20
"""Entries of an error queue; the last one then says that there were more."""
LONGEST_DELAY_S: Final = 3600.0

ERROR_TEXTS: Final[Mapping[int, str]] = {
    0: "No error",
    -102: "Syntax error",
    -104: "Data type error",
    -108: "Parameter not allowed",
    -109: "Missing parameter",
    -113: "Undefined header",
    -114: "Header suffix out of range",
    -131: "Invalid suffix",
    -213: "Init ignored",
    -214: "Trigger deadlock",
    -221: "Settings conflict",
    -222: "Data out of range",
    -224: "Illegal parameter value",
    -230: "Data corrupt or stale",
    -350: "Queue overflow",
    -363: "Input buffer overrun",
}

_POWER_ON: Final = 0x80
_OPERATION_COMPLETE: Final = 0x01


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that takes time: after ``seconds``, ``finish(now)`` gives it."""

    seconds: float
    finish: Callable[[float], str | bytes | None]


Answer = str | bytes | None | Later


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one maker speaks where makers differ.

    ``error_format`` gets ``code`` and ``text``; empty means that there is no ``SYST:ERR?``.
    ``latency_s`` passes before each answer, ``deaf_s`` is how long after a write the instrument
    loses what comes (0: it never does).
    """

    error_format: str = '{code:+d},"{text}"'
    error_texts: Mapping[int, str] = field(default_factory=dict)
    line_end: bytes = b"\n"
    latency_s: float = 0.0
    deaf_s: float = 0.0


class Status:
    """Error queue and event status register of one instrument."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._errors: deque[tuple[int, str]] = deque()
        self.events = _POWER_ON
        self.event_mask = 0
        self.service_mask = 0

    def push(self, code: int, text: str = "") -> None:
        """Note an error, as the instrument itself words it unless ``text`` is given."""
        self.events |= _event_bit(code)
        if len(self._errors) >= MOST_ERRORS:
            self._errors[-1] = (-350, self._wording(-350))
        else:
            self._errors.append((code, text or self._wording(code)))

    def pop(self) -> str:
        """The oldest error in the maker's format, or the one that says that there is none."""
        code, text = self._errors.popleft() if self._errors else (0, self._wording(0))
        return self._dialect.error_format.format(code=code, text=text)

    def drain(self) -> tuple[int, ...]:
        """Every waiting error's number, for makers that have other ways than a queue to tell."""
        codes = tuple(code for code, _ in self._errors)
        self._errors.clear()
        return codes

    def clear(self) -> None:
        """What ``*CLS`` does."""
        self._errors.clear()
        self.events = 0

    def count(self) -> int:
        """Errors waiting to be read."""
        return len(self._errors)

    def byte(self) -> int:
        """The status byte (``*STB?``)."""
        summary = 0x20 if self.events & self.event_mask else 0
        return summary | (0x04 if self._errors else 0)

    def _wording(self, code: int) -> str:
        return self._dialect.error_texts.get(code) or ERROR_TEXTS.get(code, "Device error")


def _event_bit(code: int) -> int:
    families = ((-500, -400, 0x04), (-400, -300, 0x08), (-300, -200, 0x10), (-200, -100, 0x20))
    return next((bit for low, high, bit in families if low < code <= high), 0x08)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a model is built from: one unit with its name, wires, noise and status."""

    name: str
    serial: str
    world: World
    random: Random
    status: Status


class State(Protocol):
    """What every model's state can do."""

    def reset(self, now: float) -> None:
        """What ``*RST`` does."""
        ...

    def describe(self, now: float) -> Mapping[str, Any]:
        """Set-points and outputs, JSON-ready, for the control port."""
        ...


S = TypeVar("S", bound=State)
Function = Callable[[S, Call], Answer]


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Generic[S]):
    """One kind of instrument, as its file in ``models`` declares it.

    ``idn`` holds ``{serial}``; ``serial`` holds ``{number}`` (with a number format), where copies
    of a model differ; ``first_number`` is that of the first copy.
    """

    idn: str
    serial: str
    first_number: int
    dialect: Dialect
    vocabulary: Vocabulary[Function[S]]
    build: Callable[[Unit], S]


class PretendedInstrument(Generic[S]):
    """One unit: takes messages, gives answers, keeps status and state."""

    def __init__(
        self, spec: ModelSpec[S], *, name: str, serial: str, world: World, random: Random
    ) -> None:
        self.name = name
        self.serial = serial
        self.idn = spec.idn.format(serial=serial)
        self.dialect = spec.dialect
        self.latency_s = spec.dialect.latency_s
        self.random = random
        self.status = Status(spec.dialect)
        self.state = spec.build(
            Unit(name=name, serial=serial, world=world, random=random, status=self.status)
        )
        self._vocabulary = spec.vocabulary
        self._deaf_until = 0.0

    def execute(self, message: bytes, now: float) -> Generator[float, float, bytes | None]:
        """Do what one message (without its line end) says.

        Yields seconds that must pass and is sent the monotonic time after them; returns the whole
        answer with its line end, or None where nothing is answered.
        """
        if now < self._deaf_until:
            return None
        answers: list[bytes] = []
        for header, under_path, arguments in split_units(message.decode("latin-1").strip()):
            outcome = self._perform(header, under_path, arguments, now)
            if isinstance(outcome, Later):
                now = yield outcome.seconds
                outcome = self._finish(outcome, now)
            if outcome is not None:
                answers.append(outcome if isinstance(outcome, bytes) else outcome.encode("latin-1"))
        if not answers:
            self._deaf_until = now + self.dialect.deaf_s
            return None
        if self.latency_s:
            yield self.latency_s
        return b";".join(answers) + self.dialect.line_end

    def reset(self, now: float) -> None:
        """What ``*RST`` does."""
        self.state.reset(now)

    def _finish(self, later: Later, now: float) -> str | bytes | None:
        try:
            return later.finish(now)
        except ScpiError as error:
            self.status.push(error.code, error.text)
            return None

    def _perform(self, header: str, under_path: str, arguments: str, now: float) -> Answer:
        for candidate in dict.fromkeys((under_path, header)):
            found = self._vocabulary.find(candidate)
            common = None if found else COMMON.find(candidate)
            suffixes = found.suffixes if found else common.suffixes if common else ()
            call = Call(
                header=candidate,
                suffixes=suffixes,
                arguments=tuple(split_list(arguments, ",")) if arguments else (),
                now=now,
                random=self.random,
            )
            try:
                if found:
                    return found.entry(self.state, call)
                if common:
                    return common.entry(self, call)
            except ScpiError as error:
                self.status.push(error.code, error.text)
                return None
        self.status.push(-113)
        return None


def block(data: bytes) -> bytes:
    """A definite-length block with nine digits, as scopes send them."""
    return b"#9%09d" % len(data) + data


Pretended = PretendedInstrument[Any]


def _identify(instrument: Pretended, _call: Call) -> str:
    return instrument.idn


def _reset(instrument: Pretended, call: Call) -> None:
    instrument.reset(call.now)


def _clear_status(instrument: Pretended, _call: Call) -> None:
    instrument.status.clear()


def _next_error(instrument: Pretended, _call: Call) -> str:
    if not instrument.dialect.error_format:
        raise ScpiError(-113)
    return instrument.status.pop()


def _event_status(instrument: Pretended, _call: Call) -> str:
    events, instrument.status.events = instrument.status.events, 0
    return str(events)


def _operation_complete(instrument: Pretended, _call: Call) -> None:
    instrument.status.events |= _OPERATION_COMPLETE


def _set_event_mask(instrument: Pretended, call: Call) -> None:
    instrument.status.event_mask = call.whole(0, lowest=0, highest=255)


def _set_service_mask(instrument: Pretended, call: Call) -> None:
    instrument.status.service_mask = call.whole(0, lowest=0, highest=255)


def _echo(_instrument: Pretended, call: Call) -> str:
    return call.text(0)


def _delay(_instrument: Pretended, call: Call) -> Later:
    seconds = call.number(0, lowest=0, highest=LONGEST_DELAY_S)
    answer = call.text(1) if call.has(1) else call.text(0)
    return Later(seconds, lambda _now: answer)


COMMON: Final[Vocabulary[Callable[[Pretended, Call], Answer]]] = Vocabulary(
    {
        "*IDN?": _identify,
        "*RST": _reset,
        "*CLS": _clear_status,
        "*OPC": _operation_complete,
        "*OPC?": lambda _instrument, _call: "1",
        "*WAI": lambda _instrument, _call: None,
        "*TST?": lambda _instrument, _call: "0",
        "*ESR?": _event_status,
        "*ESE": _set_event_mask,
        "*ESE?": lambda instrument, _call: str(instrument.status.event_mask),
        "*SRE": _set_service_mask,
        "*SRE?": lambda instrument, _call: str(instrument.status.service_mask),
        "*STB?": lambda instrument, _call: str(instrument.status.byte()),
        ":SYSTem:ERRor[:NEXT]?": _next_error,
        # Of no real instrument: a nonce against stale answers, and a query that takes its time.
        ":DIAGnostic:ECHO?": _echo,
        ":DIAGnostic:DELAY?": _delay,
    }
)
