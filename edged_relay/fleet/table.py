"""Who is here, by what each edge said last. Pure: time comes in as a value.

An edge that has said nothing for thirty seconds is away, and stays in the table with what it said.
Its last good word stays where a later one is none.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Final

from edged.auth.claims import EVERY_EDGE, is_edge_id
from edged.record import part, record
from edged.relay.announcement import AWAY_S, BadAnnouncementError, Said, edge_of, read_said
from edged.sharing.leases import Moment
from edged_relay.fleet.hosts import NO_HOSTS, FleetHosts

MAX_TABLED_EDGES: Final = 10_000
MAX_TABLED_BYTES: Final = 256 * 1024 * 1024
"""Of all announcements as they came; a front holds some four times as much."""
SPEAKS_AT_ONCE: Final = 30.0
SPEAKS_A_SECOND: Final = 0.5
"""New words of one edge that are read; who says more than that is not listened to."""
ANSWERING: Final = "ready"
"""A unit that is at work for somebody is not free, nor is one that does not answer."""


class EdgeState(enum.StrEnum):
    """Whether an edge has said something within the last thirty seconds."""

    HERE = "here"
    AWAY = "away"


@record(frozen=False)
class Edge:
    """One edge.

    Attributes:
        said: its last good word.
        size: of that, in bytes; ``mark`` tells whether another is the same.
        heard: when it came.
    """

    edge_id: str
    said: Said
    size: int
    mark: int
    heard: Moment

    def state(self, now: Moment) -> EdgeState:
        """Whether it is here."""
        silent_s = now.monotonic_s - self.heard.monotonic_s
        return EdgeState.HERE if silent_s <= AWAY_S else EdgeState.AWAY

    def told(self, now: Moment) -> dict[str, Any]:
        """Its entry of ``GET /fleet`` and fleet__list_edges."""
        said = self.said
        return {
            "edge_id": self.edge_id,
            "state": self.state(now).value,
            "last_ms": self.heard.wall_ms,
            "version": said.version,
            "units": list(said.units),
            "runs": list(said.runs),
            "lockouts": list(said.lockouts),
            "page": said.page or None,
            **({"left_out": said.left_out} if said.left_out else {}),
        }

    def is_free(self, unit: Mapping[str, Any], now: Moment) -> bool:
        """Whether somebody may take one of its units: it answers, and is nobody's."""
        names = {unit["id"], unit["alias"]} - {""}
        return (
            self.state(now) is EdgeState.HERE
            and unit["state"] == ANSWERING
            and unit["lease"] is None
            and not unit["is_in_use"]
            and all(lock["instrument_id"] not in names for lock in self.said.lockouts)
            and all(run["instrument_id"] not in names for run in self.said.runs)
        )


@part
class EdgeTable:
    """All edges that were ever heard, within bounds.

    Attributes:
        hosts: where the page and the metrics of an edge may be.
        most_edges, most_bytes: the bounds; who has been away for longest makes room.
    """

    hosts: FleetHosts = NO_HOSTS
    most_edges: int = MAX_TABLED_EDGES
    most_bytes: int = MAX_TABLED_BYTES
    _edges: dict[str, Edge] = field(default_factory=dict)
    _bytes: int = 0
    # How many words of each are read yet, and when that was counted.
    _patience: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._edges)

    def hear(self, subject: str, data: bytes, now: Moment) -> Edge | None:
        """Take an announcement; gives the edge where it said something new, else ``None``.

        Args:
            subject: whose word it is.

        Raises:
            BadAnnouncementError: it is none, or there is no room; the last good one stays.
        """
        edge_id, mark = edge_of(subject), hash(data)
        known = self._edges.get(edge_id)
        if known is not None and (known.mark, known.size) == (mark, len(data)):
            known.heard = now
            return None
        if not edge_id:
            raise BadAnnouncementError("It is on the subject of no edge.")
        self._listen(edge_id, now)
        said = self.hosts.checked(edge_id, read_said(data))
        return self._take(Edge(edge_id=edge_id, said=said, size=len(data), mark=mark, heard=now))

    def recall(self, edge_id: str, data: bytes, heard: Moment) -> None:
        """Take what was kept of an edge, unless it has been heard since.

        Raises:
            BadAnnouncementError: it is none, or there is no room.
        """
        if not is_edge_id(edge_id):
            raise BadAnnouncementError("It was kept of no edge.")
        known = self._edges.get(edge_id)
        if known is None or known.heard.monotonic_s < heard.monotonic_s:
            said = self.hosts.checked(edge_id, read_said(data))
            self._take(
                Edge(edge_id=edge_id, said=said, size=len(data), mark=hash(data), heard=heard)
            )

    def find(self, edge_id: str) -> Edge | None:
        """One edge."""
        return self._edges.get(edge_id)

    def listed(self, allowed: Collection[str]) -> list[Edge]:
        """The edges that are known, of those that a caller may see, by their ids."""
        wanted = self._edges if EVERY_EDGE in allowed else sorted(set(allowed) & set(self._edges))
        return [self._edges[edge_id] for edge_id in sorted(wanted)]

    def _listen(self, edge_id: str, now: Moment) -> None:
        left, counted_s = self._patience.get(edge_id, (SPEAKS_AT_ONCE, now.monotonic_s))
        left = min(SPEAKS_AT_ONCE, left + (now.monotonic_s - counted_s) * SPEAKS_A_SECOND)
        if left < 1:
            raise BadAnnouncementError("It sends announcements too often.")
        if len(self._patience) > 2 * self.most_edges:
            self._patience.clear()
        self._patience[edge_id] = left - 1, now.monotonic_s

    def _take(self, edge: Edge) -> Edge:
        known = self._edges.get(edge.edge_id)
        added = edge.size - (known.size if known is not None else 0)
        while known is None and len(self._edges) >= self.most_edges:
            self._make_room(edge)
        while self._bytes + added > self.most_bytes:
            self._make_room(edge)
        self._edges[edge.edge_id] = edge
        self._bytes += added
        return edge

    def _make_room(self, edge: Edge) -> None:
        """The one that has been silent for longest goes, if it is away."""
        oldest = min(
            (other for other in self._edges.values() if other.edge_id != edge.edge_id),
            key=lambda other: other.heard.monotonic_s,
            default=None,
        )
        if oldest is None or oldest.state(edge.heard) is EdgeState.HERE:
            raise BadAnnouncementError("The table of edges is full.")
        del self._edges[oldest.edge_id]
        self._bytes -= oldest.size
