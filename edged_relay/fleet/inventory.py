"""The table in NATS JetStream, for where it is to outlive all fronts (RELAY_INVENTORY).

A front that begins takes from there what is known; what it hears it writes there: a new word soon,
the same one once a minute. Where that fails the front goes on from memory, and tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final, Protocol

import structlog

from edged.clock import Clock
from edged.relay.announcement import MAX_ANNOUNCED_BYTES, BadAnnouncementError
from edged.sharing.leases import Moment
from edged_relay.fleet.table import Edge, EdgeTable

BUCKET: Final = "edged_fleet"
KEPT_S: Final = 30 * 24 * 3_600.0
"""An edge that nobody has heard for a month is forgotten."""
HEAD_BYTES: Final = 64
TIME_MS: Final = re.compile(rb"[0-9]{1,16}")
"""When it was heard; what is no such time must not keep the others from being recalled."""
MOST_KEPT_BYTES: Final = MAX_ANNOUNCED_BYTES + HEAD_BYTES
REPEAT_S: Final = 60.0
AGAIN_S: Final = 5.0


class Kept(Protocol):
    """A key-value store; see ``relay.key_store.KeyStore``."""

    async def read_all(self) -> dict[str, bytes]:
        """Every key and its value. Raises ``ConnectionError``."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keep a value. Raises ``ConnectionError``."""
        ...


class Inventory:
    """Keeps a table; ``service.Keep``.

    Args:
        store: where.
        table: gets what was kept.
        clock: for ages and pauses.

    Attributes:
        is_recalled: the table has what was kept.
    """

    def __init__(self, store: Kept, table: EdgeTable, *, clock: Clock) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._log = structlog.get_logger("edged.fleet")
        # Which word of an edge was put when; and what is to be put, the newest of each.
        self._put: dict[str, tuple[int, float]] = {}
        self._due: dict[str, tuple[Edge, bytes]] = {}
        self._is_due = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._trouble = ""
        self.is_recalled = False

    def start(self) -> None:
        """Begin to recall and to keep."""
        self._running = asyncio.create_task(self._run(), name="fleet inventory")

    async def stop(self) -> None:
        """Keep no more."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def note(self, edge: Edge, data: bytes) -> None:
        mark, put_s = self._put.get(edge.edge_id, (0, float("-inf")))
        if mark == edge.mark and edge.heard.monotonic_s - put_s < REPEAT_S:
            return
        self._due[edge.edge_id] = edge, data
        self._is_due.set()

    async def _run(self) -> None:
        while True:
            try:
                if not self.is_recalled:
                    await self._recall()
                await self._write()
            except ConnectionError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    self._log.warning("inventory_not_kept", reason=self._trouble)
            except Exception:  # noqa: BLE001 - logged, and tried again
                self._log.exception("inventory_failed")
            await self._clock.sleep(AGAIN_S)

    async def _recall(self) -> None:
        kept = await self._store.read_all()
        now_s, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        for edge_id, value in kept.items():
            with contextlib.suppress(BadAnnouncementError):
                head, _, data = value.partition(b"\n")
                if not TIME_MS.fullmatch(head):
                    continue
                heard_ms = min(int(head), now_ms)
                heard = Moment(now_s - (now_ms - heard_ms) / 1_000, heard_ms)
                self._table.recall(edge_id, data, heard)
        self.is_recalled = True
        self._log.info("inventory_recalled", edges=len(kept))

    async def _write(self) -> None:
        """Put what is due, for ever."""
        while True:
            self._is_due.clear()
            while self._due:
                edge_id, (edge, data) = next(iter(self._due.items()))
                heard = edge.heard
                await self._store.put(edge_id, b"%d\n%b" % (heard.wall_ms, data))
                self._trouble = ""
                self._put[edge_id] = edge.mark, heard.monotonic_s
                if self._due.get(edge_id, (None, b""))[1] is data:
                    del self._due[edge_id]
            await self._is_due.wait()
