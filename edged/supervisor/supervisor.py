"""The supervisor: keeps an engine running, carries its MCP port to the network, says how it is.

It loads no instrument code, so what can go wrong in the engine cannot go wrong here. It restarts an
engine that ended or hung, at once the first time and then ever more slowly; an engine that ended
because its configuration is wrong (exit status 78) is not started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import structlog

from edged.clock import Clock, SystemClock
from edged.config.keys import VisaServer
from edged.config.load import Config
from edged.errors import EdgedError, Invalid
from edged.files import remove, write_atomically
from edged.host import SUPERVISOR_FILE, ExitStatus
from edged.http.pulse import Pulse
from edged.record import record
from edged.service import Notifier, StateLock, say_alive, stop_requested
from edged.supervisor.engine_child import EngineChild
from edged.supervisor.peer_header import (
    PEER_HEADER,
    keep_peer_secret,
    relayed_value,
)
from edged.supervisor.proxied import ClientSide, HislipSide
from edged.supervisor.proxy import MakeSide, PortProxy, ProxySettings
from edged.supervisor.watchdog import Health, Watchdog

if TYPE_CHECKING:
    from edged.supervisor.relay_end import RelayEnd

READY_WITHIN_S: Final = 60.0
LONGEST_READY_S: Final = 480.0
STEADY_S: Final = 60.0
LONGEST_BACKOFF_S: Final = 30.0
NEXT_LIFE_WITHIN_S: Final = 2 * LONGEST_BACKOFF_S
"""From the end of a start that took too long until the service manager hears of the next one."""
LONGEST_WHEN_READY_S: Final = 1.0
TAKEN_BACKOFF_S: Final = 2.0
PART_AGAIN_S: Final = 1.0
LOOK_FOR_PORTS_S: Final = 1.0
LAST_WORDS_S: Final = 1.0
CAN_BEGIN_ANEW: Final = sys.platform == "linux"
"""Elsewhere a process cannot become another program: the engine alone is begun anew."""


def backoff_s(failures: int, *, got_ready: bool = False) -> float:
    """How long to wait before the next start after so many ends in a row.

    An engine that got ready may have left a sweep whose abort the next one must send, within three
    seconds of the end (docs/promises.md section 13): it is not waited for longer than a second.
    """
    if failures <= 1:
        return 0.0
    longest_s = LONGEST_WHEN_READY_S if got_ready else LONGEST_BACKOFF_S
    return min(longest_s, 0.5 * 2.0 ** min(failures - 2, 10))


def ready_within_s(too_slow: int) -> float:
    """How long a start may take, after so many in a row that took too long.

    A computer too busy for the first one would otherwise never get through any.
    """
    return min(LONGEST_READY_S, READY_WITHIN_S * 2.0 ** min(too_slow, 10))


def run(config: Config, *, engine_arguments: Sequence[str], is_port_shared: bool) -> int:
    """Supervise until asked to stop; returns the exit status.

    RESTART asks for this program to be begun anew, with what is installed now.
    """
    lock = StateLock(config.state_dir, name="supervisor.lock", what="supervisor")
    try:
        lock.take()
        return asyncio.run(_main(config, engine_arguments, is_port_shared))
    except Invalid as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.CONFIG
    except EdgedError as error:
        sys.stderr.write(f"edged: {error}\n")
        return ExitStatus.UNAVAILABLE
    finally:
        lock.release()


async def _main(config: Config, engine_arguments: Sequence[str], is_port_shared: bool) -> int:
    supervisor = Supervisor(
        config,
        engine_arguments=engine_arguments,
        is_port_shared=is_port_shared,
        notifier=Notifier(os.environ),
        clock=SystemClock(),
    )
    with stop_requested() as asked:
        return await supervisor.run(asked)


@record(frozen=False)
class CarriedPort:
    """One port of the engine that is carried to the network: MCP's, or HiSLIP's.

    Attributes:
        name: what the port is called: ``mcp``.
        key: the configuration key of its number.
        configured: the number there; 0: the engine's system chooses.
        port_of: where an engine listens for it; ``None`` while it does not.
        proxy: carries it.
        carrying: its task, once the port is known.
    """

    name: str
    key: str
    configured: int
    port_of: Callable[[Health], int | None]
    proxy: PortProxy
    carrying: asyncio.Task[None] | None = None

    def told(self) -> dict[str, object]:
        """Where it is open, for supervisor.json."""
        return {"port": self.proxy.port, "addresses": self.proxy.listening}


class Supervisor:
    """Keeps one engine running.

    Args:
        config: the whole configuration.
        engine_arguments: what the engine is started with.
        is_port_shared: see ``ProxySettings``.
        notifier: the service manager.
        clock: for backoff and watching.
    """

    def __init__(
        self,
        config: Config,
        *,
        engine_arguments: Sequence[str],
        is_port_shared: bool,
        notifier: Notifier,
        clock: Clock,
    ) -> None:
        self._config = config
        self._engine_arguments = list(engine_arguments)
        self._notifier = notifier
        self._clock = clock
        self._log = structlog.get_logger("edged.supervisor")
        self._secret = keep_peer_secret(config.state_dir)
        self._health: Health | None = None
        self._pulse = Pulse(clock)
        settings = ProxySettings(
            expose=config.expose,
            allowed_networks=config.allowed_networks,
            peer_secret=self._secret,
            is_port_shared=is_port_shared,
        )
        self._mcp = self._make_door(
            "mcp", "MCP_PORT", config.mcp_port, settings, lambda health: health.mcp_port
        )
        self._doors = [self._mcp]
        if VisaServer.HISLIP in config.visa_server and config.expose_visa:
            hislip = self._make_door(
                "hislip",
                "HISLIP_PORT",
                config.hislip_port,
                settings,
                lambda health: health.hislip_port,
                HislipSide,
            )
            self._doors.append(hislip)
        self._got_ready = False
        # Starts in a row that were given up because they took too long.
        self._too_slow = 0
        self._relay: RelayEnd | None = None
        # Of engines that have ended, their last words not all passed on yet.
        self._outputs: set[asyncio.Task[None]] = set()
        self.restarts = 0

    def _make_door(
        self,
        name: str,
        key: str,
        configured: int,
        settings: ProxySettings,
        port_of: Callable[[Health], int | None],
        make_side: MakeSide = ClientSide,
    ) -> CarriedPort:
        def engine_port() -> int | None:
            return port_of(self._health) if self._health is not None else None

        proxy = PortProxy(
            settings,
            engine_port=engine_port,
            pulse=self._pulse,
            changed=lambda _addresses: self._tell(),
            clock=self._clock,
            make_side=make_side,
        )
        return CarriedPort(name=name, key=key, configured=configured, port_of=port_of, proxy=proxy)

    async def run(self, asked: asyncio.Event) -> int:
        """Supervise until ``asked`` is set."""
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(say_alive(self._notifier, self._clock), name="supervisor watchdog")
        ]
        for door in self._doors:
            if door.configured and (door is not self._mcp or self._config.mcp_enabled):
                self._open(door, door.configured)
        if self._config.relay_nats_url is not None:
            carrying = self._kept("relay carrier", self._carry_relayed)
            tasks.append(asyncio.create_task(carrying, name="relay carrier"))
        keeping = asyncio.create_task(self._keep_running(), name="keep the engine running")
        stopping = asyncio.create_task(asked.wait(), name="stop request")
        try:
            await asyncio.wait({keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            status = keeping.result() if keeping.done() else ExitStatus.OK
            if status == ExitStatus.RESTART:
                self._notifier.status("begins anew")
            else:
                self._notifier.stopping()
            return status
        finally:
            tasks += [keeping, stopping]
            tasks += [door.carrying for door in self._doors if door.carrying is not None]
            for task in tasks:
                task.cancel()
            # Now, and not when the engine has ended, which a disk may keep from it.
            for door in self._doors:
                door.proxy.close_door()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._pass_last_words_on()
            for door in self._doors:
                await door.proxy.stop()
            self._pulse.stop()
            remove(self._config.state_dir / SUPERVISOR_FILE)

    async def _keep_running(self) -> int:
        """One life of the engine after the other; returns only if there is no use in another."""
        failures = 0
        while True:
            began_s = self._clock.monotonic()
            self._got_ready = False
            status = await self._one_life()
            if status == ExitStatus.RESTART:
                self._log.info("begins_anew")
                if CAN_BEGIN_ANEW:
                    return status
                failures = 0
                continue
            if status == ExitStatus.CONFIG:
                self._log.error("engine_refuses_configuration", exit_status=status)
                return status
            is_steady = self._clock.monotonic() - began_s >= STEADY_S
            failures = 1 if is_steady else failures + 1
            pause_s = backoff_s(failures, got_ready=self._got_ready)
            if status == ExitStatus.UNAVAILABLE:
                pause_s = max(pause_s, TAKEN_BACKOFF_S)
            self.restarts += 1
            self._log.warning("engine_restarts", exit_status=status, in_s=pause_s)
            self._notifier.status(f"engine ended ({status}), starts again in {pause_s:g} s")
            await self._clock.sleep(pause_s)

    async def _one_life(self) -> int:
        """Start the engine and watch it until it is gone; returns its exit status."""
        child = EngineChild(
            self._engine_arguments,
            state_dir=self._config.state_dir,
            out=sys.stderr.buffer,
            clock=self._clock,
        )
        ended: asyncio.Task[int] | None = None
        try:
            try:
                await child.start()
            except OSError as refused:
                # Out of memory or processes, or an interpreter that is just being replaced.
                self._log.error("engine_not_started", reason=str(refused))
                return ExitStatus.UNAVAILABLE
            if child.output is not None:
                self._outputs.add(child.output)
                child.output.add_done_callback(self._outputs.discard)
            event = "engine_started" if child.is_ours else "engine_found_running"
            self._log.info(event, pid=child.pid)
            ended = asyncio.create_task(child.ended(), name="engine end")
            await self._watch(child, ended)
            return await ended
        except asyncio.CancelledError:
            if child.is_ours:
                await child.stop()
            else:
                self._log.warning("engine_left_running", pid=child.pid)
            raise
        finally:
            self._health = None
            if ended is not None:
                ended.cancel()
                await asyncio.gather(ended, return_exceptions=True)

    async def _watch(self, child: EngineChild, ended: asyncio.Task[int]) -> None:
        """Return when the engine has ended, by itself or because it hung and was killed."""
        patience_s = ready_within_s(self._too_slow)
        self._notifier.starting(patience_s + NEXT_LIFE_WITHIN_S)
        ready = asyncio.create_task(child.ready(), name="engine ready")
        late = asyncio.create_task(self._clock.sleep(patience_s), name="engine late")
        hung: asyncio.Task[str] | None = None
        bound: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({ended, ready, late}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return
            why = f"it did not get ready in {patience_s:g} s"
            if not ready.done():
                self._too_slow += 1
            else:
                self._engine_is_ready(ready.result())
                watchdog = Watchdog(ready.result(), pulse=self._pulse, clock=self._clock)
                hung = asyncio.create_task(watchdog.until_hung(), name="engine watchdog")
                bound = asyncio.create_task(self._until_bound(child, watchdog), name="engine ports")
                await asyncio.wait({ended, hung}, return_when=asyncio.FIRST_COMPLETED)
                if ended.done():
                    return
                why = f"its {hung.result()} listener does not answer"
            self._health = None
            self._log.error("engine_hung", pid=child.pid, reason=why, last_words=child.last_words)
            await child.kill()
        finally:
            for task in (ready, late, hung, bound):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def _until_bound(self, child: EngineChild, watchdog: Watchdog) -> None:
        """A port that was taken at the engine's start is bound later; its file tells."""
        while watchdog.health.rpc_port is None or any(
            door.port_of(watchdog.health) is None for door in self._doors
        ):
            await self._clock.sleep(LOOK_FOR_PORTS_S)
            health = await child.ready()
            if health != watchdog.health:
                watchdog.health = health
                self._engine_is_ready(health)

    async def _pass_last_words_on(self) -> None:
        if self._outputs:
            await asyncio.wait(self._outputs, timeout=LAST_WORDS_S)
        for output in tuple(self._outputs):
            output.cancel()

    def _engine_is_ready(self, health: Health) -> None:
        self._health = health
        self._pulse.heard()
        self._got_ready = True
        self._too_slow = 0
        for door in self._doors:
            port = door.port_of(health)
            if port and door.carrying is None:
                self._open(door, port)
                # A port that the system chose is kept over restarts, so that clients find it again.
                self._engine_arguments += ["--set", f"{door.key}={port}"]
        self._notifier.ready(f"engine is running, MCP port {health.mcp_port}")
        self._log.info("engine_ready", mcp_port=health.mcp_port, rpc_port=health.rpc_port)

    def _open(self, door: CarriedPort, port: int) -> None:
        name = f"{door.name} proxy"
        carrying = self._kept(name, lambda: door.proxy.run(port))
        door.carrying = asyncio.create_task(carrying, name=name)

    async def _kept(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a part for ever: one that fails is told of and begun again, and fells no other."""
        while True:
            try:
                await run()
            except Exception as bug:  # noqa: BLE001 - the top of a part
                self._log.error("part_failed", part=name, exc_info=bug)
            await self._clock.sleep(PART_AGAIN_S)

    def _tell(self) -> None:
        """Leave in STATE_DIR where the proxy listens and how the relay is, for all who ask."""
        facts = {
            "pid": os.getpid(),
            **self._mcp.told(),
            **{door.name: door.told() for door in self._doors if door is not self._mcp},
            "relay": asdict(self._relay.status()) if self._relay is not None else None,
        }
        try:
            write_atomically(self._config.state_dir / SUPERVISOR_FILE, json.dumps(facts) + "\n")
        except OSError as error:
            self._log.warning("state_not_told", reason=str(error))

    async def _carry_relayed(self) -> None:
        """The edge's end of the relay, as long as this task lives."""
        # Here, because without a relay the supervisor needs neither HTTP client nor NATS.
        from edged.supervisor.relay_end import RelayEnd

        self._relay = RelayEnd(
            self._config,
            health=lambda: self._health,
            pulse=self._pulse,
            peer_header=lambda peer: (PEER_HEADER, relayed_value(self._secret, peer)),
            listening=lambda: self._mcp.proxy.listening,
            clock=self._clock,
            changed=self._tell,
        )
        await self._relay.run()
