"""The bench page put together, with the first request to it: an engine nobody looks at has none."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from aiohttp.http_parser import RawRequestMessage

from edged import __version__
from edged.auth.permissions import Permissions
from edged.commands.approvals import ApprovalControl
from edged.commands.leases import LeaseControl
from edged.commands.record import MethodRecord
from edged.config.keys import BenchPage
from edged.config.load import Config
from edged.errors import Conflict, NotFound
from edged.host import host_name, qualified_host_name
from edged.http.connection import HttpConnection
from edged.http.late import LateHandler
from edged.profiles.confirm import Way
from edged.protocol.http_rules import Guard
from edged.record import record
from edged.runs.bench import Bench
from edged.runs.recordings.reader import archives_of, export_run, view_of_run
from edged.runs.recordings.registry import RunRegistry
from edged.surfaces.events.feeds import ValueFeed
from edged.surfaces.events.hub import EventHub
from edged.surfaces.mcp.seams import TrustedPeer
from edged.surfaces.page import PATH

if TYPE_CHECKING:
    from edged.surfaces.page.server import PageServer

BELOW: Final = ("/bench/", "/bench?")
NO_VIEW: Final[Mapping[str, Any]] = {"dimensions": [], "plots": [], "logs": {}, "tested": []}
"""Of a run without a recording."""
EVENTS: Final = (b"GET /bench/events ", b"GET /bench/events?")


def own_names(config: Config) -> Guard:
    """Which Host and Origin may come in at the MCP port."""
    return Guard.of(
        host_name=host_name(),
        qualified_name=qualified_host_name(),
        allowed_hosts=config.allowed_hosts,
        allowed_origins=config.allowed_origins,
    )


@record(frozen=False)
class BenchPageDoor:
    """What of the MCP port is the page's; ``Neighbour`` of the endpoint.

    Attributes:
        report: gives a run's report, one HTML file.
        status: how an experiment stands, by its run's id; ``None`` of what is not in memory.
        peer: says whose a connection is.
        note: for the record.
    """

    bench: Bench
    hub: EventHub
    values: ValueFeed
    permissions: Permissions
    approvals: ApprovalControl
    leases: LeaseControl
    runs: RunRegistry
    report: Callable[[str], Awaitable[bytes]]
    status: Callable[[str], dict[str, Any] | None]
    peer: TrustedPeer
    note: MethodRecord
    _late: LateHandler[PageServer] = field(init=False)

    def __post_init__(self) -> None:
        self._late = LateHandler(self._make, module="edged.surfaces.page.server", name="bench page")

    def takes(self, path: str) -> bool:
        if self.bench.config.bench_page is BenchPage.OFF:
            return False
        return path == PATH or path.startswith(BELOW)

    def takes_upgrade(self, head: bytes) -> bool:
        return self.bench.config.bench_page is not BenchPage.OFF and head.startswith(EVENTS)

    def is_looking(self, token: str) -> bool:
        page = self._late.handler
        return page is not None and token in page.looks

    def serve(
        self, connection: HttpConnection, message: RawRequestMessage, body: bytes | None
    ) -> None:
        """See ``RequestHandler``; the first request waits until the page has been read."""
        self._late.serve(connection, message, body)

    async def stop(self) -> None:
        """Say goodbye to the open pages."""
        await self._late.stop()
        if self._late.handler is not None:
            await self._late.handler.stop()

    async def _make(self) -> PageServer:
        # Here: its modules and files are for those who look.
        from edged.surfaces.page.owner import OwnerAnswers
        from edged.surfaces.page.server import PageServer, PageWorld

        server = PageServer(
            PageWorld(
                bench=self.bench,
                facts=self._facts(),
                guard=own_names(self.bench.config),
                peer=self.peer,
                hub=self.hub,
                latest=self.values.latest,
                permissions=self.permissions,
                owner=OwnerAnswers(
                    is_full=self.bench.config.bench_page is BenchPage.FULL,
                    state_dir=self.bench.config.state_dir,
                    approve=self._approve,
                    deny=self._deny,
                    break_lease=self._break_lease,
                ),
                downloads=self._pieces,
                report=self.report,
                view=self._view,
                note=self.note,
            )
        )
        await server.start()
        return server

    def _facts(self) -> Mapping[str, Any]:
        return {
            "mode": self.bench.config.bench_page.value,
            "mcp_path": self.bench.config.mcp_path,
            "edge": self.bench.config.edge_name,
            "version": __version__,
        }

    async def _approve(self, approval_id: str, by: str) -> dict[str, Any]:
        return await self.approvals.answer(approval_id, is_yes=True, way=Way.PAGE, by=by)

    async def _deny(self, approval_id: str, by: str) -> dict[str, Any]:
        return await self.approvals.answer(approval_id, is_yes=False, way=Way.PAGE, by=by)

    async def _break_lease(self, name: str, reason: str, by: str) -> dict[str, Any]:
        return await self.leases.break_(name, reason=reason, by=by)

    async def _view(self, run_id: str) -> dict[str, Any]:
        """The status before the rest is read, which may be newer and never older."""
        status = self.status(run_id)
        try:
            recorded: Mapping[str, Any] = await self.runs.read(view_of_run, run_id)
        except NotFound:
            # One that was refused a recording is shown all the same.
            if status is None:
                raise
            recorded = NO_VIEW
        return {"status": status, **recorded}

    async def _pieces(self, run_id: str, form: str) -> AsyncIterator[bytes]:
        """A run's file, piece by piece as it is on the disk."""
        # To its end, where it has ended; else all that has been measured until now.
        await self.runs.closed(run_id)
        await self.runs.written(run_id)
        if form == "npz":
            await self._check_single(run_id)
        offset: int | None = 0
        while offset is not None:
            piece = await self.runs.read(export_run, run_id, form, offset)
            offset, content = piece["next_offset"], piece["content"]
            if piece["encoding"] == "base64":
                yield await asyncio.to_thread(base64.b64decode, content)
            else:
                yield content.encode("utf-8")

    async def _check_single(self, run_id: str) -> None:
        """One zip behind another is no zip."""
        count = await self.runs.read(archives_of, run_id)
        if count > 1:
            raise Conflict(
                f"The waveforms of {run_id} are in {count} archives, not in a single file.",
                remedy=f"On the computer of the bench: edged runs export {run_id} --format npz.",
            )
