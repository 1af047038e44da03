"""The result of list_instruments, built again only after a change of what it shows.

So is each entry, as JSON too: with hundreds of instruments the loop hears none while it lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
        # By number: what all of an entry but its times was made of, that, and its JSON, unclosed.
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
        # Before the rest is read: what another thread changes meanwhile makes it old.
        version = instrument.version
        user, used_ms = instrument.last_use(now_ms)
        lockout, lease = self._bench.store.lockout_of(instrument), self._lease(instrument)
        state, line_state = self._bench.state_of(instrument), instrument.line_state
        used_by = user.who if user else None
        made_of = (version, used_by, lockout, lease, state, line_state, instrument.habits.warning)
        kept = self._kept.get(instrument.number)
        if kept is None or kept[0] != made_of:
            rest = {
                **instrument.summary(),
                "state": state.value,
                "lockout": lockout.to_json() if lockout else None,
                "lease": lease,
            }
            del rest["used_by_ms"]
            text = encode_text(rest)[:-1]
            # Their places: a copy with two members more would be laid out once more.
            rest |= dict.fromkeys(("used_by_ms", "heard_ms"))
            kept = self._kept[instrument.number] = made_of, rest, text
        heard = heard_ms(instrument, now_s, now_ms)
        # As JSON has it.
        used, told = ("null" if used_ms is None else used_ms, "null" if heard is None else heard)
        return (
            {**kept[1], "used_by_ms": used_ms, "heard_ms": heard},
            f'{kept[2]},"used_by_ms":{used},"heard_ms":{told}}}',
        )

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
            ends = [end for end in map(_until_ms, self._list) if end is not None]
            self._until_ms = min(ends, default=None)
        return self._list


def _until_ms(entry: Mapping[str, Any]) -> int | None:
    """Until when it stays true by itself: a lease is renewed by each call, and a use forgotten."""
    if entry["lease"] is not None:
        return 0
    used_ms: int | None = entry["used_by_ms"]
    return None if used_ms is None else used_ms + USED_FOR_MS
