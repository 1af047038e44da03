"""Instruments and sessions that come and go in any order: names, lists and news stay true.

The pool, the discovery, the lines with their threads, the tool registry and the session board are
the real ones; only the wires are simulated. Each wire ends at whatever unit is at its address now,
and every unit notes what reaches it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edged.actions.caller import Caller, Route
from edged.clock import SystemClock
from edged.commands.target import Catalog
from edged.discovery.loop import Discovery
from edged.discovery.registering import Knowledge
from edged.errors import EdgedError, NotFound
from edged.instruments.conversation import lines_conversation
from edged.instruments.mailbox import Priority
from edged.instruments.pool import InstrumentPool
from edged.profiles.bench_file import BenchFile
from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Connection
from edged.protocol.messages import TOOLS_CHANGED
from edged.protocol.revisions import REVISIONS
from edged.protocol.session import SessionEvent
from edged.protocol.sse import ReplayBuffer
from edged.surfaces.mcp.sessions import Announcement, Session, SessionRegistry, no_leases
from edged.tools.registry import ToolRegistry
from edged.transports.link import LinkLost, LinkTimeout, Since, ThreadWake, Urgency, Wake
from tests.bench.fake_bus import FakeBus
from tests.bench.fake_instruments import toy_profile
from tests.promises import promise

ON_USB = ("USB0::0x1AB1::0x0E11::A1::INSTR", "USB0::0x1AB1::0x0E11::B1::INSTR")
ON_LAN = ("TCPIP0::10.0.0.1::5025::SOCKET", "TCPIP0::10.0.0.2::5025::SOCKET")
ADDRESSES = (*ON_USB, *ON_LAN)
UNITS = ("0001", "0002", "0003")
NEWS = Announcement(TOOLS_CHANGED)
DIRECT = Caller(route=Route.DIRECT, remote="127.0.0.1")


class HastyClock(SystemClock):
    """For what waits between two attempts: a walk has hundreds of scans."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.005))


class World:
    """Who is at which address, and what each unit heard. Used by every line's thread."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.units: dict[str, str] = {}
        # Grows with each change at an address: a connection to what was there before is dead.
        self.epochs: dict[str, int] = defaultdict(int)
        self.heard: list[tuple[str, str]] = []

    def put(self, address: str, unit: str | None) -> None:
        with self.guard:
            self.epochs[address] += 1
            if unit is None:
                self.units.pop(address, None)
            else:
                self.units[address] = unit

    def is_free(self, unit: str, kind: tuple[str, ...]) -> bool:
        return unit not in {self.units.get(address) for address in kind}


class WorldLink:
    """See ``edged.transports.link.Link``; answers at once or not at all."""

    wake: Wake = ThreadWake()
    is_shared = False

    def __init__(self, world: World, address: str) -> None:
        self._world = world
        self._address = address
        self._unit = ""
        self._epoch = -1
        self._output: list[bytes] = []

    def open(self, timeout_s: float) -> None:
        with self._world.guard:
            unit = self._world.units.get(self._address)
            if unit is None:
                raise LinkLost("nobody is there")
            self._unit, self._epoch = unit, self._world.epochs[self._address]
            self._output = []

    def tune(self, connection: Connection) -> None:
        pass

    def take_turn(self, timeout_s: float, urgency: Urgency) -> Since:
        return Since.NOTHING

    def end_turn(self, *, is_clean: bool) -> None:
        pass

    def begin(self, ticket: int) -> None:
        pass

    def write(self, data: bytes, timeout_s: float) -> None:
        line = data.decode().strip()
        with self._world.guard:
            self._check()
            self._world.heard.append((self._unit, line))
        if line == "*IDN?":
            self._output.append(f"TOY,S1,{self._unit},1.0".encode())
        elif line == "SYST:ERR?":
            self._output.append(b'0,"No error"')

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        with self._world.guard:
            self._check()
        if not self._output:
            raise LinkTimeout("nothing came")
        return self._output.pop(0)

    def read_exactly(self, count: int, timeout_s: float) -> bytes:
        raise LinkTimeout("nothing came")

    def pending(self) -> bytes:
        with self._world.guard:
            self._check()
        return b""

    def is_quiet(self) -> bool:
        return False

    def pause(self, seconds: float) -> None:
        pass

    def clear(self, timeout_s: float) -> bool:
        return False

    def marks_answers(self) -> bool:
        return False

    def status_byte(self, timeout_s: float) -> int | None:
        return None

    def preempt(self, ticket: int) -> None:
        pass

    def close(self) -> None:
        self._epoch = -1

    def release(self) -> None:
        self.close()

    def _check(self) -> None:
        if self._world.epochs[self._address] != self._epoch:
            raise LinkLost("it was taken away")


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = World()
        self.usb, self.lan = FakeBus("usb"), FakeBus("lan", tells_departures=False)
        # Serial number of the unit that a name meant when it was listed first.
        self.meaning: dict[str, str] = {}
        self.sessions: list[Session] = []
        self.seen_generation = 0
        self.calls = 0
        self.runner.run(self._build())

    async def _build(self) -> None:
        clock = SystemClock()
        profile = toy_profile()
        self.pool = InstrumentPool(clock=clock)
        self.registry = ToolRegistry(static=(), pool=self.pool, catalog=Catalog())
        self.board = SessionRegistry(
            clock=clock,
            idle_s=600,
            max_sessions=8,
            replay=ReplayBuffer(),
            leave=None,
            lease_keys=no_leases,
            may_hear=lambda _key, _caller: True,
        )
        self.registry.subscribe(lambda: self.board.announce(NEWS))
        self.discovery = Discovery(
            self.pool,
            knowledge=Knowledge(
                library=ProfileLibrary(profiles={profile.key: profile}), bench=BenchFile()
            ),
            entries=(),
            open_link=lambda address: WorldLink(self.world, address),
            clock=HastyClock(),
            rescan_interval_s=3600,
            gone_after_s=0.05,
            sources=(self.usb, self.lan),
        )

    def teardown(self) -> None:
        async def end() -> None:
            await self.discovery.stop()
            await self.pool.stop()

        self.runner.run(end())
        self.runner.close()

    @initialize(address=st.sampled_from(ADDRESSES), unit=st.sampled_from(UNITS))
    def begin(self, address: str, unit: str) -> None:
        self._plug(address, unit)
        self.scan()

    @precondition(lambda self: len(self.world.units) < len(ADDRESSES))
    @rule(data=st.data(), is_noticed=st.booleans())
    def plug(self, data: st.DataObject, is_noticed: bool) -> None:
        free = [address for address in ADDRESSES if address not in self.world.units]
        address = data.draw(st.sampled_from(free))
        units = self._units_for(address)
        if units:
            self._plug(address, data.draw(st.sampled_from(units)))
        if is_noticed:
            self.scan()

    @precondition(lambda self: self.world.units)
    @rule(data=st.data(), is_noticed=st.booleans())
    def unplug(self, data: st.DataObject, is_noticed: bool) -> None:
        address = data.draw(st.sampled_from(sorted(self.world.units)))
        self.world.put(address, None)
        self._bus(address).unplug(address)
        if is_noticed:
            self.scan()

    @precondition(lambda self: self.world.units)
    @rule(data=st.data())
    def swap_unseen(self, data: st.DataObject) -> None:
        """Another unit is at the address at once, and no bus tells."""
        address = data.draw(st.sampled_from(sorted(self.world.units)))
        units = self._units_for(address)
        if units:
            self.world.put(address, data.draw(st.sampled_from(units)))

    def _plug(self, address: str, unit: str) -> None:
        self.world.put(address, unit)
        self._bus(address).plug(address)

    def _bus(self, address: str) -> FakeBus:
        return self.usb if address in ON_USB else self.lan

    def _units_for(self, address: str) -> list[str]:
        """A unit has one USB plug and one network plug."""
        kind = ON_USB if address in ON_USB else ON_LAN
        return [unit for unit in UNITS if self.world.is_free(unit, kind)]

    @rule()
    def scan(self) -> None:
        self.runner.run(self._settle())

    async def _settle(self) -> None:
        await self.discovery.scan()
        self.pool.let_go(0.05)

    @rule()
    def open_session(self) -> None:
        if len(self.sessions) < 5:
            session = self.board.open(REVISIONS["2025-06-18"], DIRECT)
            session.note(SessionEvent.INITIALIZED)
            self.sessions.append(session)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        self.sessions.remove(session)
        self.board.end(session, SessionEvent.DELETED)

    @rule(place=st.integers(0, 999), is_safe=st.booleans())
    def call(self, place: int, is_safe: bool) -> None:
        """A client calls a name that it was told of once; what is safe may go by another line."""
        if not self.meaning:
            return
        name = sorted(self.meaning)[place % len(self.meaning)]
        self.calls += 1
        line = f"OUTP {self.calls}"
        self.runner.run(self._call(name, line, is_safe=is_safe))
        reached = {unit for unit, heard in self.world.heard if heard == line}
        assert reached <= {self.meaning[name]}, f"{name} reached {reached}"

    async def _call(self, name: str, line: str, *, is_safe: bool) -> None:
        try:
            tool = self.registry.find(name)
            instrument = self.pool.get(tool.instrument_id)
        except NotFound:
            return
        assert instrument.identity.serial == self.meaning[name]
        try:
            await instrument.converse(
                lambda: lines_conversation((line,), instrument.connection),
                priority=Priority.SAFE if is_safe else Priority.COMMAND,
                timeout_s=1,
                name=name,
                is_repeatable=is_safe,
            )
        except EdgedError:
            return

    @invariant()
    def no_name_comes_to_mean_another_unit(self) -> None:
        for tool in self.registry.tools():
            serial = self.pool.get(tool.instrument_id).identity.serial
            assert self.meaning.setdefault(tool.name, serial) == serial

    @invariant()
    def the_tool_list_is_what_the_registrations_say(self) -> None:
        offered = {i.id for i in self.pool.all() if i.is_offered}
        tools = self.registry.tools()
        assert {tool.instrument_id for tool in tools} == offered
        assert len({tool.name for tool in tools}) == len(tools) == 7 * len(offered)

    @invariant()
    def every_session_is_told(self) -> None:
        if self.registry.generation != self.seen_generation:
            assert all(session.pending for session in self.sessions if session in self.told)
        self.seen_generation = self.registry.generation
        for session in self.sessions:
            session.pending.clear()
        self.told = list(self.sessions)

    told: list[Session] = []  # noqa: RUF012 - replaced, never changed


AnyOrder.TestCase.settings = settings(suppress_health_check=[HealthCheck.too_slow])


@promise("instruments.any-order")
class TestAnyOrder(AnyOrder.TestCase):  # type: ignore[misc]
    pass
