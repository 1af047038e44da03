"""The MCP surface, put together: listener, endpoint, sessions, streams, and the tasks they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from edged import __version__
from edged.clock import Clock
from edged.http.server import Listener
from edged.protocol.apps import capability
from edged.protocol.http_rules import AccessPolicy, Guard
from edged.protocol.results import Server
from edged.protocol.server_card import ServerCard
from edged.protocol.sse import ReplayBuffer
from edged.record import record
from edged.surfaces.mcp.calling import Serving
from edged.surfaces.mcp.endpoint import Endpoint
from edged.surfaces.mcp.methods import (
    METHODS,
    Authorize,
    MethodExtension,
    Parts,
)
from edged.surfaces.mcp.news import NewsFeed
from edged.surfaces.mcp.reply import KeepAlives
from edged.surfaces.mcp.request import BodyReader
from edged.surfaces.mcp.seams import (
    Arrivals,
    CallerGuard,
    Choice,
    Dispatcher,
    InstrumentIdOf,
    Neighbour,
    NoResources,
    ResourceSource,
    ToolListing,
    ToolSource,
    no_instrument,
)
from edged.surfaces.mcp.sessions import LeaseKeys, SessionRegistry
from edged.surfaces.mcp.tool_list import ListSize, ToolList, instructions_for

if TYPE_CHECKING:
    from edged.telemetry.spans import Telemetry


@record
class McpSettings:
    """What the owner configures.

    Attributes:
        is_port_shared: started under the supervisor, which listens on the same port elsewhere.
        listing: TOOLS.
        slow_sender_s: how long a request may take to arrive, head and body each.
        keep_alive_s: no open stream is silent for longer.
        challenge: see ``Endpoint``.
        idle_connection_s: a connection without a request is closed after this, at the next look;
            clients' own pools give up much sooner.
    """

    port: int
    path: str = "/mcp"
    host: str = "127.0.0.1"
    is_port_shared: bool = False
    session_idle_s: float = 1_800.0
    max_sessions: int = 10_000
    listing: ToolListing = ToolListing.ALL
    max_connections: int = 12_000
    slow_sender_s: float = 30.0
    keep_alive_s: float = 15.0
    idle_connection_s: float = 75.0
    challenge: Callable[[bool], str] = lambda _has_token: "Bearer"


class McpRoom:
    """Sessions, streams and calls of one endpoint, behind whichever port; made on its loop.

    Args:
        dispatcher: takes tool calls.
        registry: the present tools; its changes go to every session.
        clock: the time.
        new_action_id: makes the id under which a call is recorded.
        settings: see there; the port is not its own.
        server: what it says of itself.
        guard: who a request is from.
        arrivals: how a request is read.
        names: which names, of this machine or others, may be called.
        instrument_id_of: what a client's name for an instrument means.
        first_look: set once the first look at the bench is over. Sessions are opened before it;
            tools are listed and called after it, so that no client reads a list without
            instruments because it was quick.
        resources: what can be read by URI; ``None``: nothing.
        neighbour: what else is served on this port, if anything.
        offers: the methods that are served, of those that a revision has.
        keeps_sessions: false: each request stands alone, so that it may come to any of many rooms.
        authorize: judges the callers of methods that need the permission of a tool.
        lease_keys: who holds leases, and so keeps a session.
        telemetry: told of every request, where the owner exports that.
        extension: methods beside MCP's own.

    Attributes:
        handler: takes the requests of the port.
        session_count, list_size: see ``McpSurface``.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        registry: ToolSource,
        clock: Clock,
        new_action_id: Callable[[], str],
        settings: McpSettings,
        server: Server,
        guard: CallerGuard,
        arrivals: Arrivals,
        names: Guard,
        instrument_id_of: InstrumentIdOf = no_instrument,
        first_look: asyncio.Event | None = None,
        resources: ResourceSource | None = None,
        neighbour: Neighbour | None = None,
        offers: Collection[str] = METHODS,
        keeps_sessions: bool = True,
        authorize: Authorize,
        lease_keys: LeaseKeys,
        telemetry: Telemetry | None = None,
        extension: MethodExtension | None = None,
    ) -> None:
        replay = ReplayBuffer()
        self._registry = registry
        self._resources = resources or NoResources()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: tuple[Callable[[], None], ...] = ()
        self._board = SessionRegistry(
            clock=clock,
            idle_s=settings.session_idle_s,
            max_sessions=settings.max_sessions,
            replay=replay,
            lease_keys=lease_keys,
            may_hear=self._resources.may_read,
            leave=extension.leave if extension is not None else None,
        )
        self._keep_alives = KeepAlives(clock=clock, interval_s=settings.keep_alive_s)
        self._news = NewsFeed(board=self._board, replay=replay, keep_alives=self._keep_alives)
        self._default_choice = Choice(settings.listing)
        self._tool_list = ToolList(
            registry=registry, server=server, instrument_id_of=instrument_id_of
        )
        parts = Parts(
            dispatcher=dispatcher,
            registry=registry,
            tool_list=self._tool_list,
            board=self._board,
            resources=self._resources,
            server=server,
            new_action_id=new_action_id,
            stopping=self._stopping,
            first_look=first_look or _over(),
            path=settings.path,
            offers=offers if extension is None else {*offers, *extension.methods},
            keeps_sessions=keeps_sessions,
            authorize=authorize,
            telemetry=telemetry,
            extension=extension,
        )
        self._serving = Serving(parts=parts, keep_alives=self._keep_alives, clock=clock)
        self.handler = Endpoint(
            door=AccessPolicy(path=settings.path, guard=names),
            guard=guard,
            arrivals=arrivals,
            board=self._board,
            serving=self._serving,
            news=self._news,
            clock=clock,
            default_choice=self._default_choice,
            bodies=BodyReader(within_s=settings.slow_sender_s),
            card=ServerCard(settings.path, names, server),
            neighbour=neighbour,
            keeps_sessions=keeps_sessions,
            challenge=settings.challenge,
        )

    @property
    def session_count(self) -> int:
        """Live sessions."""
        return len(self._board)

    @property
    def list_size(self) -> ListSize:
        """What a client that does not choose has to take of tools."""
        return self._tool_list.size(self._default_choice)

    def start(self) -> None:
        """Begin what goes on by itself."""
        self._unsubscribe = (
            self._registry.subscribe(self._news.tools_changed),
            self._resources.subscribe(self._news.resources_changed),
        )
        self._tasks = [
            asyncio.create_task(self._board.run(), name="mcp sessions"),
            asyncio.create_task(self._keep_alives.run(), name="mcp keep-alives"),
        ]

    def close_door(self) -> None:
        """New requests get 503; calls go on."""
        self.handler.is_closing = True

    async def stop(self, grace_s: float = 1.0) -> None:
        """End sessions and streams, then calls that run on after the grace."""
        self.close_door()
        for end in self._unsubscribe:
            end()
        self._unsubscribe = ()
        self._stopping.set()
        await self._serving.stop(grace_s)
        self._board.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


class McpSurface:
    """The MCP endpoint of the daemon, on a port of its own; made on the loop that it serves on.

    Args:
        takes_upgrade: whether an offer of a WebSocket is for what else is served on this port.
    """

    def __init__(
        self,
        room: McpRoom,
        *,
        settings: McpSettings,
        clock: Clock,
        takes_upgrade: Callable[[bytes], bool],
    ) -> None:
        self._room = room
        self._listener = Listener(
            handler=room.handler,
            name="mcp",
            host=settings.host,
            wanted_port=settings.port,
            is_port_shared=settings.is_port_shared,
            max_connections=settings.max_connections,
            slow_sender_s=settings.slow_sender_s,
            idle_s=settings.idle_connection_s,
            clock=clock,
            takes_upgrade=takes_upgrade,
        )

    @property
    def port(self) -> int:
        """The bound port; 0 while it listens nowhere."""
        return self._listener.port

    @property
    def session_count(self) -> int:
        """Live sessions."""
        return self._room.session_count

    @property
    def list_size(self) -> ListSize:
        """What a client that does not choose has to take of tools."""
        return self._room.list_size

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return self._listener.connection_count

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            Failed: BIND_FAILED, with the reason.
        """
        await self._listener.start()
        self._room.start()

    def close_door(self) -> None:
        """Take no more connections; new requests on open ones get 503; calls go on."""
        self._room.close_door()
        self._listener.close_door()

    async def stop(self, grace_s: float = 1.0) -> None:
        """End sessions and streams, then calls that run on after the grace, then connections."""
        self.close_door()
        await self._room.stop(grace_s)
        await self._listener.stop()


def server_of(registry: ToolSource) -> Server:
    """What the daemon's endpoint says of itself."""
    return Server(
        name="edged",
        version=__version__,
        title="edged lab bench",
        instructions=instructions_for(registry),
        capabilities={
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {},
            "completions": {},
            "extensions": capability(),
        },
    )


def _over() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
