"""Tools without instruments: ``ToolSource`` and ``Dispatcher`` of the MCP surface."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from edged.actions.action import Action, Check, Progress
from edged.actions.outcome import Done, Outcome, OutcomeStatus, Tell
from edged.actions.tool import Tool, ToolAnnotations, ToolCall
from edged.commands.pending import Pending
from edged.errors import EdgedError, ErrorCode, NotFound

Behaviour = Callable[[ToolCall], Coroutine[Any, Any, Any]]

HARMLESS = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)


class FakeTools:
    """A registry and a dispatcher in one.

    Attributes:
        calls: every call that reached the dispatcher.
        started, cancelled: names of tools whose work began, and was cancelled.
        gate: ``wait`` and ``watch`` end once it is set.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.calls: list[ToolCall] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.started = asyncio.Queue[str]()
        self.ended = asyncio.Queue[str]()
        # Those that wait for nothing.
        self._at_once: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._tools: dict[str, Tool] = {}
        self._behaviours: dict[str, Behaviour] = {}
        self.add("echo", echo)
        self.add("things", _things, wrap_key="things")
        self.add("wait", self.wait)
        self.add("watch", self.wait, cancels_on_disconnect=True)
        self.add("count", self._count)
        self.add("count_watched", self._count, cancels_on_disconnect=True)
        self.add("bug", _bug, at_once=True)

    # ToolSource

    def find(self, name: str) -> Tool:
        if name not in self._tools:
            raise NotFound(f"There is no tool {name!r}.", code=ErrorCode.UNKNOWN_TOOL)
        return self._tools[name]

    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    # Dispatcher

    async def call(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        try:
            self.find(call.name)
            return Outcome(status=OutcomeStatus.OK, data=await self._behaviours[call.name](call))
        except EdgedError as error:
            return Outcome(status=OutcomeStatus.REFUSED, error=error)

    def begin(self, call: ToolCall, tell: Tell) -> Outcome | Pending:
        if call.name in self._at_once or call.name not in self._tools:
            return self._run_through(call)

        async def work() -> Done:
            return Done(data=await self.call(call))

        def conclude(found: Done | Exception) -> Outcome:
            if isinstance(found, Done):
                outcome: Outcome = found.data
                return outcome
            return Outcome(status=OutcomeStatus.FAILED)

        pending = Pending(conclude, lambda _: None, tell)
        pending.run_as_task(work())
        return pending

    def _run_through(self, call: ToolCall) -> Outcome:
        with contextlib.closing(self.call(call)) as work:
            try:
                work.send(None)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
        raise AssertionError(f"{call.name} waits for something")

    # what tests do with it

    def add(
        self,
        name: str,
        behaviour: Behaviour,
        *,
        wrap_key: str = "",
        instrument_id: str = "",
        is_essential: bool = True,
        cancels_on_disconnect: bool = False,
        at_once: bool = False,
        description: str = "A tool of the tests.",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
    ) -> None:
        self._behaviours[name] = behaviour
        if at_once:
            self._at_once.add(name)
        self._tools[name] = Tool(
            name=name,
            title=name.title(),
            description=description,
            input_schema=input_schema or {"type": "object"},
            annotations=HARMLESS,
            check=_accept,
            make=_make,
            output_schema=output_schema,
            wrap_key=wrap_key,
            instrument_id=instrument_id,
            is_essential=is_essential,
            cancels_on_disconnect=cancels_on_disconnect,
        )

    def fails(self, name: str, error: EdgedError, data: Any = None) -> None:
        """A tool that always ends so."""
        self.add(name, echo)

        async def call(asked: ToolCall) -> Outcome:
            if asked.name == name:
                return Outcome(status=OutcomeStatus.FAILED, data=data, error=error)
            return await before(asked)

        before, self.call = self.call, call  # type: ignore[method-assign]

    def change(self) -> None:
        """The set is another one from now on."""
        self.generation += 1
        for listener in tuple(self._listeners):
            listener()

    async def wait(self, call: ToolCall) -> Any:
        """Until the gate opens."""
        self.started.put_nowait(call.name)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(call.name)
            raise
        finally:
            self.ended.put_nowait(call.name)
        return {"waited": True}

    async def _count(self, call: ToolCall) -> Any:
        """Three reports, then it waits."""
        for number in range(1, 4):
            if call.progress is not None:
                call.progress(Progress(progress=number, message=f"point {number}"))
        return await self.wait(call)


async def echo(call: ToolCall) -> Any:
    return {"echo": dict(call.arguments)}


async def _things(_: ToolCall) -> Any:
    return [{"name": "a"}, {"name": "b"}]


async def _bug(_: ToolCall) -> Any:
    raise ZeroDivisionError("the secret detail")


def _accept(_: Any) -> None:
    return None


def _make(_call: ToolCall, _check: Check) -> Action:
    raise AssertionError("the surface makes no actions")
