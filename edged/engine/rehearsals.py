"""Rehearsals of the daemon: each in a child process, which ends with its answer or its deadline.

Nothing of what a rehearsal needs is loaded here; see ``rehearsal.py``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.clock import Clock
from edged.config.load import Config
from edged.errors import Conflict, ErrorCode, Failed
from edged.instruments.instrument import Instrument
from edged.profiles.interlocks import Interlock
from edged.profiles.library import pack
from edged.profiles.model import Profile
from edged.profiles.unit_rules import EMPTY_RULES, UnitRules
from edged.record import record

PROCESSOR_S: Final = 120.0
"""Processor time; a small computer needs it for 50,000 calls."""
DEADLINE_S: Final = 600.0
"""Real time: a computer that is busy gives a rehearsal a fifth of a processor."""
ENDS_ITSELF_S: Final = 1.0
"""A child that has lost its daemon ends itself so much after its deadline."""
MAX_WAITING: Final = 4
TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
"""Variables that say where temporary files go."""
LAST_WORDS: Final = 300
SHORTER: Final = "Rehearse a shorter plan, with fewer points or repeats."


@record
class RealUnit:
    """A unit that is to have a twin.

    Attributes:
        name: what the job calls it.
        profile: its profile, before the owner's rules.
        rules: the owner's.
        serial: its serial number; empty: that of its twin's model.
    """

    name: str
    profile: Profile
    rules: UnitRules = EMPTY_RULES
    serial: str = ""

    @classmethod
    def of(cls, name: str, unit: Instrument, profiles: Mapping[str, Profile]) -> RealUnit:
        """What is known of an instrument.

        Args:
            profiles: as they are before any owner's rules.

        Raises:
            Conflict: it has none.
        """
        own = unit.profile
        if own is None:
            raise Conflict(f"{name} has no profile, so it cannot be rehearsed.")
        profile = profiles.get(own.key, own)
        serial = unit.identity.serial_told
        return cls(name=name, profile=profile, rules=unit.rules, serial=serial)


def request_of(
    job: str,
    arguments: Mapping[str, Any],
    *,
    units: Sequence[RealUnit],
    interlocks: Sequence[Interlock],
    config: Config,
    clock: Clock,
    seed: int = 0,
    deadline_s: float = DEADLINE_S,
) -> dict[str, Any]:
    """A request for ``rehearse``, JSON-ready.

    Args:
        job: a name in ``rehearsal.JOBS``.
        arguments: the job's own, JSON-ready.
        units: those that the job uses, and those that interlocks read.
        interlocks: of the bench file in force.
        seed: of the noise of all twins.
        deadline_s: of the real time.
    """
    return {
        "job": job,
        "arguments": dict(arguments),
        "units": [
            {
                "name": unit.name,
                "packed": _packed((unit.profile, unit.rules)),
                "serial": unit.serial,
            }
            for unit in units
        ],
        "interlocks": _packed(tuple(interlocks)),
        "config": {
            "RAW_SCPI": config.raw_scpi.value,
            "MAX_BLOCK_MB": str(config.max_block_mb),
            "WAVEFORM_MEMORY_MB": str(config.waveform_memory_mb),
        },
        "seed": seed,
        "wall_ms": clock.wall_ms(),
        "processor_s": PROCESSOR_S,
        "deadline_s": deadline_s,
    }


def _packed(value: object) -> str:
    return base64.b64encode(pack(value)).decode("ascii")


class Rehearsals:
    """Starts and ends the children, one at a time.

    Args:
        command: the program of a child.
    """

    def __init__(
        self, command: Sequence[str] = (sys.executable, "-m", "edged.engine.rehearsal")
    ) -> None:
        self._command = tuple(command)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def rehearse(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do a job on twins in virtual time.

        Cancelling ends the child.

        Args:
            request: see ``request_of``.

        Returns:
            ``result``: what the job gave; ``no_model``: the units whose profiles have no simulated
            model; ``left_out``: the interlocks that read none of the units; ``virtual_s``: how long
            the job took in virtual time.

        Raises:
            Conflict: BUSY, too many wait for theirs.
            Failed: TIMEOUT, it was not done by its deadline or within PROCESSOR_S; INTERNAL, the
                child crashed; else the code of the error that it answered.
        """
        if self._waiting > MAX_WAITING:
            raise Conflict(
                f"{MAX_WAITING} rehearsals wait already.", remedy="Ask again in a moment."
            )
        self._waiting += 1
        try:
            async with self._turn:
                said, last_words = await self._ask(request)
        finally:
            self._waiting -= 1
        try:
            answer: dict[str, Any] = json.loads(said)
        except ValueError:
            last = last_words.decode("utf-8", "replace").strip()[-LAST_WORDS:].splitlines()[-1:]
            raise Failed(
                f"The rehearsal crashed: {last[0] if last else 'no reason was given'}",
                code=ErrorCode.INTERNAL,
                remedy="Report this as a bug. The check of the plan does not depend on it.",
            ) from None
        error = answer.get("error")
        if error is not None:
            raise Failed(
                error["message"],
                code=ErrorCode(error["code"]),
                data=error["data"],
                remedy=error["remedy"],
            )
        return answer

    async def _ask(self, request: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """What the child answered, and its last words."""
        # Whoever is killed removes nothing, so its files have a place that is removed here.
        place = await asyncio.to_thread(tempfile.mkdtemp, prefix="edged-rehearsal-")
        try:
            return await self._ask_child(request, place)
        finally:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)

    async def _ask_child(self, request: Mapping[str, Any], place: str) -> tuple[bytes, bytes]:
        deadline_s = request["deadline_s"]
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(TEMPORARY, place)},
        )
        try:
            async with asyncio.timeout(deadline_s):
                return await process.communicate(
                    json.dumps({**request, "deadline_s": deadline_s + ENDS_ITSELF_S}).encode()
                )
        except TimeoutError:
            raise Failed(
                f"The rehearsal was not done within {deadline_s:g} s and was ended.",
                code=ErrorCode.TIMEOUT,
                remedy=SHORTER,
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
