"""What a sweep that is over has left on: asked of the instrument, since its end sent nothing.

The questions are those by which its abort would be proved; where it works a switch, a level that
was left set says nothing. What cannot be asked, or does not answer in time, is not in the list:
nothing is known of it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from edged.actions.action import Purpose
from edged.profiles.abort import (
    Proof,
    asked_about,
    proofs_of,
    switch_proofs,
)
from edged.runs.ports import NewId, Perform
from edged.runs.sweeps.sweep import Sweep
from edged.scpi.answer_text import clean_text

ASK_WITHIN_S: Final = 2.0
"""What asking may delay the answer of a stop that had nothing to stop."""


async def still_on(perform: Perform, new_id: NewId, sweep: Sweep) -> list[dict[str, Any]]:
    """One {name, query, answer} for each output that the instrument does not call off."""
    found: list[dict[str, Any]] = []

    async def ask() -> None:
        for proof in _questions(sweep):
            outcome = await perform(sweep.lines(new_id(), proof.question, Purpose.MEASURE))
            answer = outcome.data["answer"] if outcome.error is None else None
            if answer and not proof.is_given_by(answer):
                told = {"query": proof.asked, "answer": clean_text(answer)}
                found.append({"name": asked_about(proof), **told})

    asking = asyncio.ensure_future(ask())
    try:
        done, _ = await asyncio.wait({asking}, timeout=ASK_WITHIN_S)
        for over in done:
            over.result()
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return found


def _questions(sweep: Sweep) -> tuple[Proof, ...]:
    """What proves the sweep's own abort, else the profile's."""
    profile = sweep.thing.profile
    if profile is None:
        return ()
    steps, proofs = sweep.thing.abort_steps(), sweep.abort.proofs
    if not proofs:
        steps, proofs = profile.abort, proofs_of(profile, profile.abort)
    return switch_proofs(steps, proofs)
