"""Calls of the fleet's tools: judged, and carried out from the table or at the edges.

A caller sees and reaches the edges that its token lists, and no others. What is run at an edge the
edge judges once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar

import structlog

from edged.actions.caller import Caller
from edged.actions.cause import Cause
from edged.actions.outcome import Done, Outcome, OutcomeStatus, Tell, Underway
from edged.actions.tool import ToolCall
from edged.auth.claims import EVERY_EDGE
from edged.auth.permissions import Permissions
from edged.clock import Clock
from edged.errors import EdgedError, ErrorCode, Failed, Fault, NotFound, Refused
from edged.record import part
from edged.sharing.leases import Moment
from edged_relay.fleet.reach import EdgeAnswer, EdgeReach
from edged_relay.fleet.table import Edge, EdgeState, EdgeTable
from edged_relay.fleet.tools import CALL, FIND, HISTORY, LIST, STOP, FleetTools

log = structlog.get_logger("edged.fleet")

STOP_WITHIN_S: Final = 2.7
"""With what is left of the promised three seconds for the answer's own way."""
STOP_REACHES_WITHIN_S: Final = 15.0
"""A stop that a slow link brings late stops all the same: it is not taken back before."""
HISTORY_WITHIN_S: Final = 8.0
MOST_AT_ONCE: Final = 64
"""Edges whose history is asked for at one time; a stop asks all."""
ANSWER_BYTES: Final = 64 * 1024
MOST_TOLD_BYTES: Final = 2 * 1024 * 1024
"""Of one edge's answer where many edges are asked: twice what an honest one says at the most."""

Work = Coroutine[Any, Any, Done]
T = TypeVar("T")


def allowed_edges(caller: Caller) -> frozenset[str]:
    """The edges of a caller's token."""
    return caller.claims.edges_allow if caller.claims is not None else frozenset()


@part
class FleetDesk:
    """Takes calls; ``Dispatcher`` of the fleet's endpoint.

    Attributes:
        table: who is here.
        reach: calls edges.
        tools: what there is.
        clock: the time.
        is_complete: whether the table has had the time to hear every edge that is here.
    """

    table: EdgeTable
    reach: EdgeReach
    tools: FleetTools
    clock: Clock
    is_complete: Callable[[], bool]
    _permissions: Permissions = field(default_factory=Permissions)
    # What is not to end with whoever asked for it.
    _kept: set[asyncio.Task[Any]] = field(default_factory=set)

    def begin(self, call: ToolCall, tell: Tell) -> Outcome | Underway:
        try:
            work = self._begun(call)
        except EdgedError as refused:
            log.info("fleet_refused", tool=call.name[:80], who=call.caller.subject)
            return Outcome(status=OutcomeStatus.REFUSED, error=refused)
        log.info("fleet_called", tool=call.name, who=call.caller.subject)
        if isinstance(work, Done):
            return _outcome(work)
        return _Running(work, tell, log)

    async def stop(self) -> None:
        """End what goes on by itself."""
        for task in tuple(self._kept):
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)

    def _begun(self, call: ToolCall) -> Done | Work:
        """What a call comes to, once it is judged: who may, whether it can be meant, which edges.

        Raises:
            EdgedError: it is not begun.
        """
        caller = call.caller
        self._permissions.authorize_tool(caller, call.name, None)
        arguments = self.tools.arguments_of(call)
        match call.name:
            case name if name == LIST:
                return self._list(caller, arguments)
            case name if name == FIND:
                return self._find(caller, arguments)
            case name if name == HISTORY:
                return self._history(caller, arguments, *self._named(caller, arguments))
            case name if name == STOP:
                return self._stop_everywhere(caller)
            case name if name == CALL:
                edge_id = arguments["edge_id"]
                self._may_reach(caller, edge_id)
                return self._call(caller, edge_id, arguments["tool"], arguments)
        raise NotFound(f"{call.name} is not served.", code=ErrorCode.UNKNOWN_TOOL)

    def now(self) -> Moment:
        """On both clocks."""
        return Moment(self.clock.monotonic(), self.clock.wall_ms())

    # From the table

    def _list(self, caller: Caller, arguments: Mapping[str, Any]) -> Done:
        now, wanted = self.now(), arguments.get("state")
        after = arguments.get("after") or ""
        rows = (
            edge.told(now)
            for edge in self.table.listed(allowed_edges(caller))
            if edge.edge_id > after and wanted in (None, edge.state(now).value)
        )
        found, more = _fitting(rows, int(arguments.get("limit") or 50))
        return Done(data={"edges": found, "more": more})

    def _find(self, caller: Caller, arguments: Mapping[str, Any]) -> Done:
        now = self.now()
        found = [
            row
            for edge in self.table.listed(allowed_edges(caller))
            for row in _instruments(edge, now)
            if _is_meant(row, arguments)
        ]
        found.sort(key=lambda row: (not row["is_free"], row["edge_state"] != EdgeState.HERE.value))
        rows, more = _fitting(found, int(arguments.get("limit") or 50))
        return Done(data={"instruments": rows, "more": more})

    # At the edges

    async def _call(
        self, caller: Caller, edge_id: str, tool: str, arguments: Mapping[str, Any]
    ) -> Done:
        answer = await self.reach.call(edge_id, caller, tool, arguments.get("arguments") or {})
        data = {
            "edge_id": edge_id,
            "tool": tool,
            "is_error": answer.is_error,
            "result": answer.data,
        }
        if answer.is_error and isinstance(answer.data, dict) and "error" in answer.data:
            # Where every failure has it.
            data["error"] = answer.data["error"]
        return Done(data=data, pictures=answer.pictures)

    async def _history(
        self,
        caller: Caller,
        arguments: Mapping[str, Any],
        edges: Sequence[str],
        away: Sequence[str],
    ) -> Done:
        asked = {name: value for name, value in arguments.items() if name != "edge_ids"}
        newest = _Newest(int(arguments.get("limit") or 50))
        gate = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(edge_id: str) -> dict[str, Any]:
            async with gate:
                answer = await self.reach.call(
                    edge_id, caller, "bench__history", asked, most_bytes=MOST_TOLD_BYTES
                )
            return newest.take(edge_id, answer)

        answers = await self._all(edges, one, HISTORY_WITHIN_S)
        edges_told = [
            _unanswered(edge_id, answer) if isinstance(answer, Exception) else answer
            for edge_id, answer in answers.items()
        ] + [_unanswered(edge_id, "It is away, and was not asked.") for edge_id in away]
        shown, cut = _fitting(newest.rows, newest.limit)
        more = cut or newest.is_cut or any(edge["more"] for edge in edges_told)
        return Done(data={"rows": shown, "more": more, "edges": edges_told})

    async def _stop_everywhere(self, caller: Caller) -> Done:
        """All edges at once. Once begun it goes on, whoever asked for it and goes away."""
        began_s = self.clock.monotonic()
        allowed = allowed_edges(caller)
        edges = self._every(allowed)

        async def one(edge_id: str) -> tuple[EdgeAnswer, float]:
            answer = await self.reach.call(
                edge_id,
                caller,
                "bench__stop_all",
                {},
                most_bytes=MOST_TOLD_BYTES,
                taken_within_s=STOP_REACHES_WITHIN_S,
            )
            return answer, self.clock.monotonic() - began_s

        answers = await asyncio.shield(
            self._keep(self._all(sorted(edges), one, STOP_WITHIN_S, is_kept=True))
        )
        rows = [_stopped(edge_id, answer) for edge_id, answer in answers.items()]
        _leave_out_reports(rows)
        is_complete = EVERY_EDGE not in allowed or self.is_complete()
        return Done(
            data={
                "is_confirmed": is_complete and all(row["is_confirmed"] for row in rows),
                "is_every_edge_known": is_complete,
                "took_ms": round(1_000 * (self.clock.monotonic() - began_s)),
                "edges": rows,
            }
        )

    async def _all(
        self,
        edges: Collection[str],
        ask: Callable[[str], Coroutine[Any, Any, T]],
        within_s: float,
        *,
        is_kept: bool = False,
    ) -> dict[str, T | Exception]:
        """Ask all of them; who has not answered in time is told so.

        Args:
            is_kept: what has not answered in time goes on.
        """
        tasks = {edge_id: asyncio.create_task(ask(edge_id)) for edge_id in edges}
        self._kept.update(tasks.values())
        for task in tasks.values():
            task.add_done_callback(self._over)
        is_in_time = False
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=within_s)
            is_in_time = True
        finally:
            if not (is_kept and is_in_time):
                for task in tasks.values():
                    task.cancel()
        return {edge_id: _come(edge_id, task, within_s) for edge_id, task in tasks.items()}

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._kept.discard(task)
        if not task.cancelled():
            # Looked at: what came too late is nobody's.
            task.exception()

    # Which edges

    def _may_reach(self, caller: Caller, edge_id: str) -> None:
        allowed = allowed_edges(caller)
        if edge_id in allowed or (EVERY_EDGE in allowed and self.table.find(edge_id) is not None):
            return
        raise Refused(
            f"The edge {edge_id} is not among those this caller may use.",
            code=ErrorCode.NOT_ALLOWED,
            data={"edge_id": edge_id},
            remedy="Ask whoever issued the access for it.",
        )

    def _every(self, allowed: frozenset[str]) -> set[str]:
        """The edges of a token: those that it lists are told whether they were heard or not."""
        return {edge.edge_id for edge in self.table.listed(allowed)} | (allowed - {EVERY_EDGE})

    def _named(
        self, caller: Caller, arguments: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """The edges that a call names, else those that are here; and those that are not asked."""
        named = arguments.get("edge_ids")
        if named is None:
            now, allowed = self.now(), allowed_edges(caller)
            known = self.table.listed(allowed)
            here = [edge.edge_id for edge in known if edge.state(now) is EdgeState.HERE]
            return here, sorted(self._every(allowed) - set(here))
        for edge_id in named:
            self._may_reach(caller, edge_id)
        return list(dict.fromkeys(named)), ()


class _Running(Underway):
    """A call that waits for edges."""

    __slots__ = ("_log", "_task", "_tell")

    def __init__(self, work: Work, tell: Tell, log: Any) -> None:
        self._tell = tell
        log = log
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._is_done)

    def cancel(self, cause: Cause) -> None:
        self._task.cancel(cause)

    def _is_done(self, task: asyncio.Task[Done]) -> None:
        if task.cancelled():
            self._tell(None)
            return
        match task.exception():
            case None:
                self._tell(_outcome(task.result()))
            case EdgedError() as error:
                self._tell(Outcome(status=OutcomeStatus.FAILED, error=error))
            case bug:
                log.error("internal_fault", exc_info=bug)
                fault = Fault("The relay made a mistake; its log has the details.")
                self._tell(Outcome(status=OutcomeStatus.FAILED, error=fault))


def _outcome(done: Done) -> Outcome:
    return Outcome(
        status=OutcomeStatus.OK,
        data=done.data,
        pictures=done.pictures,
        is_tool_error=done.data.get("is_error") is True,
    )


def _instruments(edge: Edge, now: Moment) -> Iterator[dict[str, Any]]:
    around = {"edge_id": edge.edge_id, "edge_state": edge.state(now).value}
    for unit in edge.said.units:
        yield {**around, **unit, "is_free": edge.is_free(unit, now)}


def _is_meant(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    model, kind, free = (arguments.get(name) for name in ("model", "class", "free"))
    named = f"{row['manufacturer']} {row['model']}".casefold()
    return (
        (not model or model.casefold() in named)
        and (not kind or kind.casefold() == row["instrument_class"].casefold())
        and (free is None or free is row["is_free"])
    )


def _fitting(rows: Any, limit: int) -> tuple[list[Any], bool]:
    """The first rows that one answer holds, and whether there are more."""
    found: list[Any] = []
    room = ANSWER_BYTES
    for row in rows:
        room -= len(str(row))
        if len(found) >= limit or (room < 0 and found):
            return found, True
        found.append(row)
    return found, False


class _Newest:
    """The newest rows of all edges: no more of them are kept than are told.

    Attributes:
        is_cut: there were more.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.rows: list[dict[str, Any]] = []
        self.is_cut = False

    def take(self, edge_id: str, answer: EdgeAnswer) -> dict[str, Any]:
        """The rows of one edge, which can name no other; gives whether it answered."""
        match answer.data if not answer.is_error else None:
            case {"rows": list(found), "more": more}:
                rows = [{**row, "edge_id": edge_id} for row in found if isinstance(row, dict)]
            case _:
                return _unanswered(edge_id, "It answered in another form.")
        self.rows = sorted(self.rows + rows, key=_time_of, reverse=True)
        self.is_cut = self.is_cut or len(self.rows) > self.limit
        del self.rows[self.limit :]
        return {"edge_id": edge_id, "is_answered": True, "more": more is True, "error": None}


def _unanswered(edge_id: str, why: object) -> dict[str, Any]:
    return {"edge_id": edge_id, "is_answered": False, "more": False, "error": str(why)}


def _time_of(row: Mapping[str, Any]) -> float:
    time_ms = row.get("time_ms")
    return time_ms if isinstance(time_ms, int | float) else 0.0


def _come(edge_id: str, task: asyncio.Task[T], within_s: float) -> T | Exception:
    if not task.done() or task.cancelled():
        return Failed(
            f"{edge_id} has not answered within {within_s:g} s.",
            code=ErrorCode.EDGE_FAILED,
            data={"edge_id": edge_id},
        )
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, EdgedError):
        raise error
    return error


def _stopped(edge_id: str, answer: tuple[EdgeAnswer, float] | Exception) -> dict[str, Any]:
    """An edge's row: only what itself has confirmed is confirmed."""
    if isinstance(answer, Exception):
        return {"edge_id": edge_id, "is_confirmed": False, "error": str(answer)}
    told, took_s = answer
    data = told.data if isinstance(told.data, dict) else {}
    is_confirmed = data.get("is_confirmed") is True and not told.is_error
    row: dict[str, Any] = {
        "edge_id": edge_id,
        "is_confirmed": is_confirmed,
        "took_ms": round(1_000 * took_s),
    }
    if not is_confirmed:
        row["error"] = "The edge could not confirm that all of it is off."
        row["report"] = told.data
    return row


def _leave_out_reports(rows: Sequence[dict[str, Any]]) -> None:
    """Those that one answer has no room for: whether each edge is safe is told in any case."""
    room = ANSWER_BYTES
    for row in rows:
        size = len(str(row.get("report", "")))
        if size <= room:
            room -= size
        else:
            del row["report"]
            row["error"] += " Its report is too long to be told here."
