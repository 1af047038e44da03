"""A link without a line: what a transport itself does, seen from the actor's side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from edged.clock import SystemClock
from edged.transports.link import Link
from edged.transports.visa import VisaLibrary

T = TypeVar("T")


def ask(link: Link, question: str, seconds: float = 3.0) -> str:
    """One question and the message that comes after it."""
    link.write(question.encode() + b"\n", seconds)
    return link.read_message(b"\n", seconds).decode()


async def talked(address: str, talk: Callable[[Link], T]) -> T:
    """What ``talk`` makes of an open link; on another thread, as an actor's."""
    visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    link = visa.open_link(address)

    def whole() -> T:
        try:
            link.open(5)
            link.begin(1)
            return talk(link)
        finally:
            link.release()
            visa.close()

    return await asyncio.to_thread(whole)
