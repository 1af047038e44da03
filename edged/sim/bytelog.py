"""Every byte of the bench with its time: a ring in memory, and a file of JSON lines if wanted.

Tests read from here what did and what did *not* reach an instrument.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from edged.clock import Clock

__all__ = ["ByteLog", "Entry"]

MOST_ENTRIES: Final = 200_000
MOST_BYTES: Final = 64 * 1024 * 1024
SHOWN_BYTES: Final = 4096
"""Of one entry, where it is shown over the control port; the file has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened on a wire.

    ``direction``: ``in`` (to the instrument), ``out`` (from it), ``open`` and ``close`` (of a
    connection), ``refused``. ``t``: monotonic seconds of the simulator; the same scale as every
    process of a Linux machine.
    """

    seq: int
    t: float
    wall_ms: int
    instrument: str
    connection: int
    direction: str
    data: bytes

    def as_json(self, *, most_bytes: int | None = None) -> dict[str, object]:
        """JSON-ready; ``size`` is the true number of bytes even where the rest is cut."""
        data = self.data[:most_bytes]
        return {
            "seq": self.seq,
            "t": self.t,
            "wall_ms": self.wall_ms,
            "instrument": self.instrument,
            "connection": self.connection,
            "direction": self.direction,
            "size": len(self.data),
            "text": data[:SHOWN_BYTES].decode("latin-1"),
            "hex": data.hex(),
        }


class ByteLog:
    """The log of one bench; written and read on its event loop only."""

    def __init__(self, clock: Clock, file: Path | None = None) -> None:
        self._clock = clock
        self._ring: deque[Entry] = deque()
        self._bytes = 0
        self._seq = 0
        self._file: TextIO | None = file.open("a", encoding="ascii") if file else None

    def __enter__(self) -> ByteLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def record(self, instrument: str, connection: int, direction: str, data: bytes = b"") -> None:
        """Note that it happened, now."""
        self._seq += 1
        entry = Entry(
            seq=self._seq,
            t=self._clock.monotonic(),
            wall_ms=self._clock.wall_ms(),
            instrument=instrument,
            connection=connection,
            direction=direction,
            data=data,
        )
        self._ring.append(entry)
        self._bytes += len(data)
        while len(self._ring) > MOST_ENTRIES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._ring.popleft().data)
        if self._file is not None:
            self._file.write(json.dumps(entry.as_json()) + "\n")
            self._file.flush()

    def entries(self, *, instrument: str = "", since: int = 0, limit: int = 10_000) -> list[Entry]:
        """The oldest ``limit`` entries after number ``since``, of one instrument or of all."""
        chosen: list[Entry] = []
        for entry in self._ring:
            if entry.seq > since and instrument in ("", entry.instrument):
                chosen.append(entry)
                if len(chosen) >= limit:
                    break
        return chosen

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._seq

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
