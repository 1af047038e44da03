"""The result of list_instruments, built again only after a change of what it shows.

So is each entry, as JSON too: with hundreds of instruments the loop hears none while it lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edged.actions.caller import Caller
from edged.changes import TOLD
from edged.instruments.instrument import USED_FOR_MS, Instrument
from edged.instruments.unit_state import heard_ms
from edged.protocol.jsonrpc import encode_text
from edged.protocol.results import ToldList
from edged.runs.bench import Bench


class InstrumentList:
    """Makes the entries, and keeps all of them.

    Args:
        lease: gives who has reserved it, if anybody has.
    """

    def __init__(
        self, bench: Bench, lease: Callable[[Instrument], Mapping[str, Any] | None]
    ) -> None:
        self._bench = bench
        self._lease = lease
        # By number: what all of an entry but its times depends on, that, and its JSON, unclosed.
        self._kept: dict[int, tuple[tuple[object, ...], dict[str, Any], str]] = {}
        # The latest list, the mark that it was made under, and the end of its life (Unix ms).
        self._list = ToldList([], "[]")
        self._mark = ""
        self._until_ms: int | None = None

    def entry(self, instrument: Instrument) -> dict[str, Any]:
        """What is told of one; cached values only."""
        clock = self._bench.clock
        return self._entry(instrument, clock.monotonic(), clock.wall_ms())[0]

    def _entry(
        self, instrument: Instrument, now_s: float, now_ms: int
    ) -> tuple[dict[str, Any], str]:
        """The same, and its JSON; an answer changes no more of it than the two times at the end."""
        user, used_ms = instrument.last_use(now_ms)
        depends_on = self._depends_on(instrument, user)
        kept = self._kept.get(instrument.number)
        if kept is None or kept[0] != depends_on:
            mark = TOLD.mark()
            rest = {**instrument.summary(), **self._of_others(instrument)}
            del rest["used_by_ms"]
            text = encode_text(rest)[:-1]
            # Their places: a copy with two members more would be laid out once more.
            rest |= dict.fromkeys(("used_by_ms", "heard_ms"))
            kept = depends_on, rest, text
            # Not where another thread has changed something meanwhile.
            if mark == TOLD.mark() and depends_on == self._depends_on(instrument, user):
                self._kept[instrument.number] = kept
        heard = heard_ms(instrument, now_s, now_ms)
        # As JSON has it.
        used, told = ("null" if used_ms is None else used_ms, "null" if heard is None else heard)
        return (
            {**kept[1], "used_by_ms": used_ms, "heard_ms": heard},
            f'{kept[2]},"used_by_ms":{used},"heard_ms":{told}}}',
        )

    def _depends_on(self, instrument: Instrument, user: Caller | None) -> tuple[object, ...]:
        """Equal as long as no more of an entry than its times has changed."""
        bench, actor = self._bench, instrument.actor
        return (
            instrument.version,
            user,
            bench.store.lockout_of(instrument),
            self._lease(instrument),
            instrument.habits.warning,
            # What else its state depends on; where no line leads, also on what discovery found.
            (actor.line.state, actor.line.is_silent) if actor else bench.state_of(instrument),
        )

    def _of_others(self, instrument: Instrument) -> dict[str, Any]:
        lockout = self._bench.store.lockout_of(instrument)
        return {
            "state": self._bench.state_of(instrument).value,
            "lockout": lockout.to_json() if lockout else None,
            "lease": self._lease(instrument),
        }

    def all(self) -> ToldList:
        """What is told of each."""
        if self._mark != TOLD.mark() or (
            self._until_ms is not None and self._bench.clock.wall_ms() >= self._until_ms
        ):
            # Before it is made: what changes meanwhile makes it old.
            self._mark = TOLD.mark()
            now_s, now_ms = self._bench.clock.monotonic(), self._bench.clock.wall_ms()
            made = [self._entry(instrument, now_s, now_ms) for instrument in self._bench.pool.all()]
            text = ",".join([text for _, text in made])
            self._list = ToldList([entry for entry, _ in made], f"[{text}]")
            # A lease is renewed by each call, and a use forgotten.
            ends = [
                0 if entry["lease"] else entry["used_by_ms"] + USED_FOR_MS
                for entry in self._list
                if entry["lease"] or entry["used_by_ms"] is not None
            ]
            self._until_ms = min(ends, default=None)
        return self._list
