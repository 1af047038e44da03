"""Keithley 7001 switch system: a multiplexer of 40 channels in slot 1, a 7012-S matrix in slot 2.

Quirks kept: a channel of a multiplexer has two numbers (``1!40``), a crosspoint of a matrix three
(``2!4!10``); what is closed is told as a list in which neighbours are ranges; closing opens nothing
before it; a card tells its name with a C before it; the identity has blanks. Source: the manuals
and drivers that profiles/keithley_7001.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edged_sim.scpi import Dialect, ModelSpec, ScpiError, SimCall, SimUnit, Vocabulary

MULTIPLEXER: Final = "C7011"
MATRIX: Final = "C7012"
CHANNELS: Final = 40
ROWS: Final = 4
COLUMNS: Final = 10
_LIST: Final = re.compile(r"\(@([\d!:,\s]*)\)")

Relay = tuple[int, ...]


def _relays(slot: int, card: str) -> Iterator[Relay]:
    """Each relay's address, in the order of the panel."""
    if card == MULTIPLEXER:
        yield from ((slot, channel) for channel in range(1, CHANNELS + 1))
        return
    for row in range(1, ROWS + 1):
        yield from ((slot, row, column) for column in range(1, COLUMNS + 1))


class Switch:
    """The state of one unit."""

    def __init__(self, unit: SimUnit) -> None:  # noqa: ARG002 - the seam's argument
        self.reset(0.0)

    def reset(self, now: float) -> None:  # noqa: ARG002 - the seam's argument
        """See ``ModelState``: all open, and the cards of the bench in their slots."""
        self.cards = {1: MULTIPLEXER, 2: MATRIX}
        self.closed: set[Relay] = set()

    @property
    def relays(self) -> tuple[Relay, ...]:
        """Those of both cards, in the order of the panel."""
        return tuple(relay for slot, card in self.cards.items() for relay in _relays(slot, card))

    def describe(self, now: float) -> Mapping[str, Any]:  # noqa: ARG002 - the seam's argument
        return {_address(relay): {"is_on": relay in self.closed} for relay in self.relays}

    def told(self) -> str:
        """What is closed: ``(@1!1,1!3:1!5)``."""
        pieces: list[list[Relay]] = []
        for relay in self.relays:
            if relay not in self.closed:
                continue
            if pieces and _follows(pieces[-1][-1], relay):
                pieces[-1].append(relay)
            else:
                pieces.append([relay])
        return f"(@{','.join(_piece(piece) for piece in pieces)})"


def _address(relay: Relay) -> str:
    return "!".join(map(str, relay))


def _follows(one: Relay, other: Relay) -> bool:
    return one[:-1] == other[:-1] and one[-1] + 1 == other[-1]


def _piece(relays: list[Relay]) -> str:
    first, last = _address(relays[0]), _address(relays[-1])
    return first if first == last else f"{first}:{last}"


def _listed(unit: Switch, call: SimCall) -> list[Relay]:
    """The relays of ``(@1!1,1!3:1!5)``; -222 where there is none of that address."""
    found = _LIST.fullmatch(call.text(0))
    if found is None:
        raise ScpiError(-102)
    known = unit.relays
    relays: list[Relay] = []
    for piece in filter(None, (piece.strip() for piece in found[1].split(","))):
        first, _, last = piece.partition(":")
        begin, end = _relay(first), _relay(last or first)
        if not {begin, end} <= set(known) or begin[:-1] != end[:-1] or end < begin:
            raise ScpiError(-222)
        relays += known[known.index(begin) : known.index(end) + 1]
    return relays


def _relay(text: str) -> Relay:
    numbers = text.strip().split("!")
    if not all(map(str.isdigit, numbers)):
        raise ScpiError(-102)
    return tuple(map(int, numbers))


def close(unit: Switch, call: SimCall) -> None:
    """``:ROUT:CLOS (@1!1)``: besides what is closed."""
    unit.closed.update(_listed(unit, call))


def open_(unit: Switch, call: SimCall) -> None:
    """``:ROUT:OPEN (@1!1)``, or ``ALL``."""
    if call.text(0).upper() == "ALL":
        unit.closed.clear()
    else:
        unit.closed.difference_update(_listed(unit, call))


def card(unit: Switch, call: SimCall) -> str:
    """``:ROUT:CONF:SLOT2:CTYP?``."""
    return unit.cards[call.suffix(highest=len(unit.cards))]


def change_card(unit: Switch, call: SimCall) -> None:
    """``:DIAG:CARD 1,C7012``: what somebody does with a screwdriver, until the next reset."""
    slot = call.whole(0, lowest=1, highest=len(unit.cards))
    unit.cards[slot] = call.choice(1, {MULTIPLEXER: MULTIPLEXER, MATRIX: MATRIX})
    unit.closed.clear()


VOCABULARY: Final = Vocabulary(
    {
        "[:ROUTe]:CLOSe": close,
        "[:ROUTe]:CLOSe?": lambda u, c: ",".join(str(int(r in u.closed)) for r in _listed(u, c)),
        "[:ROUTe]:CLOSe:STATe?": lambda u, _c: u.told(),
        "[:ROUTe]:OPEN": open_,
        "[:ROUTe]:OPEN?": lambda u, c: ",".join(str(int(r not in u.closed)) for r in _listed(u, c)),
        "[:ROUTe]:CONFigure:SLOT<n>:CTYPe?": card,
        # Of no real instrument.
        ":DIAGnostic:CARD": change_card,
    }
)

MODEL: Final = ModelSpec(
    idn="KEITHLEY INSTRUMENTS INC.,MODEL 7001, {serial},A04  /A01",
    serial="{number}",
    first_number=503_327,
    dialect=Dialect(error_format='{code:+d},"{text}"', latency_s=0.005),
    vocabulary=VOCABULARY,
    build=Switch,
)
