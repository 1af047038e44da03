"""Text in, text out: what all simulated instruments share. Pure.

A model is a ``ModelSpec``: an identity, a dialect, a table from SCPI headers to functions, and a
state that ``build`` makes. ``SimulatedInstrument`` reads messages by that table and the common
commands below, keeps the error queue and the status registers, and lets slow commands take time by
yielding pauses. Nothing here knows a socket or reads a clock.

SCPI headers and message units: which command a received text means.

A header is written as programming guides write it: capitals are the short form, square brackets
what may be left out, ``<n>`` a numeric suffix, a question mark at the end a query, e.g.
``[:SOURce<n>]:VOLTage[:LEVel][:IMMediate][:AMPLitude]?``. Pure: text in, values out.

One received command with its arguments, as a model's function gets it.

The typed readers raise ``ScpiError`` with the number that SCPI gives the mistake; the machinery in
``scpi`` puts it into the instrument's error queue, and the command has done nothing. Pure.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from edged.record import record
from edged_sim.physics import World

T_co = TypeVar("T_co", covariant=True)

_NODE: Final = re.compile(r"\[?:?([*A-Za-z0-9_][A-Za-z0-9_]*)(<n>)?\]?")
_CACHED_HEADERS: Final = 1024
"""Different spellings remembered for each vocabulary; more than any client uses."""

_OPENERS: Final = {"(": ")", '"': '"', "'": "'"}


class HeaderError(ValueError):
    """A header in one of our own tables cannot be read; a mistake in a model file."""


@record(kw_only=False)
class _Node:
    short: str
    long: str
    has_suffix: bool
    is_optional: bool

    def match(self, word: str) -> tuple[bool, int | None]:
        """Whether ``word`` (upper case) names this node, and its numeric suffix."""
        if word in (self.short, self.long):
            return True, None
        if not self.has_suffix:
            return False, None
        stem = word.rstrip("0123456789")
        if stem != word and stem in (self.short, self.long):
            return True, int(word[len(stem) :][:9])
        return False, None


class HeaderPattern:
    """One header of a programming guide, ready to be compared with what was received."""

    __slots__ = ("_nodes", "is_query", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_query = text.endswith("?")
        self._nodes = tuple(_nodes(text.removesuffix("?")))

    def match(self, words: tuple[str, ...]) -> tuple[int | None, ...] | None:
        """The suffixes, one for each ``<n>`` in order (None where left out), or None: no match."""
        return self._match(words, 0, 0)

    def _match(
        self, words: tuple[str, ...], at_word: int, at_node: int
    ) -> tuple[int | None, ...] | None:
        if at_node == len(self._nodes):
            return () if at_word == len(words) else None
        node = self._nodes[at_node]
        own: tuple[int | None, ...] = ()
        if at_word < len(words):
            is_match, suffix = node.match(words[at_word])
            if is_match:
                rest = self._match(words, at_word + 1, at_node + 1)
                if rest is not None:
                    own = (suffix,) if node.has_suffix else ()
                    return own + rest
        if not node.is_optional:
            return None
        rest = self._match(words, at_word, at_node + 1)
        if rest is None:
            return None
        own = (None,) if node.has_suffix else ()
        return own + rest


def _nodes(text: str) -> Iterator[_Node]:
    position = 0
    while position < len(text):
        found = _NODE.match(text, position)
        if found is None or found.start(1) == found.end(1):
            raise HeaderError(f"The header {text!r} cannot be read at character {position}.")
        word = found[1]
        lower = next((i for i, letter in enumerate(word) if letter.islower()), len(word))
        yield _Node(
            short=word[:lower].upper(),
            long=word.upper(),
            has_suffix=found[2] is not None,
            is_optional=found[0].startswith("["),
        )
        position = found.end()


@record(kw_only=False)
class HeaderMatch(Generic[T_co]):
    """What a header meant: the entry of the table and the numeric suffixes."""

    entry: T_co
    suffixes: tuple[int | None, ...]


class Vocabulary(Generic[T_co]):
    """A table from headers to entries that is asked by received headers.

    Where two headers fit, the first of the table wins. Answers are remembered, because a client
    sends the same few headers again and again.
    """

    def __init__(self, table: Mapping[str, T_co]) -> None:
        self._patterns = tuple((HeaderPattern(text), entry) for text, entry in table.items())
        self._known: dict[str, HeaderMatch[T_co] | None] = {}

    def find(self, header: str) -> HeaderMatch[T_co] | None:
        """The entry that ``header`` (as received, with its question mark) means."""
        if header in self._known:
            return self._known[header]
        if len(self._known) >= _CACHED_HEADERS:
            self._known.clear()
        found = self._search(header)
        self._known[header] = found
        return found

    def headers(self) -> tuple[str, ...]:
        """Every header of the table, as it is written there."""
        return tuple(pattern.text for pattern, _ in self._patterns)

    def _search(self, header: str) -> HeaderMatch[T_co] | None:
        is_query = header.endswith("?")
        words = tuple(header.removesuffix("?").removeprefix(":").upper().split(":"))
        for pattern, entry in self._patterns:
            if pattern.is_query is is_query:
                suffixes = pattern.match(words)
                if suffixes is not None:
                    return HeaderMatch(entry, suffixes)
        return None


def split_units(message: str) -> Iterator[tuple[str, str, str]]:
    """The program message units of one line: (header, header with the path before it, arguments).

    A header without a leading colon is also offered below the path of the unit before it, as
    SCPI's compound messages have it; the two are the same for the first unit and common commands.
    """
    path = ""
    for unit in split_list(message, ";"):
        header, _, arguments = unit.partition(" ") if " " in unit else unit.partition("\t")
        if not header:
            continue
        is_rooted = header.startswith((":", "*"))
        under_path = header if is_rooted or not path else f"{path}:{header}"
        yield header, under_path, arguments.strip()
        if not header.startswith("*"):
            path = under_path.removesuffix("?").rpartition(":")[0]


def split_list(text: str, separator: str) -> list[str]:
    """``text`` cut at each separator that is not in quotes or parentheses; stripped, in order."""
    parts: list[str] = []
    start = 0
    closer = ""
    for position, letter in enumerate(text):
        if closer:
            closer = "" if letter == closer else closer
        elif letter in _OPENERS:
            closer = _OPENERS[letter]
        elif letter == separator:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts


T = TypeVar("T")

_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)")
_MULTIPLIERS: Final[Mapping[str, float]] = {
    "": 1.0,
    "N": 1e-9,
    "U": 1e-6,
    "M": 1e-3,
    "K": 1e3,
    "MA": 1e6,
}
"""SCPI's multipliers: letters mean the same in both cases, and M is milli but before HZ and OHM."""

_MEGA_UNITS: Final = frozenset({"HZ", "OHM"})
_MOST_CHANNELS: Final = 64


class ScpiError(Exception):
    """What an instrument puts into its error queue; ``text`` only where it is not the usual one."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


@record
class SimCall:
    """A command on its way to a model.

    ``suffixes`` has one entry for each ``<n>`` of the header; ``now`` is monotonic seconds;
    ``random`` is the instrument's own generator (noise).
    """

    header: str
    suffixes: tuple[int | None, ...]
    arguments: tuple[str, ...]
    now: float
    random: Random

    def suffix(self, place: int = 0, *, default: int = 1, highest: int) -> int:
        """The numeric suffix at ``place``; -114 outside 1..highest."""
        given = self.suffixes[place]
        number = default if given is None else given
        if not 1 <= number <= highest:
            raise ScpiError(-114)
        return number

    def text(self, place: int) -> str:
        """The argument at ``place`` without its quotes; -109 where there is none."""
        if place >= len(self.arguments) or not self.arguments[place]:
            raise ScpiError(-109)
        raw = self.arguments[place]
        quote = raw[0]
        if quote in "\"'" and len(raw) > 1 and raw[-1] == quote:
            return raw[1:-1].replace(quote * 2, quote)
        return raw

    def has(self, place: int) -> bool:
        """Whether there is an argument at ``place``."""
        return place < len(self.arguments) and bool(self.arguments[place])

    def number(
        self,
        place: int,
        *,
        lowest: float,
        highest: float,
        default: float | None = None,
        unit: str = "",
    ) -> float:
        """A number with optional multiplier and unit, or MIN, MAX, DEF.

        Raises:
            ScpiError: -104 no number, -131 a foreign unit, -222 out of range.
        """
        raw = self.text(place)
        match raw.upper():
            case "MIN" | "MINIMUM":
                return lowest
            case "MAX" | "MAXIMUM":
                return highest
            case "DEF" | "DEFAULT" if default is not None:
                return default
        value = _to_number(raw, unit.upper())
        if not lowest <= value <= highest:
            raise ScpiError(-222)
        return value

    def whole(self, place: int, *, lowest: int, highest: int) -> int:
        """A whole number; others are rounded, as instruments do."""
        return round(self.number(place, lowest=lowest, highest=highest))

    def boolean(self, place: int) -> bool:
        """ON, OFF or a number (0 is off); -224 for anything else."""
        raw = self.text(place).upper()
        if raw in ("ON", "OFF"):
            return raw == "ON"
        if re.fullmatch(r"[+-]?\d+(\.\d*)?", raw):
            return float(raw) != 0
        raise ScpiError(-224)

    def choice(self, place: int, options: Mapping[str, T]) -> T:
        """The value of one of ``options`` (names as guides write them, ``POSitive``); -224 else."""
        raw = self.text(place).upper()
        for name, value in options.items():
            short = "".join(letter for letter in name if not letter.islower())
            if raw in (name.upper(), short):
                return value
        raise ScpiError(-224)

    def channels(self, place: int, *, highest: int) -> tuple[int, ...]:
        """The channels of a list such as ``(@1,3)`` or ``(@1:3)``; -222 outside 1..highest."""
        found = re.fullmatch(r"\(@([\d,:\s]+)\)", self.text(place))
        if found is None:
            raise ScpiError(-104)
        numbers: list[int] = []
        for part in found[1].split(","):
            first, _, last = part.partition(":")
            if not first.strip().isdigit() or not (last.strip() or "0").isdigit():
                raise ScpiError(-104)
            start = int(first)
            end = int(last) if last.strip() else start
            if not 1 <= start <= highest or not 1 <= end <= highest:
                raise ScpiError(-222)
            numbers.extend(range(start, end + 1)[:_MOST_CHANNELS])
        return tuple(numbers)


def _to_number(raw: str, unit: str) -> float:
    found = _NUMBER.fullmatch(raw.strip())
    if found is None:
        raise ScpiError(-104)
    given = found[2].upper()
    value = float(found[1])
    if given:
        prefix = given.removesuffix(unit) if unit and given.endswith(unit) else given
        if unit in _MEGA_UNITS and prefix == "M" and given != prefix:
            prefix = "MA"
        if prefix not in _MULTIPLIERS:
            raise ScpiError(-131)
        value *= _MULTIPLIERS[prefix]
    if not math.isfinite(value):
        raise ScpiError(-222)
    return value


def nearest_at_least(value: float, steps: Sequence[float]) -> float:
    """The smallest of the rising ``steps`` that is not below ``value``; the last if none is."""
    return next((step for step in steps if value <= step * (1 + 1e-9)), steps[-1])


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


@record(kw_only=False)
class Later:
    """An answer that takes time: after ``seconds``, ``finish(now)`` gives it."""

    seconds: float
    finish: Callable[[float], str | bytes | None]


Answer = str | bytes | None | Later


@record
class Dialect:
    """How one maker speaks where makers differ.

    ``error_format`` gets ``code`` and ``text``; empty means that there is no ``SYST:ERR?``.
    ``latency_s`` passes before each answer, ``deaf_s`` is how long after a write the instrument
    loses what comes (0: it never does). ``message_end`` ends what it is told, ``serial_end`` its
    answers on a serial line where that differs from ``line_end``. ``banner`` is said
    to whoever opens a line that carries bytes.
    """

    error_format: str = '{code:+d},"{text}"'
    error_texts: Mapping[int, str] = field(default_factory=dict)
    line_end: bytes = b"\n"
    message_end: bytes = b"\n"
    serial_end: bytes = b""
    latency_s: float = 0.0
    deaf_s: float = 0.0
    banner: bytes = b""


class Status:
    """Error queue and event status register of one instrument."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._errors: deque[tuple[int, str]] = deque()
        self.events = _POWER_ON
        self.event_mask = 0
        self.service_mask = 0
        self.pushed = 0  # errors so far, read or not

    def push(self, code: int, text: str = "") -> None:
        """Note an error, as the instrument itself words it unless ``text`` is given."""
        self.events |= _event_bit(code)
        self.pushed += 1
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


@record
class SimUnit:
    """What a model is built from: one unit with its name, wires, noise and status."""

    name: str
    serial: str
    world: World
    random: Random
    status: Status


class ModelState(Protocol):
    """What every model's state can do."""

    def reset(self, now: float) -> None:
        """What ``*RST`` does."""
        ...

    def describe(self, now: float) -> Mapping[str, Any]:
        """Set-points and outputs, JSON-ready, for the control port."""
        ...


S = TypeVar("S", bound=ModelState)
Function = Callable[[S, SimCall], Answer]


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Generic[S]):
    """One kind of instrument, as its file in ``models`` declares it.

    ``idn`` holds ``{serial}``; ``serial`` holds ``{number}`` (with a number format), where copies
    of a model differ; ``first_number`` is that of the first copy. ``on_message`` is told of every
    message before it is done, ``on_understood`` of every one in which nothing was wrong after it.
    """

    idn: str
    serial: str
    first_number: int
    dialect: Dialect
    vocabulary: Vocabulary[Function[S]]
    build: Callable[[SimUnit], S]
    on_message: Callable[[S, float], None] | None = None
    on_understood: Callable[[S, float], None] | None = None


class SimulatedInstrument(Generic[S]):
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
            SimUnit(name=name, serial=serial, world=world, random=random, status=self.status)
        )
        self._spec = spec
        self._vocabulary = spec.vocabulary
        self._deaf_until = 0.0

    def execute(self, message: bytes, now: float) -> Generator[float, float, bytes | None]:
        """Do what one message (without its line end) says.

        Yields seconds that must pass and is sent the monotonic time after them; returns the whole
        answer with its line end, or None where nothing is answered.
        """
        if now < self._deaf_until:
            return None
        if self._spec.on_message is not None:
            self._spec.on_message(self.state, now)
        answers: list[bytes] = []
        known = self.status.pushed
        for header, under_path, arguments in split_units(message.decode("latin-1").strip()):
            outcome = self._perform(header, under_path, arguments, now)
            if isinstance(outcome, Later):
                now = yield outcome.seconds
                outcome = self._finish(outcome, now)
            if outcome is not None:
                answers.append(outcome if isinstance(outcome, bytes) else outcome.encode("latin-1"))
        if self._spec.on_understood is not None and self.status.pushed == known:
            self._spec.on_understood(self.state, now)
        if not answers:
            self._deaf_until = now + self.dialect.deaf_s
            return None
        if self.latency_s:
            yield self.latency_s
        return b";".join(answers) + self.dialect.line_end

    def reset(self, now: float) -> None:
        """What ``*RST`` does."""
        self.state.reset(now)

    def power_cycle(self, now: float) -> None:
        """Switched off and on again: what is not kept is as it was delivered."""
        self.state.reset(now)
        self.status.clear()
        self.status.events = _POWER_ON

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
            call = SimCall(
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


def below(header: str, which: str, words: Mapping[str, Callable[..., Answer]]) -> dict[str, Any]:
    """The words below one of several like headers; their functions are told ``which`` it was."""

    def told(function: Callable[..., Answer]) -> Callable[[Any, SimCall], Answer]:
        return lambda unit, call: function(unit, call, which)

    return {header + word: told(function) for word, function in words.items()}


def flag(is_true: bool) -> str:
    """A boolean as SCPI answers it."""
    return str(int(is_true))


def _state_itself(unit: Any, *_call: Any) -> Any:
    return unit


@record
class Settings:
    """Rows of a vocabulary for values that a unit only keeps: a command and its query for each.

    Each row names the attribute that keeps its value. A dictionary there keeps a value for each of
    several like headers (``below``).

    Attributes:
        of: finds what has the attribute, from the state, the call and, ``below`` another header,
            which one it was.
        then: done once a value is kept, with the state, the call and what has the attribute.
        say: a number with a fraction as it is answered.
        answer: the whole answer, from the state, the call and the text of the value.
    """

    of: Callable[..., Any] = _state_itself
    then: Callable[[Any, SimCall, Any], object] = lambda _unit, _call, _owner: None
    say: Callable[[Any], str] = str
    answer: Callable[[Any, SimCall, str], str] = lambda _unit, _call, text: text

    def switch(self, header: str, attribute: str) -> dict[str, Any]:
        """ON or OFF."""
        return self.row(header, attribute, lambda _, call: call.boolean(0), flag)

    def whole(self, header: str, attribute: str, lowest: int, highest: int) -> dict[str, Any]:
        """A whole number within bounds."""
        return self.row(
            header, attribute, lambda _, call: call.whole(0, lowest=lowest, highest=highest), str
        )

    def choice(
        self, header: str, attribute: str, options: Mapping[str, Any] | Sequence[str]
    ) -> dict[str, Any]:
        """The value of one of the options; options without values are their own."""
        named = options if isinstance(options, Mapping) else {name: name for name in options}
        return self.row(header, attribute, lambda _, call: call.choice(0, named), str)

    def number(
        self,
        header: str,
        attribute: str,
        lowest: float,
        highest: float,
        *,
        default: float | None = None,
        unit: str = "",
    ) -> dict[str, Any]:
        """A number within bounds, in ``unit``."""

        def read(_: Any, call: SimCall) -> float:
            return call.number(0, lowest=lowest, highest=highest, default=default, unit=unit)

        return self.row(header, attribute, read)

    def row(
        self,
        header: str,
        attribute: str,
        read: Callable[[Any, SimCall], Any],
        say: Callable[[Any], str] | None = None,
    ) -> dict[str, Any]:
        """Whatever ``read`` makes of the arguments, answered by ``say``."""
        show = say or self.say

        def keep(unit: Any, call: SimCall, *which: str) -> None:
            value = read(unit, call)
            owner = self.of(unit, call, *which)
            kept = getattr(owner, attribute)
            if isinstance(kept, dict):
                kept[which[0]] = value
            else:
                setattr(owner, attribute, value)
            self.then(unit, call, owner)

        def ask(unit: Any, call: SimCall, *which: str) -> str:
            kept = getattr(self.of(unit, call, *which), attribute)
            return self.answer(unit, call, show(kept[which[0]] if isinstance(kept, dict) else kept))

        return {header: keep, f"{header}?": ask}


OWN: Final = Settings()
"""Of the unit's state itself."""


def block(data: bytes) -> bytes:
    """A definite-length block with nine digits, as scopes send them."""
    return b"#9%09d" % len(data) + data


Simulated = SimulatedInstrument[Any]


def _identify(instrument: Simulated, _call: SimCall) -> str:
    return instrument.idn


def _reset(instrument: Simulated, call: SimCall) -> None:
    instrument.reset(call.now)


def _clear_status(instrument: Simulated, _call: SimCall) -> None:
    instrument.status.clear()


def _next_error(instrument: Simulated, _call: SimCall) -> str:
    if not instrument.dialect.error_format:
        raise ScpiError(-113)
    return instrument.status.pop()


def _event_status(instrument: Simulated, _call: SimCall) -> str:
    events, instrument.status.events = instrument.status.events, 0
    return str(events)


def _operation_complete(instrument: Simulated, _call: SimCall) -> None:
    instrument.status.events |= _OPERATION_COMPLETE


def _set_event_mask(instrument: Simulated, call: SimCall) -> None:
    instrument.status.event_mask = call.whole(0, lowest=0, highest=255)


def _set_service_mask(instrument: Simulated, call: SimCall) -> None:
    instrument.status.service_mask = call.whole(0, lowest=0, highest=255)


def _echo(_instrument: Simulated, call: SimCall) -> str:
    return call.text(0)


def _delay(_instrument: Simulated, call: SimCall) -> Later:
    seconds = call.number(0, lowest=0, highest=LONGEST_DELAY_S)
    answer = call.text(1) if call.has(1) else call.text(0)
    return Later(seconds, lambda _now: answer)


COMMON: Final[Vocabulary[Callable[[Simulated, SimCall], Answer]]] = Vocabulary(
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
