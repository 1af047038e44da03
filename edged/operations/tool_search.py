"""Finding a tool by what it is for, among all there are, listed or not."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from edged.actions.action import MemoryAction, NamedAction
from edged.actions.outcome import Done
from edged.actions.tool import DRY_RUN, LEASE, Tool
from edged.commands.operation import Operation, Rows, bind
from edged.commands.static_tool import (
    INSTRUMENT_ID,
    READ,
    StaticTool,
    fitting,
    limit_of,
    parameters_of,
    text_of,
)
from edged.commands.target import Target
from edged.instruments.pool import InstrumentPool
from edged.record import record

DEFAULT_LIMIT: Final = 8
MOST: Final = 50
_WORD: Final = re.compile(r"[a-z0-9]{2,}|[0-9xyz]")
_OWNED: Final = re.compile(r"['\u2019](s|re|m|ll|ve|d|t)\b")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
NAME_WEIGHT: Final = 4.0
TITLE_WEIGHT: Final = 2.0
TEXT_WEIGHT: Final = 1.0
PREFIX_SHARE: Final = 0.6
"""Of what the whole word would count: volt finds voltage."""
FEWEST_OF_PREFIX: Final = 4
LEAST_SINGULAR: Final = 3
MOST_OF_AMOUNT: Final = 3
"""Digits: models have more."""
STEM_SHARE: Final = 0.9
"""The same of a word in another form: measuring finds measure."""
SAME_SHARE: Final = 0.8
"""Of what the word itself would count: see SAME."""
LEAST_FOUND: Final = 0.5
"""Of the words that say what is meant: with fewer, it is something else that is meant."""
ENDING: Final = re.compile(r"(?<=.{4})(ing|ment|ed|er|ly|e)$")
SMALL_SHARE: Final = 0.5
"""What a word of the query that stands in a name counts besides, whatever it is."""
SAME: Final[Mapping[str, str]] = {
    "activate": "output on",
    "amp": "current amplitude",
    "ampere": "current",
    "average": "mean series",
    "avg": "mean series",
    "base": "scale",
    "before": "history",
    "bode": "response",
    "bright": "power",
    "brightness": "power",
    "capacitor": "capacitance",
    "celsius": "temperature",
    "chart": "plot",
    "coil": "inductance",
    "cold": "temperature",
    "command": "capabilities",
    "connected": "instrument",
    "consume": "current power",
    "consumption": "current power",
    "cool": "temperature",
    "curve": "iv",
    "cut": "off",
    "deactivate": "output off",
    "degree": "temperature",
    "device": "instrument",
    "dissipate": "power",
    "disable": "output off",
    "display": "screenshot",
    "down": "off",
    "draw": "current power plot",
    "earlier": "history",
    "emergency": "all",
    "enable": "output on",
    "energise": "output on",
    "energize": "output on",
    "equipment": "instrument",
    "everything": "all",
    "extend": "renew",
    "fahrenheit": "temperature",
    "farad": "capacitance",
    "fine": "check",
    "free": "release",
    "freq": "frequency",
    "gear": "instrument",
    "gradually": "sweep",
    "graph": "plot",
    "heat": "temperature",
    "henry": "inductance",
    "hertz": "frequency",
    "hot": "temperature",
    "hz": "frequency",
    "inductor": "inductance",
    "kelvin": "temperature",
    "khz": "frequency",
    "kill": "off",
    "kohm": "resistance",
    "log": "stream",
    "loud": "amplitude level",
    "ma": "current",
    "maximum": "max vmax",
    "mhz": "frequency",
    "minimum": "min vmin",
    "monitor": "stream",
    "mv": "voltage",
    "mw": "power",
    "ohm": "resistance",
    "ok": "check",
    "okay": "check",
    "overcurrent": "ocp",
    "overnight": "stream",
    "overvoltage": "ovp",
    "panic": "stop all",
    "peak": "vpp",
    "photo": "plot screenshot",
    "picture": "plot screenshot",
    "problem": "check",
    "record": "stream",
    "relay": "channel",
    "resistor": "resistance",
    "rms": "vrms",
    "route": "connect close",
    "running": "status",
    "safe": "stop all",
    "scope": "oscilloscope",
    "screen": "screenshot",
    "several": "series",
    "shut": "stop off",
    "source": "output",
    "speed": "frequency rate",
    "strength": "power amplitude level",
    "switch": "output",
    "target": "setpoint",
    "temp": "temperature",
    "thermometer": "temperature",
    "timebase": "scale",
    "trace": "waveform",
    "turn": "output",
    "volt": "voltage",
    "warm": "temperature",
    "warmth": "temperature",
    "watch": "stream",
    "watt": "power",
    "wattage": "power",
    "wrong": "check",
    "yesterday": "history",
}
"""A word that people search by, and what tools say for it."""
NO_WORDS: Final[frozenset[str]] = frozenset()
EVERYDAY: Final = frozenset(
    [
        "already", "also", "an", "and", "any", "anything", "are", "at", "be", "been", "but", "by",
        "can", "could", "did", "do", "does", "each", "every", "for", "from", "good", "had", "has",
        "have", "here", "how", "if", "in", "into", "is", "it", "its", "just", "like", "many", "may",
        "me", "more", "much", "must", "my", "now", "of", "on", "once", "only", "or", "other", "our",
        "per", "please", "right", "same", "should", "so", "some", "something", "still", "than",
        "thank", "that", "the", "their", "then", "there", "these", "they", "thing", "this", "those",
        "to", "too", "us", "very", "want", "was", "we", "were", "what", "when", "where", "which",
        "while", "will", "with", "would", "yet", "you", "your",
    ]
)  # fmt: skip
"""What says nothing of what is meant."""
ERRANDS: Final = frozenset(
    [
        "activate", "again", "all", "call", "change", "check", "deactivate", "device", "disable",
        "do", "down", "draw", "enable", "everything",
        "find", "get", "give", "go", "help", "hour", "instrument", "keep", "know", "last", "let",
        "list", "look", "make", "measure", "minute", "need", "off", "open", "put", "read", "run",
        "second", "see", "send", "set", "show", "start", "stop", "switch", "take", "tell", "text",
        "time", "try", "turn", "up", "use", "value", "word", "write",
    ]
)  # fmt: skip
"""What many tools do, give or are about: it makes one of two likelier, and finds none beside a word
for the thing."""
ASKS: Final = frozenset(
    [
        "check", "do", "get", "give", "how", "look", "measure", "read", "see", "show", "tell",
        "what", "which", "who", "why",
    ]
)  # fmt: skip
"""What somebody begins with who wants to know something."""
ORDERS: Final = frozenset(
    [
        "abort", "activate", "apply", "change", "close", "configure", "connect", "cool", "cut",
        "deactivate", "decrease", "disable", "disconnect", "enable", "energise", "energize", "heat",
        "increase", "kill", "limit", "lower", "make", "open", "put", "raise", "ramp", "reduce",
        "route", "select", "send", "set", "shut", "start", "stop", "sweep", "switch", "turn",
        "write",
    ]
)  # fmt: skip
"""What somebody begins with who gives an order; many are things, too (the current limit)."""
BIDS: Final = frozenset(["can", "could", "do", "let", "need", "please", "to", "want"])
"""What makes an order of one of those that stands elsewhere: how do I set the voltage."""
STATES: Final = frozenset(["are", "did", "does", "has", "is", "was"])
"""What somebody begins with who gives no order, whatever follows."""
OTHER_ACTS: Final = frozenset(
    [
        "capture", "clear", "extend", "free", "log", "monitor", "off", "on", "plot", "record",
        "release", "reserve", "save", "stream", "watch",
    ]
)  # fmt: skip
"""What says that something is to be done, but not beside a question."""
AMOUNTS: Final[Mapping[str, str]] = {
    "V": "volt", "A": "ampere", "W": "watt", "K": "kelvin", "Hz": "hertz", "Ω": "ohm",
}  # fmt: skip
_AMOUNT: Final = re.compile(r"[0-9]\s?[munµkMG]?(V|A|W|K|Hz|Ω)\b")
"""An amount says of what it is one."""
PRESENT_OF: Final = frozenset(
    [
        "configuration", "frequency", "function", "mode", "phase", "position", "power", "pressure",
        "resistance", "state", "status", "temperature", "voltage", "waveform",
    ]
)  # fmt: skip
"""What may be current: in front of these the word says when, and not what."""
SWITCHES: Final = frozenset(["switch", "turn"])
"""Beside on or off: what is meant is a tool that does that."""
SWITCHED_SHARE: Final = 0.6
"""Of the score of any other tool then."""
PURPOSE_SHARE: Final = 1.5
"""Of the score of a tool that only reads, where nobody wants anything done, and of any other where
somebody does."""
ERRAND_SHARE: Final = 0.3
"""Of what an errand counts where the thing is said."""
COVERED_SHARE: Final = 0.5
"""What a tool gains whose whole name was said, of its score."""
OPPOSITES: Final = (("on", "off"), ("off", "on"), ("start", "stop"), ("stop", "start"))
"""Said, and not meant: switch on is no tool to switch off."""
SWITCHED: Final[Mapping[str, str]] = {
    "activate": "on",
    "cut": "off",
    "deactivate": "off",
    "disable": "off",
    "enable": "on",
    "energise": "on",
    "energize": "on",
    "kill": "off",
}
"""What says one of them."""
OPPOSITE_SHARE: Final = 0.5


@record
class ToolSearch:
    """What it is run with.

    Attributes:
        tools: gives every tool there is now.
    """

    pool: InstrumentPool
    tools: Callable[[], Sequence[Tool]]

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    def find(self, action: NamedAction, _target: Target, _began: float) -> Done:
        """The best first.

        Raises:
            NotFound: there is no such instrument.
        """
        named = text_of(action.arguments, "instrument_id")
        wanted = self.pool.get(named).id if named else ""
        tools = [tool for tool in self.tools() if not wanted or tool.instrument_id == wanted]
        found = ranked(text_of(action.arguments, "query"), tools, self._words_of_units())
        limit = limit_of(action.arguments, DEFAULT_LIMIT)
        rows = fitting([_row(tool) for tool in found[:limit]], {"tools": [], "more": 0})
        return Done(data={"tools": rows, "more": len(found) - len(rows)})

    def _words_of_units(self) -> dict[str, str]:
        """What an instrument is called and is, by its id."""
        words = {}
        for unit in self.pool.all():
            key = unit.profile.key if unit.profile else ""
            words[unit.id] = f"{unit.alias} {unit.instrument_class} {key}"
        return words


_NO_UNITS: Final[Mapping[str, str]] = {}


def ranked(query: str, tools: Sequence[Tool], units: Mapping[str, str] = _NO_UNITS) -> list[Tool]:
    """Those that the query is about, the best first; none rather than what merely has a word of it.

    A word counts by where it stands (name, title, text), and the more the fewer tools have it. Of
    equals the first in listing order.

    Args:
        units: what each instrument is called and is, by its id.
    """
    weighed = [_weights(tool, units.get(tool.instrument_id, "")) for tool in tools]
    having = Counter(word for weights in weighed for word in weights)
    words = _words(query)
    amounts = dict.fromkeys(AMOUNTS[unit] for unit in _AMOUNT.findall(query))
    words += tuple(one for one in amounts if _SAME[one].isdisjoint(words) and one not in words)
    is_order = _is_order(words) or (bool(amounts) and words[0] not in _QUESTIONS)
    if not is_order:
        words = tuple(_without_present(words))
    wanted = _wanted(words, having)
    things = [word for word in wanted if _stem(word) not in _ERRANDS] or wanted
    scored = []
    words += tuple(SWITCHED[word] for word in words if word in SWITCHED)
    if wants_to_know := not is_order and _asks(words):
        # What it is, before what it was set to.
        words += ("measure",)
    for place, (tool, weights) in enumerate(zip(tools, weighed, strict=True)):
        found = {word: _found(word, weights, having, len(tools)) for word in wanted}
        if _is_about(things, found):
            score = _small_words(words, weights) + sum(
                one.score * (1.0 if word in things else ERRAND_SHARE) for word, one in found.items()
            )
            if wants_to_know if tool.annotations.read_only else is_order:
                score *= PURPOSE_SHARE
            scored.append((score * _fit(words, tool), -place))
    return [tools[-place] for _, place in sorted(scored, reverse=True)]


def _is_order(words: Sequence[str]) -> bool:
    """Whether something is to be done at the bench."""
    if not words or words[0] in _STATES:
        return False
    first = next((word for word in words if word not in _EVERYDAY), "")
    bid = next((place for place, word in enumerate(words) if word in BIDS), len(words))
    is_bid = not ORDERS.isdisjoint(words[bid:])
    return is_bid or (words[0] not in _ASKS and first in ORDERS)


def _asks(words: Sequence[str]) -> bool:
    """Whether nothing is to be done, of what gives no order."""
    return not words or words[0] in _ASKS or OTHER_ACTS.isdisjoint(words)


def _fit(words: Sequence[str], tool: Tool) -> float:
    """How well the name of a tool, without whose it is, fits what was said."""
    name = _words(_whole_name(tool).rpartition("__")[2])
    said = sum(any(_share(word, part) > PREFIX_SHARE for word in words) for part in name)
    fit = 1.0 + COVERED_SHARE * said / max(1, len(name))
    is_opposite = any(
        one in words and other not in words and other in name and one not in name
        for one, other in OPPOSITES
    )
    if is_opposite:
        return fit * OPPOSITE_SHARE
    switched = {"on", "off"} & set(words)
    is_switching = bool(switched) and not SWITCHES.isdisjoint(words)
    return fit * SWITCHED_SHARE if is_switching and switched.isdisjoint(name) else fit


def _whole_name(tool: Tool) -> str:
    """One that is shortened for clients has lost words."""
    return tool.plain_name or tool.name


class _Found(NamedTuple):
    """How well a word of the query was found in a tool.

    Attributes:
        weight: of the weightiest place in which it stands, as a whole word; 0: in none.
    """

    score: float = 0.0
    weight: float = 0.0


def _is_about(things: Sequence[str], found: Mapping[str, _Found]) -> bool:
    """Whether a tool in which these were found is what somebody means."""
    heaviest = max((found[word].weight for word in things), default=0.0)
    share = sum(found[word].score > 0 for word in things) / max(1, len(things))
    return share == 1 or (heaviest >= TITLE_WEIGHT and share >= LEAST_FOUND)


def _small_words(words: Sequence[str], weights: Mapping[str, float]) -> float:
    """What a name gains by words that say little: turn on is output_on before output_off."""
    return sum(SMALL_SHARE for word in words if weights.get(word) == NAME_WEIGHT)


def _without_present(words: Sequence[str]) -> Iterator[str]:
    """The words without a current that says when: the current mode is the present one."""
    for word, following in itertools.zip_longest(words, words[1:]):
        if word != "current" or following not in PRESENT_OF:
            yield word


def _wanted(words: Sequence[str], having: Mapping[str, int]) -> list[str]:
    """Those that say something; two are one where tools write them so (set-point)."""
    wanted = [w for w in words if w not in _EVERYDAY and not _is_amount(w)]
    for first, second in itertools.pairwise(words):
        if first + second in having:
            wanted = [word for word in wanted if word != second] + [first + second]
    return wanted


def _is_amount(word: str) -> bool:
    """A number that is no model's."""
    return word.isdigit() and len(word) <= MOST_OF_AMOUNT


def _found(word: str, weights: dict[str, float], having: Counter[str], count: int) -> _Found:
    best = _Found()
    for known, weight in weights.items():
        share = _share(word, known)
        if share:
            score = share * weight * math.log(1 + count / having[known])
            whole = weight if share > PREFIX_SHARE else 0.0
            best = _Found(max(best.score, score), max(best.weight, whole))
    return best


@functools.lru_cache(maxsize=4_096)
def _share(word: str, known: str) -> float:
    """How much a word of the query counts for one of a tool; 0: nothing."""
    if known == word:
        return 1.0
    if _stem(known) == _stem(word):
        return STEM_SHARE
    if known in _SAME.get(word, NO_WORDS):
        return SAME_SHARE
    return PREFIX_SHARE if len(word) >= FEWEST_OF_PREFIX and known.startswith(word) else 0.0


@functools.lru_cache(maxsize=4_096)
def _stem(word: str) -> str:
    return ENDING.sub("", ENDING.sub("", word))


def _weights(tool: Tool, unit: str) -> dict[str, float]:
    """Each word of a tool, by the weightiest place in which it stands."""
    found: dict[str, float] = {}
    known = tool.input_schema.get("properties", {})
    parameters = [name for name in known if name not in (DRY_RUN, LEASE)]
    # What all tools of one kind begin with says nothing of any.
    name = _whole_name(tool).removeprefix("bench__")
    for words, weight in (
        (_words(name), NAME_WEIGHT),
        (_words(tool.title), TITLE_WEIGHT),
        (_words(unit), TITLE_WEIGHT),
        (_words(" ".join(parameters)), TITLE_WEIGHT),
        (_words(tool.description), TEXT_WEIGHT),
    ):
        for word in words:
            found.setdefault(word, weight)
    return found


@functools.lru_cache(maxsize=4_096)
def _words(text: str) -> tuple[str, ...]:
    """In lower case, each once, without the s of a plural."""
    words = _WORD.findall(_OWNED.sub("", _CAMEL.sub(" ", text).lower()))
    return tuple(dict.fromkeys(_singular(word) for word in words))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > LEAST_SINGULAR and word.endswith("s") else word


_SAME: Final = {word: frozenset(_words(said)) for word, said in SAME.items()}
_ERRANDS: Final = frozenset(map(_stem, ERRANDS))
_EVERYDAY: Final = frozenset(map(_singular, EVERYDAY))
_STATES: Final = frozenset(map(_singular, STATES))
_ASKS: Final = frozenset(map(_singular, ASKS)) | _STATES
_QUESTIONS: Final = _STATES | {"how", "what", "which", "who", "why"}


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "instrument_id": tool.instrument_id,
    }


OPERATIONS: Final = (
    Operation(
        action=MemoryAction,
        run=ToolSearch.find,
        tool=StaticTool(
            name="bench__find_tools",
            description=(
                "Find the tools for a purpose ('set voltage', 'capture trace'), best first, also "
                "those that your list leaves out."
            ),
            schema=parameters_of(
                ("query",),
                query={"type": "string", "maxLength": 200},
                instrument_id=INSTRUMENT_ID,
                limit={"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT},
            ),
            accepts={"query": {"type": "string", "minLength": 1, "maxLength": 200}},
            annotations=READ,
            needs_instruments=True,
        ),
    ),
)
