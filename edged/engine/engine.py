"""The engine: constructs every part, in order, and tears it down in reverse.

The composition root: the only place where parts meet. It decides nothing that a part could decide;
reading it top-down shows what the daemon consists of.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from edged import __version__
from edged.actions.action import Action
from edged.clock import SystemClock
from edged.commands.operation import Operation
from edged.config.keys import BenchPage, SdkTools, ToolNames
from edged.config.load import Config
from edged.discovery.heartbeat import Heartbeat
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.engine.bench_page import BenchPageDoor
from edged.engine.binding import PortBinding
from edged.engine.core import Core
from edged.engine.housekeeping import LateImports, LoopWatch, give_back
from edged.engine.idle_restart import IdleRestart
from edged.engine.last_resort import end_at_last
from edged.engine.parts import make_sources, monitor_for
from edged.engine.profile_watch import ProfileWatch
from edged.engine.rehearsals import RealUnit, Rehearsals, request_of
from edged.engine.sim_child import SimChild
from edged.engine.status import Here, StatusReport
from edged.engine.surfaces import (
    McpParts,
    RelayRoute,
    arrivals_of,
    health_of,
    metric_figures,
    rpc_methods,
)
from edged.engine.telemetry import EngineTelemetry
from edged.engine.visa_port import VisaPort
from edged.errors import ErrorCode, Failed
from edged.files import remove, write_atomically
from edged.host import ExitStatus, keep_edge_id
from edged.operations.bench import BenchOperations, InstrumentList
from edged.operations.bench_check import BenchCheck
from edged.operations.history import History
from edged.operations.leases import LeaseOperations
from edged.operations.table import bench_tools, static_tools
from edged.operations.tool_search import ToolSearch
from edged.profiles.authoring.verification import FOLDER
from edged.profiles.bench_file import seen_units
from edged.profiles.library_cache import CACHE
from edged.runs.bench import DATABASE_FILE, Bench
from edged.runs.left_work import LeftWork
from edged.runs.run_head import RunKind
from edged.service import Notifier, say_alive, stop_requested
from edged.store.bench_copy import BenchCopy
from edged.store.database import Database
from edged.supervisor.peer_header import keep_peer_secret
from edged.surfaces.events.feeds import (
    ValueFeed,
    audit_feed,
    instrument_feed,
    stream_feed,
    sweep_feed,
)
from edged.surfaces.events.hub import EventHub
from edged.surfaces.mcp.seams import Arrivals
from edged.surfaces.page.owner import REDIRECT_FILE
from edged.surfaces.rpc.listener import RpcListener
from edged.surfaces.rpc.metrics_source import MetricsSource
from edged.surfaces.rpc.proof import keep_rpc_key
from edged.surfaces.rpc.settings import RpcSettings, Sights
from edged.surfaces.visa.desk import VisaDesk
from edged.surfaces.visa.session import VisaWork
from edged.tools.dispatcher import ToolDispatcher
from edged.tools.registry import ToolRegistry
from edged.transports.visa import VisaLibrary

if TYPE_CHECKING:
    from edged.runs.experiments.run import Plan

log = structlog.get_logger("edged.engine")

ENGINE_FILE: Final = "engine.json"
REMOVE_WITHIN_S: Final = 1.0
FIRST_LOOK_S: Final = 1.0
"""How long a client's first tools/list waits for instruments that answer slowly."""


async def main(
    config: Config, sim: SimChild | None, *, is_supervised: bool, visited: Mapping[str, LeftWork]
) -> int:
    """Run the engine until it is asked to stop; ``life.py`` has what is around it.

    Raises:
        EdgedError: it cannot start.
    """
    # What its method returns, without a method: a write asks the loop for the time a dozen times.
    asyncio.get_running_loop().time = time.monotonic  # type: ignore[method-assign]
    engine = Engine(config, sim=sim, is_supervised=is_supervised, visited=visited)
    with stop_requested() as asked:
        # Before anything is started: a disk may not answer then, either.
        last = asyncio.create_task(end_at_last(asked, lambda: _status(engine)), name="last resort")
        async with contextlib.AsyncExitStack() as parts:
            await engine.start(parts)
            notifier = Notifier(os.environ)
            notifier.ready("engine is running")
            alive = asyncio.create_task(say_alive(notifier, SystemClock()), name="systemd watchdog")
            parts.callback(alive.cancel)
            engine.restart_by(asked)
            await asked.wait()
            if not engine.is_restarting:
                notifier.stopping()
        await last
    tell = log.warning if engine.left_on else log.info
    tell("engine_stopped", left_on=engine.left_on)
    return _status(engine)


class Engine(Core):
    """Every part of the daemon, constructed; ``start`` starts them.

    Args:
        config: the whole configuration.
        sim: the simulated bench to start as a child, or none.
        is_supervised: whether the supervisor listens on the same port.
        visited: what first aid has seen to, by the ids of journal entries.

    Attributes:
        left_on: what may be on once the engine has ended, a clause for each unit.
    """

    def __init__(
        self,
        config: Config,
        *,
        sim: SimChild | None,
        is_supervised: bool,
        visited: Mapping[str, LeftWork],
    ) -> None:
        self.is_restarting = False
        self.left_on: list[str] = []
        self._asked: asyncio.Event | None = None
        self._is_told = False
        clock = SystemClock()
        self._sim = sim
        self._log = log
        self._edge_id = keep_edge_id(config.state_dir, config.edge_id or "")
        self._profiles = ProfileWatch(
            directories=config.profile_dirs,
            bench=BenchCopy(config.bench_file, config.state_dir),
            reports=config.state_dir / FOLDER,
            cache=config.state_dir / CACHE,
            clock=clock,
        )
        self._watch = LoopWatch(clock)
        self._telemetry = EngineTelemetry(os.environ, edge_id=self._edge_id, clock=clock)
        self._rehearsals = Rehearsals()
        super().__init__(
            config,
            clock=clock,
            knowledge=lambda: self._profiles.knowledge,
            visa=VisaLibrary(library=config.visa_library, clock=clock),
            database=Database(path=config.state_dir / DATABASE_FILE, clock=clock),
            is_supervised=is_supervised,
            visited=visited,
            watch_of=self._telemetry.watch_of,
        )
        bench = self._bench
        self._values = ValueFeed(clock)
        self._counts.listener = self._values.hear
        self._discovery = self._make_discovery()
        self._heartbeat = Heartbeat(
            bench.pool,
            clock=bench.clock,
            every_s=config.heartbeat_sec,
            is_used=self._work.uses,
        )
        self._make_tools(bench)
        self._make_ports(bench)

    def _make_tools(self, bench: Bench) -> None:
        """The command path, and what leads to it by name."""
        self._path = self._make_path(self._more_operations(), self._present_tool)
        config = bench.config
        self._registry = ToolRegistry(
            static=static_tools(),
            bench=bench_tools(),
            pool=bench.pool,
            catalog=self._catalog,
            wrappers=self._sdk.registry.offered,
            is_strict=config.tool_names is ToolNames.STRICT,
            uses_aliases=config.tool_names is ToolNames.ALIAS,
            lists_absent=config.sdk_tools is SdkTools.ALL,
        )
        self._sdk.registry.subscribe(self._registry.refresh)
        self._late = LateImports(bench.clock)
        self._dispatcher = ToolDispatcher(
            registry=self._registry,
            path=self._path,
            permissions=self._permissions,
            on_first_call=self._late.begin,
            keep=self._leases.keep,
        )
        self._desk = VisaDesk(
            self._pool,
            self._path.authorize,
            VisaWork(
                begin=self._dispatcher.begin_action,
                judge=self._path.precheck,
                leases=self._leases,
                clock=bench.clock,
                new_id=bench.new_id,
            ),
        )

    def _make_ports(self, bench: Bench) -> None:
        """What listens, and what is told there."""
        config, is_supervised = bench.config, self._is_supervised
        self._restart = IdleRestart(
            bench.clock,
            work=self._work,
            calls=lambda: self._dispatcher.in_flight,
            is_supervised=is_supervised,
            end=self._end_for_restart,
        )
        self._hub = self._make_hub()
        self._relay = RelayRoute(
            bench,
            edge_id=self._edge_id,
            refuse=self._path.record.refuse,
        )
        self._rpc = self._make_rpc()
        self._rpc_binding = PortBinding(
            "rpc",
            bind=self._rpc.start,
            port=lambda: self._rpc.port,
            again_s=config.rescan_interval_sec,
            clock=bench.clock,
        )
        self._engine_file = config.state_dir / ENGINE_FILE
        arrivals = arrivals_of(config.state_dir if is_supervised else None)
        self._visa_port = VisaPort(
            bench,
            desk=self._desk,
            leases=self._leases,
            peer_secret=keep_peer_secret(config.state_dir) if is_supervised else "",
        )
        self._page = BenchPageDoor(
            bench=bench,
            hub=self._hub,
            values=self._values,
            permissions=self._permissions,
            approvals=self._approvals,
            leases=self._leases,
            runs=self._work.runs,
            report=self._work.reports.make,
            status=self._work.seen,
            peer=arrivals.peer,
            note=self._record.method,
        )
        self._mcp = self._make_mcp(arrivals)
        self._status = self._make_status()

    async def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start every part; ``parts`` gets what ends each, so that they end in reverse.

        Raises:
            Failed: the simulated bench did not start.
        """
        self._report_complaints()
        # With the page's key, left by `edged open --full`.
        await asyncio.to_thread(remove, self._config.state_dir / REDIRECT_FILE)
        parts.push_async_callback(self._telemetry.stop)
        await self._stores.start(parts)
        parts.callback(self._note_end)
        self._watch.start()
        parts.callback(self._watch.stop)
        if self._sim is not None:
            await self._sim.wait_ready()
        parts.callback(self._visa.close)
        await asyncio.gather(self._work.clean_up(), self._guards.dead_man.feed_left())
        self._budgets.start()
        self._leases.start()
        parts.push_async_callback(self._leases.stop)
        await self._guards.interlocks.learn(self._profiles.knowledge.bench.interlocks)
        parts.push_async_callback(self._approvals.close)
        parts.callback(self._registry.close)
        parts.push_async_callback(self._late.stop)
        parts.push_async_callback(self._restart.stop)
        parts.push_async_callback(self._rpc.stop)
        parts.push_async_callback(self._rpc_binding.stop)
        await self._rpc_binding.start(self._tell_again)
        self._sdk.start(parts)
        parts.push_async_callback(self._pool.stop)
        parts.push_async_callback(self._discovery.stop)
        self._work.start(parts)
        self._guards.start(parts)
        self._mcp.start_news(parts)
        self._profiles.start(self._learn, met=lambda: seen_units(self._discovery.seen()))
        parts.push_async_callback(asyncio.to_thread, self._profiles.stop)
        await self._discovery.start()
        self._heartbeat.start()
        parts.push_async_callback(self._heartbeat.stop)
        self._relay.start()
        parts.push_async_callback(self._relay.stop)
        parts.push_async_callback(self._page.stop)
        parts.push_async_callback(self._desk.stop)
        await self._mcp.start(parts, bound=self._tell_again)
        await self._visa_port.start(parts, bound=self._tell_again)
        parts.push_async_callback(self._end_work)
        await asyncio.gather(
            self._discovery.first_look(FIRST_LOOK_S), self._sdk.registry.first_look(FIRST_LOOK_S)
        )
        self._mcp.first_look.set()
        await asyncio.to_thread(give_back)
        self._write_engine_file()
        self._log.info(
            "engine_started",
            version=__version__,
            edge_id=self._edge_id,
            mcp_port=self._mcp.surface.port,
            rpc_port=self._rpc.port,
            instruments=len(self._pool.all()),
        )
        if not self._is_supervised:
            self._say_where()

    def _say_where(self) -> None:
        """For the person who started it: where it can be reached, last of all."""
        base = f"http://127.0.0.1:{self._mcp.surface.port}"
        lines = []
        if self._rpc.port:
            lines.append(f"RPC:           http://127.0.0.1:{self._rpc.port}/rpc")
        if self._mcp.surface.port:
            lines.append(f"MCP endpoint:  {base}{self._config.mcp_path}")
        if self._mcp.surface.port and self._config.bench_page is not BenchPage.OFF:
            lines.append(f"The page:      {base}/bench")
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def restart_by(self, asked: asyncio.Event) -> None:
        """What to set when the engine is to end and be started again."""
        self._asked = asked

    def _end_for_restart(self) -> None:
        if self._asked is not None:
            self.is_restarting = True
            self._asked.set()

    async def _end_work(self) -> None:
        """End what runs while its callers are still connected, so that they get their results."""
        self._mcp.close_door()
        self._visa_port.close_door()
        self._rpc_binding.give_up()
        self._rpc.close_door()
        self._send_guards.close()
        await asyncio.gather(self._work.end(), self._end_wrappers(), self._remove_engine_file())

    async def _end_wrappers(self) -> None:
        await self._work.end_wrappers()
        await self._sdk.registry.stop()

    def _note_end(self) -> None:
        """What may be on stays so from here on: the last row and the last log line name it."""
        self.left_on = self._stores.left_on(self._memory.is_off)
        left = f"; left on: {', '.join(self.left_on)}" if self.left_on else ""
        self._stores.audit.event("engine.stopped", f"edged {__version__}{left}")

    async def _learn(self, knowledge: Knowledge) -> list[str]:
        """Profiles or the bench file were changed; what runs goes on with what it began with."""
        changed = await self._discovery.learn(
            knowledge,
            before=lambda: self._catalog.keep_for(self._work.run_ids(), self._pool.known()),
        )
        await self._guards.interlocks.learn(knowledge.bench.interlocks)
        return changed

    def _make_discovery(self) -> Discovery:
        """Discovery over INSTRUMENTS and the buses, with the owner's bench file in force."""
        knowledge = self._profiles.knowledge
        return Discovery(
            self._pool,
            knowledge=knowledge,
            entries=self._config.instruments,
            open_link=self._visa.open_link,
            clock=self._clock,
            rescan_interval_s=self._config.rescan_interval_sec,
            gone_after_s=self._config.gone_after_sec,
            sources=make_sources(
                self._config, knowledge.library.heads.values(), self._sim, self._clock
            ),
            pick_monitor=monitor_for(self._config),
            note_usb=lambda usb_ids: self._sdk.registry.note_seen(usb_ids),
        )

    def _make_rpc(self) -> RpcListener:
        bench, work, watch = self._bench, self._work, self._watch
        figures = metric_figures(
            bench, work, self._guards.interlocks, watch, self._hub, lambda: self._mcp.surface
        )
        self._sights = Sights(
            hub=self._hub,
            health=health_of(bench, watch),
            metrics=MetricsSource(self._counts, figures),
            here=Here(bench=bench, work=work, lease=self._leases.of, lockouts=self._lockouts),
        )
        settings = RpcSettings(
            dispatcher=self._dispatcher,
            token=self._config.inbound_auth_token,
            new_action_id=bench.new_id,
            record=self._record,
            sights=self._sights,
            clock=self._clock,
            own=rpc_methods(
                bench,
                work,
                self._lockout,
                self._leases,
                self._approvals,
                self._discovery,
                self._restart,
                self._relay,
            ),
            key=_rpc_key(self._config.state_dir),
        )
        return RpcListener(settings, port=self._config.rpc_port)

    def _make_hub(self) -> EventHub:
        return EventHub(
            sources={
                "instrument": instrument_feed(self._pool, self._state_of, self._stores.lockouts),
                "sweep": sweep_feed(self._work.sweeps),
                "stream": stream_feed(self._work.streams),
                "audit": audit_feed(self._stores.audit),
                "value": self._values.follow,
            },
            clock=self._clock,
        )

    def _make_mcp(self, arrivals: Arrivals) -> McpParts:
        return McpParts(
            self._bench,
            dispatcher=self._telemetry.around(self._dispatcher),
            registry=self._registry,
            path=self._path,
            permissions=self._permissions,
            work=self._work,
            profiles=lambda: self._profiles.knowledge.library.profiles,
            guard=self._relay.guard,
            arrivals=arrivals,
            neighbour=self._page,
            metrics=self._sights.metrics,
            desk=self._desk,
            leases=self._leases,
            is_supervised=self._is_supervised,
            telemetry=self._telemetry.telemetry,
        )

    def _make_status(self) -> StatusReport:
        return StatusReport(
            self._bench,
            edge_id=self._edge_id,
            work=self._work,
            mcp=self._mcp.status,
            marks=partial(MARKS, self),
            more={
                "rpc": lambda: {"port": self._rpc.port or None, "error": self._rpc_binding.error},
                "relay": self._relay.status,
                "visa": self._visa_port.status,
                "profiles": self._profiles.status,
                **self._work.status(),
                "set_aside": self._discovery.set_aside,
                "discovery": self._discovery.summary,
                "loop": self._watch.status,
                "store": self._stores.status,
                "sdk": self._sdk.registry.status,
                "lockouts": self._lockouts,
                "leases": self._leases.listed,
                "approvals": self._approvals.listed,
                "interlocks": self._guards.interlocks.listed,
                "budgets": self._budgets.listed,
                "dead_man": self._guards.dead_man.listed,
                "told_on": partial(self._stores.told_on_now, self._memory.is_off),
                "telemetry": self._telemetry.status,
                "raw_scpi": lambda: self._config.raw_scpi.value,
                "unlisted_tools": lambda: list(self._registry.unlisted_names()),
            },
        )

    def _lockouts(self) -> list[dict[str, Any]]:
        """What is locked out, with what its owner calls it where that is known."""
        if not self._stores.lockouts.all():
            return []
        known = self._pool.known()
        called = {self._stores.lockout_of(i): i.alias for i in known if i.alias}
        return [
            {**lock.to_json(), "alias": called.get(lock, "")}
            for lock in self._stores.lockouts.all()
        ]

    def _under_way(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """What bench__check tells of beside the units."""
        return {
            "sweeps": self._work.sweeps.active(),
            "streams": self._work.streams.running(),
            "sequences": self._work.registry.running(RunKind.SEQUENCE),
            "experiments": self._work.registry.running(RunKind.EXPERIMENT),
            "lockouts": self._lockouts(),
            "leases": self._leases.listed(),
            "approvals": self._approvals.listed(),
            "interlocks": self._guards.interlocks.listed(),
            "budgets": self._budgets.listed(),
        }

    async def _rehearse(self, plan: Plan) -> dict[str, Any]:
        knowledge, roles = self._knowledge(), plan.checked.units
        found = {unit.id: self._pool.get(unit.id) for unit in roles.values()}
        names = {
            unit_id: unit.alias or f"twin{number}"
            for number, (unit_id, unit) in enumerate(found.items(), 1)
        }
        profiles = knowledge.library.profiles
        request = request_of(
            "experiment",
            {
                "source": plan.source,
                "roles": {role: names[unit.id] for role, unit in roles.items()},
                "parameters": dict(plan.checked.values),
            },
            units=[RealUnit.of(names[key], unit, profiles) for key, unit in found.items()],
            interlocks=knowledge.bench.interlocks,
            config=self._config,
            clock=self._clock,
        )
        return await self._rehearsals.rehearse(request)

    def _is_aside(self, address: str) -> bool:
        return self._discovery.is_aside(address)

    def _is_first_look_over(self) -> bool:
        return self._mcp.first_look.is_set()

    def _present_tool(self, instrument_id: str, plain: str) -> str:
        return self._registry.present_name(instrument_id, plain)

    def _more_operations(self) -> dict[type[Action], Operation]:
        """What can be asked of the daemon beside what its core can do."""
        bench = BenchOperations(
            bench=self._bench,
            discovery=self._discovery,
            catalog=self._catalog,
            profiles=lambda: self._profiles.knowledge.library.heads,
            verified_on=self._profiles.verified_on,
            status=lambda: self._status(),
            listing=InstrumentList(self._bench, self._leases.of),
            make_safe=self._work.bench_stop.stop_all,
            wrappers=lambda: self._sdk.capabilities(self._registry.names_of),
        )
        return {
            **bench.table(),
            **BenchCheck(
                bench=self._bench,
                moves=self._work.moves,
                under_way=self._under_way,
                memory=self._memory,
            ).table(),
            **LeaseOperations(control=self._leases).table(),
            **ToolSearch(pool=self._pool, tools=lambda: self._registry.usable()).table(),
            **History(
                bench=self._bench,
                permissions=self._permissions,
                plain_name=lambda name: self._registry.plain_name(name),
            ).table(),
            **self._sdk.operations(),
        }

    def _report_complaints(self) -> None:
        library = self._profiles.knowledge.library
        for complaint in library.complaints:
            self._log.warning("profile_refused", complaint=complaint.sentence)
        if refused := self._profiles.status()["bench_error"]:
            self._log.warning("bench_file_refused", reason=refused)
        for entry in self._config.instruments:
            missing = library.missing(entry.profile) if entry.profile is not None else ""
            if missing:
                self._log.warning("profile_missing", address=entry.address, complaint=missing)

    def _tell_again(self) -> None:
        """A port was bound that had been taken; before the first telling and after the last, no."""
        if self._is_told:
            self._write_engine_file()

    def _write_engine_file(self) -> None:
        """Where the CLI and the supervisor look for this engine."""
        self._is_told = True
        ports = {
            "pid": os.getpid(),
            "version": __version__,
            "mcp_port": self._mcp.surface.port or None,
            "mcp_path": self._config.mcp_path,
            "rpc_port": self._rpc.port or None,
            "rpc_error": self._rpc_binding.error,
            "hislip_port": self._visa_port.port,
            "sim_control_port": self._sim.control_port if self._sim else None,
            "bench_file": str(self._config.bench_file),
        }
        write_atomically(self._engine_file, json.dumps(ports, indent=1) + "\n")

    async def _remove_engine_file(self) -> None:
        """Not on the loop: a disk that does not answer must not keep it from what matters more."""
        removing = asyncio.ensure_future(asyncio.to_thread(remove, self._engine_file))
        await asyncio.wait({removing}, timeout=REMOVE_WITHIN_S)
        if removing.done() and (trouble := removing.exception()) is not None:
            self._log.warning("engine_file_left", reason=str(trouble))


def _status(engine: Engine) -> ExitStatus:
    return ExitStatus.RESTART if engine.is_restarting else ExitStatus.OK


def _rpc_key(state_dir: Path) -> bytes:
    try:
        return keep_rpc_key(state_dir)
    except OSError as error:
        raise Failed(
            f"The key of the RPC port cannot be kept in {state_dir}: {error.strerror}.",
            code=ErrorCode.STORE_FAILED,
        ) from error


MARKS: Final = attrgetter(
    "_path.performed",
    "_registry.generation",
    "_profiles.changes",
    "_pool.changes",
    "_mcp.surface.session_count",
    "_stores.lockouts.changes",
    "_leases.changes",
    "_approvals.changes",
    "_guards.interlocks.changes",
    "_budgets.changes",
    "_guards.dead_man.changes",
)
"""Of an engine: another value after anything that get_status tells of was done."""
