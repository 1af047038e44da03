"""What a raw line does to the timer inside an instrument (``watchdog`` of its profile). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from edged.profiles.model import Profile
from edged.scpi.line import Message, messages
from edged.scpi.words import is_recalling, match_header

_RESETS: Final = (("*RST",), ("*RCL",), ("SYSTem", "PRESet"), ("SYSTem", "RECall"))
"""What may leave a timer as the instrument was delivered, or as it was saved."""


def disarms(profile: Profile, line: str) -> bool:
    """Whether a raw line sets what the lines of the profile's watchdog set, or resets it.

    By headers, in any form: whoever sets its time, stops it or clears that it has switched off
    takes the owner's dead-man away, whatever value follows. A query changes nothing. Unknown lines
    are not sent to such a unit at all.
    """
    watchdog = profile.watchdog
    if watchdog is None:
        return False
    if is_recalling(line):
        return True
    known = _headers((*watchdog.enable, *watchdog.disable, *watchdog.delay, *watchdog.clear))
    return any(
        _sets(message) and any(_is_one_of(nodes, known) for nodes in _readings(message))
        for message in messages(line)
    )


@lru_cache(maxsize=64)
def _headers(lines: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The headers of these lines, and of what resets everything."""
    own = (nodes for line in lines for message in messages(line) for nodes in _readings(message))
    return (*dict.fromkeys(own), *_RESETS)


def _sets(message: Message) -> bool:
    """Not for ``WATchdog?``; for ``WATchdog STOP`` and, to be safe, for ``WATchdog SET?``."""
    return bool(message.nodes) and not message.is_query


def _readings(message: Message) -> Iterator[tuple[str, ...]]:
    """Some instruments keep the path of a compound line, some start from the root."""
    yield message.nodes
    yield from message.headers


def _is_one_of(nodes: Sequence[str], known: Sequence[Sequence[str]]) -> bool:
    return any(match_header(header, nodes) or _is_within(header, nodes) for header in known)


def _is_within(header: Sequence[str], nodes: Sequence[str]) -> bool:
    """Whether a header is another one with nodes added: ``SYST:WATCH`` in ``SYST:COMM:WATCH``."""
    rest = iter(nodes)
    return all(any(match_header((word,), (node,)) for node in rest) for word in header)
