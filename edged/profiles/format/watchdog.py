"""``watchdog``: the timer that switches an instrument's outputs off when it gets no messages."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from edged.profiles.addressed import ADDRESS, PLACEHOLDER
from edged.profiles.format.commands import is_question
from edged.profiles.format.connection import PRECONDITION
from edged.profiles.format.kinds import PATTERN, PLAIN_QUESTION, SENDABLE
from edged.profiles.model import InstrumentWatchdog, Tripped
from edged.schema.fields import Fields, complaint, each_of, list_of, number_of, text_of
from edged.schema.tables import (
    POSITIVE,
    Key,
    Kind,
    Schema,
    Table,
    array,
    integer,
    is_word,
    reference,
)
from edged.scpi.words import is_recalling, works_switch
from edged.yaml.tree import Node

ANY: Final = "any"
"""What ``feeds`` says where whatever is said does."""
_TIME: Final = re.compile(r"\{m?s\}")
"""The time in seconds, or in milliseconds."""
_MOST_LINES: Final = 20
_MOST_BIT: Final = 1 << 31


def _line(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    """One that is sent; none that works an output, and none whose answer nobody reads."""
    owner = fields.name_of(key)
    found = text_of(node, owner).replace(PLACEHOLDER, ADDRESS)
    if not found.strip():
        raise complaint(node.mark, f"{owner} is empty.")
    if works_switch(found) or is_recalling(found):
        raise complaint(node.mark, f'{owner}: "{found}" may work an output.')
    if key != "feeds" and is_question(found):
        raise complaint(node.mark, f'{owner}: "{found}" asks; its answer would be lost.')
    rest = _TIME.sub("", found) if key in _TIMED else found
    if "{" in rest or "}" in rest:
        remedy = "It may hold {s} or {ms}." if key in _TIMED else ""
        raise complaint(node.mark, f'{owner}: "{found}" has braces without a parameter.', remedy)
    return found


def _lines(fields: Fields, key: str, node: Node, names: Collection[str]) -> tuple[str, ...]:
    nodes = list_of(node, fields.name_of(key), most=_MOST_LINES)
    found = each_of(nodes, lambda one: _line(fields, key, one, names))
    if not found and key != "delay":
        raise complaint(node.mark, f"{fields.name_of(key)} is empty.")
    return found


def _feeds(fields: Fields, key: str, node: Node, names: Collection[str]) -> tuple[str, ...]:
    return () if is_word(node, ANY) else _lines(fields, key, node, names)


def _range(fields: Fields, key: str, node: Node, _names: Collection[str]) -> tuple[float, float]:
    owner = fields.name_of(key)
    nodes = list_of(node, owner)
    if len(nodes) != 2:
        raise complaint(node.mark, f"{owner} is the shortest and the longest time, in seconds.")
    shortest, longest = (float(number_of(one, owner)) for one in nodes)
    if not 0 < shortest <= longest:
        raise complaint(node.mark, f"{owner}: {shortest:g} to {longest:g} s is not a range.")
    return shortest, longest


def _step(fields: Fields, key: str, node: Node, _names: Collection[str]) -> float:
    step_s = float(number_of(node, fields.name_of(key)))
    if step_s <= 0:
        raise complaint(node.mark, f"{fields.name_of(key)} must be over 0.")
    return step_s


def _tripped(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Tripped:
    owner = f"{fields.owner}.{key}"
    found = TRIPPED.read_values(node, owner)
    if ("bit" in found) == ("expect" in found):
        message = f"{owner} needs one of bit and expect."
        raise complaint(node.mark, message, "Say by which the answer tells it.")
    return Tripped(**found)


_TIMED: Final = ("enable", "delay")
_SENT: Final = array(Kind("SCPI", SENDABLE), _MOST_LINES, least=1)._replace(read=_lines)
_FEEDS: Final[Schema] = {"anyOf": [{"const": ANY}, _SENT.schema]}
_RANGE: Final[Schema] = {
    "type": "array",
    "items": POSITIVE.schema,
    "minItems": 2,
    "maxItems": 2,
}
TRIPPED: Final = Table(
    "tripped",
    Tripped,
    "How to query whether the timer has switched off: with either `bit` or `expect`.",
    Key("ask", PLAIN_QUESTION, "The query; it changes nothing.", is_required=True),
    Key("bit", integer(1, _MOST_BIT),
        "The answer is a number, and the bit of this weight is set in it (2048: bit 11)."),
    Key("expect", PATTERN, "Searched in the answer; if it matches, the timer has switched off."),
)  # fmt: skip
WATCHDOG: Final = Table(
    "watchdog",
    InstrumentWatchdog,
    "A timer in the instrument that switches its outputs off by itself when it gets no "
    "messages; `dead_man_s` of the bench file uses it. Such a profile has an `abort`.",
    Key("enable", _SENT, "The lines that start it, with `{s}` or `{ms}` if they also set its time.",
        is_required=True),
    Key("disable", _SENT, "The lines that stop it.", is_required=True),
    Key("delay", array(Kind("SCPI", SENDABLE), _MOST_LINES)._replace(read=_lines),
        "The lines that set its time, sent before `enable`: `{s}` in seconds, `{ms}` in "
        "milliseconds."),
    Key("range", Kind("[shortest, longest]", _RANGE, _range), "The allowed times, in seconds.",
        field="range_s", is_required=True),
    Key("step", POSITIVE._replace(read=_step),
        "The times must be multiples of it, in seconds (1: whole seconds only); default any.",
        field="step_s"),
    Key("clear", _SENT,
        "The lines that a person sends after it has switched off; edged never sends them.",
        is_required=True),
    Key("tripped", Kind("[tripped](#tripped)", reference("tripped"), _tripped),
        "How to query whether it has switched off.", is_required=True),
    Key("feeds", Kind(f"`{ANY}` or list of SCPI", _FEEDS, _feeds),
        "What resets it: any message, or only these lines.",
        is_required=True),
    Key("precondition", PRECONDITION.inside,
        "What must be true for it to work; otherwise nothing is switched on."),
)  # fmt: skip


def _watchdog(_fields: Fields, key: str, node: Node, _names: Collection[str]) -> InstrumentWatchdog:
    inner = WATCHDOG.fields(node, key)
    found = WATCHDOG.values(inner)
    if not any(_TIME.search(line) for name in _TIMED for line in found.get(name, ())):
        message = f"{key}: neither enable nor delay holds {{s}} or {{ms}}: nothing sets its time."
        raise complaint(inner.mark, message)
    return InstrumentWatchdog(**found)


WATCHDOG_KIND: Final = WATCHDOG.link._replace(read=_watchdog)
