"""Tools without instruments: ``ToolSource`` and ``Dispatcher`` of the MCP surface."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from edged.actions.action import Action, Check, Progress
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.actions.tool import Tool, ToolAnnotations, ToolCall
from edged.commands.pending import Underway
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
        # Of tools that may ask: those that must go the long way, and those that wait for nothing.
        self.not_begun: set[str] = set()
        self.ends_at_once: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._tools: dict[str, Tool] = {}
        self._behaviours: dict[str, Behaviour] = {}
        self.add("echo", echo)
        self.add("things", _things, wrap_key="things")
        self.add("wait", self.wait)
        self.add("watch", self.wait, cancels_on_disconnect=True)
        self.add("count", self._count)
        self.add("count_watched", self._count, cancels_on_disconnect=True)
        self.add("bug", _bug)

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

    def call_at_once(self, tool: Tool, call: ToolCall) -> Outcome:
        assert tool.answers_at_once
        return self._run_through(call)

    def _run_through(self, call: ToolCall) -> Outcome:
        with contextlib.closing(self.call(call)) as work:
            try:
                work.send(None)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
        raise AssertionError(f"{call.name} waits for something")

    def begin(
        self, tool: Tool, call: ToolCall, tell: Callable[[Outcome | None], None]
    ) -> Underway | Outcome | None:
        """A call of a tool that may ask: its behaviour runs, whoever asked hears of it."""
        assert tool.may_ask
        if tool.name in self.not_begun:
            return None
        if tool.name in self.ends_at_once:
            return self._run_through(call)
        work = asyncio.create_task(self.call(call))

        def conclude(found: Any) -> Outcome:
            work.cancel()
            return found if isinstance(found, Outcome) else Outcome(status=OutcomeStatus.FAILED)

        underway = Underway(conclude, lambda _: None, tell)

        def over(done: asyncio.Task[Outcome]) -> None:
            if not underway.done():
                underway.set_result(done.result())  # type: ignore[arg-type] # as conclude takes it

        work.add_done_callback(over)
        return underway

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
        answers_at_once: bool = False,
        may_ask: bool = False,
        description: str = "A tool of the tests.",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
    ) -> None:
        self._behaviours[name] = behaviour
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
            answers_at_once=answers_at_once,
            may_ask=may_ask,
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
