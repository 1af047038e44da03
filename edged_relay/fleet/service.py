"""The fleet's part of a relay front, put together: the table, its pages, its endpoint."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from edged import __version__
from edged.actions.caller import Caller
from edged.auth.claims import FleetDoor
from edged.clock import Clock
from edged.errors import EdgedError
from edged.http.connection import RequestHandler
from edged.protocol.http_rules import Guard
from edged.protocol.results import Server
from edged.relay.announcement import EVERY_S, HERE, BadAnnouncementError
from edged.relay.carrier import RelayWire
from edged.relay.link import RelayMessage
from edged.surfaces.mcp.caller import RelayGuard, TokenVerifier
from edged.surfaces.mcp.methods import allow_no_tool
from edged.surfaces.mcp.seams import Arrivals, socket_peer
from edged.surfaces.mcp.sessions import no_leases
from edged.surfaces.mcp.surface import McpRoom, McpSettings
from edged_relay.exchanges import Exchanges
from edged_relay.fleet.desk import FleetDesk
from edged_relay.fleet.door import MCP_PATH, FleetEntrance, FleetGuard, bearer_head
from edged_relay.fleet.pages import FleetPages
from edged_relay.fleet.reach import EdgeReach
from edged_relay.fleet.table import Edge, EdgeTable
from edged_relay.fleet.tools import INSTRUCTIONS, FleetTools
from edged_relay.login import LoginMetadata, challenge_of

OFFERED: Final = frozenset(
    {"initialize", "ping", "server/discover", "tools/list", "tools/call", "subscriptions/listen"}
)
MAX_COMPLAINTS: Final = 1_000
COMPLETE_AFTER_S: Final = 2 * EVERY_S
"""Every edge that is here has spoken twice by then."""


class Keep(Protocol):
    """Where what edges said outlives this front."""

    def note(self, edge: Edge, data: bytes) -> None:
        """Keep it, soon; never waits."""
        ...

    @property
    def is_recalled(self) -> bool:
        """Whether the table has what was kept."""
        ...


class _Forget:
    """Keeps nothing."""

    is_recalled = False

    def note(self, _edge: Edge, _data: bytes) -> None:
        """See ``Keep``."""


forget: Final = _Forget()


class Fleet:
    """The fleet as one front sees it; made on its loop.

    Args:
        wire: where edges are heard.
        exchanges: by which they are asked.
        verifier: verifies tokens.
        takes_all: FLEET_ALL.
        names: which Host and Origin may come in.
        table: who is here.
        keep: where it outlives this front.
        login: how a client finds who gives tokens, if that can be told.
        clock: the time.
    """

    def __init__(
        self,
        wire: RelayWire,
        exchanges: Exchanges,
        *,
        verifier: TokenVerifier,
        takes_all: bool,
        names: Guard,
        table: EdgeTable,
        keep: Keep = forget,
        login: LoginMetadata | None = None,
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._keep = keep
        self._table = table
        self._began_s = clock.monotonic()
        self._complaints: dict[str, str] = {}
        self._log = structlog.get_logger("edged.fleet")
        guard = FleetGuard(
            RelayGuard(
                verifier=verifier,
                door=FleetDoor(takes_all=takes_all),
                refuse=self._refuse,
                clock=clock,
            )
        )
        tools = FleetTools()
        self._desk = FleetDesk(
            table=table,
            reach=EdgeReach(exchanges),
            tools=tools,
            clock=clock,
            is_complete=self._is_complete,
        )
        self._pages = FleetPages(table, guard=guard, names=names, now=self._desk.now)
        self._room = McpRoom(
            dispatcher=self._desk,
            registry=tools,
            clock=clock,
            new_action_id=_action_ids(),
            settings=McpSettings(
                port=0,
                path=MCP_PATH,
                challenge=lambda has_token: challenge_of(login, MCP_PATH, has_token=has_token),
            ),
            server=Server(
                name="edged",
                version=__version__,
                title="edged fleet",
                instructions=INSTRUCTIONS,
                capabilities={"tools": {}},
            ),
            guard=guard,
            arrivals=Arrivals(peer=socket_peer, read_head=bearer_head),
            names=names,
            offers=OFFERED,
            keeps_sessions=False,
            authorize=allow_no_tool,
            lease_keys=no_leases,
        )

    async def start(self) -> None:
        """Begin to hear edges; the wire may be opened before or after."""
        self._room.start()
        await self._wire.subscribe(HERE, self._hear)

    async def stop(self) -> None:
        """End what is under way."""
        await self._room.stop(0.0)
        await self._desk.stop()

    def entrance(self, front: RequestHandler) -> RequestHandler:
        """What takes the requests of the port; the front's are passed on to it."""
        return FleetEntrance(mcp=self._room.handler, pages=self._pages.handler, front=front)

    async def _hear(self, message: RelayMessage) -> None:
        try:
            self._table.hear(message.subject, message.data, self._desk.now())
        except BadAnnouncementError as bad:
            self._complain(message.subject, str(bad))
            return
        edge = self._table.find(message.subject.split(".")[1])
        if edge is not None:
            self._keep.note(edge, message.data)

    def _complain(self, subject: str, reason: str) -> None:
        """Once for each trouble of each edge: one that babbles must not fill the log."""
        if self._complaints.get(subject) == reason:
            return
        if len(self._complaints) >= MAX_COMPLAINTS:
            self._complaints.clear()
        self._complaints[subject] = reason
        self._log.warning("announcement_dropped", subject=subject[:128], reason=reason)

    def _is_complete(self) -> bool:
        has_waited = self._clock.monotonic() - self._began_s >= COMPLETE_AFTER_S
        return has_waited or self._keep.is_recalled

    def _refuse(self, caller: Caller, asked: str, error: EdgedError) -> None:
        self._log.info("fleet_token_refused", peer=caller.remote, asked=asked, reason=error.message)


def _action_ids() -> Callable[[], str]:
    start, count = secrets.token_hex(5), itertools.count(1)
    return lambda: f"{start}-{next(count)}"
