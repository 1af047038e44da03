"""Finding a tool by what it is for, among all there are, listed or not."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from edged.actions.action import Action
from edged.actions.outcome import Done
from edged.actions.tool import Tool
from edged.commands.operation import Operation, bind
from edged.commands.static_tool import (
    INSTRUMENT_ID,
    READ,
    StaticTool,
    fitting,
    limit_of,
    only_asking,
    parameters_of,
    text_of,
)
from edged.commands.target import Target
from edged.instruments.pool import InstrumentPool

__all__ = ["OPERATIONS", "FindTools", "ToolSearch", "ranked"]

DEFAULT_LIMIT: Final = 8
MOST: Final = 50
_WORD: Final = re.compile(r"[a-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
NAME_WEIGHT: Final = 4.0
TITLE_WEIGHT: Final = 2.0
TEXT_WEIGHT: Final = 1.0
PREFIX_SHARE: Final = 0.6
"""Of what the whole word would count: volt finds voltage."""
FEWEST_OF_PREFIX: Final = 4
LEAST_SINGULAR: Final = 3
STEM_SHARE: Final = 0.9
"""The same of a word in another form: measuring finds measure."""
SAME_SHARE: Final = 0.8
"""Of what the word itself would count: see SAME."""
LEAST_FOUND: Final = 0.5
"""Of the words that say what is meant: with fewer, a tool is only found by a word of its name."""
ENDING: Final = re.compile(r"(?<=.{4})(ing|ment|ed|er|ly|e)$")
SMALL_SHARE: Final = 0.5
"""What a word of the query that stands in a name counts besides, whatever it is."""
SAME: Final[Mapping[str, str]] = {
    "amp": "current amplitude",
    "ampere": "current",
    "average": "mean series",
    "avg": "mean series",
    "bode": "response",
    "bright": "power",
    "brightness": "power",
    "celsius": "temperature",
    "chart": "plot",
    "cold": "temperature",
    "connected": "instrument",
    "consume": "current power",
    "consumption": "current power",
    "cool": "temperature",
    "curve": "iv",
    "degree": "temperature",
    "device": "instrument",
    "draw": "current power plot",
    "emergency": "all",
    "freq": "frequency",
    "energise": "output",
    "energize": "output",
    "equipment": "instrument",
    "everything": "all",
    "farad": "capacitance",
    "fahrenheit": "temperature",
    "gear": "instrument",
    "graph": "plot",
    "gradually": "sweep",
    "heat": "temperature",
    "henry": "inductance",
    "hertz": "frequency",
    "hot": "temperature",
    "hz": "frequency",
    "kelvin": "temperature",
    "log": "stream",
    "loud": "amplitude level",
    "monitor": "stream",
    "ohm": "resistance",
    "panic": "all",
    "photo": "plot screenshot",
    "picture": "plot screenshot",
    "record": "stream",
    "scope": "oscilloscope",
    "screen": "screenshot",
    "several": "series",
    "speed": "frequency rate",
    "strength": "power amplitude level",
    "switch": "output",
    "temp": "temperature",
    "thermometer": "temperature",
    "trace": "waveform",
    "turn": "output",
    "volt": "voltage",
    "warm": "temperature",
    "warmth": "temperature",
    "watt": "power",
    "wattage": "power",
}
"""A word that people search by, and what tools say for it."""
NO_WORDS: Final[frozenset[str]] = frozenset()
EVERYDAY: Final = frozenset(
    [
        "a", "an", "and", "any", "are", "at", "be", "been", "but", "by", "can", "could", "did",
        "do", "does", "for", "from", "had", "has", "have", "here", "how", "i", "if", "in", "is",
        "it", "its", "just", "like", "many", "may", "me", "much", "must", "my", "now", "of", "on",
        "or", "our", "please", "right", "should", "so", "some", "than", "thank", "that", "the",
        "their", "then", "there", "these", "they", "thing", "this", "those", "to", "too", "us",
        "very", "want", "was", "we", "were", "what", "when", "where", "which", "will", "with",
        "would", "you", "your",
    ]
)  # fmt: skip
"""What says nothing of what is meant."""
ERRANDS: Final = frozenset(
    [
        "call", "change", "check", "do", "find", "get", "give", "go", "help", "keep", "know",
        "let", "look", "make", "measure", "need", "open", "put", "read", "run", "see", "send",
        "set", "show", "start", "take", "tell", "text", "try", "use", "value", "word", "write",
    ]
)  # fmt: skip
"""What many tools do or give: it makes one of two likelier, and finds none beside a word for the
thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTools(Action):
    """Search the tools, from memory."""

    answers_at_once = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearch:
    """What it is run with.

    Attributes:
        tools: gives every tool there is now.
    """

    pool: InstrumentPool
    tools: Callable[[], Sequence[Tool]]

    def table(self) -> dict[type[Action], Operation]:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    def find(self, action: FindTools, _target: Target, _began: float) -> Done:
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
    wanted = _wanted(query, having)
    things = [word for word in wanted if word not in ERRANDS] or wanted
    scored = []
    for place, weights in enumerate(weighed):
        found = {word: _found(word, weights, having, len(tools)) for word in wanted}
        if _is_about(things, found):
            score = sum(one.score for one in found.values())
            scored.append((score + _small_words(query, weights), -place))
    return [tools[-place] for _, place in sorted(scored, reverse=True)]


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
    if heaviest >= NAME_WEIGHT or share == 1:
        return share > 0
    return heaviest >= TITLE_WEIGHT and share >= LEAST_FOUND


def _small_words(query: str, weights: Mapping[str, float]) -> float:
    """What a name gains by words that say little: turn on is output_on before output_off."""
    return sum(SMALL_SHARE for word in _words(query) if weights.get(word) == NAME_WEIGHT)


def _wanted(query: str, having: Mapping[str, int]) -> list[str]:
    """Its words that say something; two are one where tools write them so (set-point)."""
    words = _words(query)
    wanted = [w for w in words if w not in EVERYDAY and (not w.isdigit() or w in having)]
    for first, second in itertools.pairwise(words):
        if first + second in having:
            wanted = [word for word in wanted if word != second] + [first + second]
    return wanted


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
    parameters = tool.input_schema.get("properties", {})
    # What all tools of one kind begin with says nothing of any.
    name = tool.name.removeprefix("bench__")
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


def _words(text: str) -> list[str]:
    """In lower case, each once, without the s of a plural."""
    words = _WORD.findall(_CAMEL.sub(" ", text).lower())
    return list(dict.fromkeys(_singular(word) for word in words))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > LEAST_SINGULAR and word.endswith("s") else word


_SAME: Final = {word: frozenset(_words(said)) for word, said in SAME.items()}


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "instrument_id": tool.instrument_id,
    }


OPERATIONS: Final = (
    Operation(
        action=FindTools,
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
            make=only_asking(FindTools),
            needs_instruments=True,
        ),
    ),
)
