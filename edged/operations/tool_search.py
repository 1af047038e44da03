"""Finding a tool by what it is for, among all there are, listed or not."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
FEWEST_OF_PREFIX: Final = 3
SAME_SHARE: Final = 0.8
"""Of what the word itself would count: see SAME."""
SAME: Final[Mapping[str, str]] = {
    "average": "mean series",
    "bode": "response",
    "curve": "iv",
    "everything": "all",
    "log": "stream",
    "picture": "plot screenshot",
    "record": "stream",
    "scope": "oscilloscope",
    "several": "series",
    "trace": "waveform",
    "turn": "output",
}
"""A word that people search by, and what tools say for it."""
NO_WORDS: Final[frozenset[str]] = frozenset()
EVERYDAY: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "at",
        "by",
        "do",
        "for",
        "from",
        "how",
        "i",
        "in",
        "is",
        "it",
        "me",
        "my",
        "of",
        "on",
        "or",
        "the",
        "to",
    ]
)


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
    """Those in which some word of the query stands, the best first.

    A word counts by where it stands (name, title, text), and the more the fewer tools have it. Of
    equals the first in listing order.

    Args:
        units: what each instrument is called and is, by its id.
    """
    weighed = [_weights(tool, units.get(tool.instrument_id, "")) for tool in tools]
    having = Counter(word for weights in weighed for word in weights)
    wanted = _wanted(query, having)
    scored = [
        (sum(_score(word, weights, having, len(tools)) for word in wanted), -place)
        for place, weights in enumerate(weighed)
    ]
    order = sorted((score for score in scored if score[0] > 0), reverse=True)
    return [tools[-place] for _, place in order]


def _wanted(query: str, having: Mapping[str, int]) -> list[str]:
    """Its words that say something; two are one where tools write them so (set-point)."""
    words = _words(query)
    wanted = [word for word in words if word not in EVERYDAY]
    for first, second in itertools.pairwise(words):
        if first + second in having:
            wanted = [word for word in wanted if word != second] + [first + second]
    return wanted or words


def _score(word: str, weights: dict[str, float], having: Counter[str], count: int) -> float:
    best = 0.0
    for known, weight in weights.items():
        if known == word:
            share = 1.0
        elif known in _SAME.get(word, NO_WORDS):
            share = SAME_SHARE
        elif _begins(known, word) or _begins(word, known):
            share = PREFIX_SHARE
        else:
            continue
        best = max(best, share * weight * math.log(1 + count / having[known]))
    return best


def _begins(word: str, start: str) -> bool:
    return len(start) >= FEWEST_OF_PREFIX and word.startswith(start)


def _weights(tool: Tool, unit: str) -> dict[str, float]:
    """Each word of a tool, by the weightiest place in which it stands."""
    found: dict[str, float] = {}
    parameters = tool.input_schema.get("properties", {})
    for words, weight in (
        (_words(tool.name), NAME_WEIGHT),
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
    return word[:-1] if len(word) > FEWEST_OF_PREFIX and word.endswith("s") else word


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
