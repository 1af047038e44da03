"""From a tool's name to the outcome of what it means: the one door for every surface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from edged.actions.action import Action
from edged.actions.caller import Caller
from edged.actions.outcome import Outcome, OutcomeStatus, Tell, Underway
from edged.actions.tool import DRY_RUN, LEASE, Tool, ToolCall
from edged.auth.permissions import Permissions
from edged.commands.path import CommandPath
from edged.commands.pending import Pending, settled
from edged.errors import EdgedError, ErrorCode, Invalid, NotFound
from edged.profiles.arguments import shown, shown_value
from edged.record import part
from edged.tools.registry import ToolRegistry

NO_LEASE: Final = "(no text)"
"""Presented by whoever gives what is no id at all."""

Again = Callable[[str, Tell], Outcome | Underway | None]

Keep = Callable[[Caller], Callable[[], None] | None]
"""Told of each caller whose call begins; gives what is to be told of its end."""


@part
class ToolDispatcher:
    """Takes calls by tool name.

    Attributes:
        registry: the present set of tools.
        path: the command path.
        permissions: judges names that lead to no tool, so that a caller who may not use a name
            does not learn whether it exists.
        on_first_call: told once, when the first call of all has been taken.
        keep: keeps what a caller holds while its call lasts.
        in_flight: calls that are under way.
    """

    registry: ToolRegistry
    path: CommandPath
    permissions: Permissions
    on_first_call: Callable[[], None] | None
    keep: Keep
    in_flight: int = 0

    async def call(self, call: ToolCall) -> Outcome:
        """``begin``, and wait for what comes of it; cancelling cancels the call."""
        return await settled(partial(self.begin, call))

    def begin(self, call: ToolCall, tell: Tell) -> Outcome | Pending:
        """Perform one call; see ``CommandPath.begin``. What went wrong is in the outcome."""
        if self.on_first_call is not None:
            self._tell_first()
        try:
            tool = self.registry.find(call.name)
        except NotFound as unknown:
            return self._refuse(call, unknown)

        if LEASE in call.arguments:
            call = _presenting(call)
        if DRY_RUN in call.arguments and tool.takes_dry_run:
            return self._kept(call.caller, partial(self._rehearse, tool, call), tell)
        return self.begin_action(_action(tool, call), tell)

    def begin_action(self, action: Action, tell: Tell) -> Outcome | Pending:
        """The same of what no tool asks for: a line of a program that knows VISA."""
        return self._kept(action.caller, partial(self.path.begin, action), tell)

    def _kept(
        self, caller: Caller, begin: Callable[[Tell], Outcome | Pending], tell: Tell
    ) -> Outcome | Pending:
        """Begin it; it is counted, and what its caller holds is kept, while it lasts."""
        call_over = self.keep(caller)
        begun = begin(partial(self._over, caller, call_over, tell))
        if isinstance(begun, Pending):
            self.in_flight += 1
            return begun
        if call_over is not None:
            call_over()
        if begun.again is not None:
            begun.again = partial(self._again, caller, begun.again)
        return begun

    def _over(
        self,
        caller: Caller,
        call_over: Callable[[], None] | None,
        tell: Tell,
        outcome: Outcome | None,
    ) -> None:
        """What was under way has ended."""
        self.in_flight -= 1
        if call_over is not None:
            call_over()
        if outcome is not None and outcome.again is not None:
            outcome.again = partial(self._again, caller, outcome.again)
        tell(outcome)

    def _again(
        self, caller: Caller, again: Again, action_id: str, tell: Tell
    ) -> Outcome | Underway | None:
        call_over = self.keep(caller)
        begun = again(action_id, partial(self._over, caller, call_over, tell))
        if isinstance(begun, Underway):
            self.in_flight += 1
        elif call_over is not None:
            call_over()
        return begun

    def _rehearse(self, tool: Tool, call: ToolCall, tell: Tell) -> Outcome | Pending:
        """The call without what asks for a rehearsal; that is judged where arguments are."""
        arguments = {name: value for name, value in call.arguments.items() if name != DRY_RUN}
        asked = call.arguments[DRY_RUN]
        action = _action(tool, replace(call, arguments=arguments))
        if asked is False or asked is None:
            return self.path.begin(action, tell)
        if asked is not True:
            action = replace(action, check=partial(_refuse_dry_run, tool.name, asked))
        return self.path.rehearse(action, tell)

    def _tell_first(self) -> None:
        told, self.on_first_call = self.on_first_call, None
        if told is not None:
            told()

    def _refuse(self, call: ToolCall, unknown: EdgedError) -> Outcome:
        error = unknown
        try:
            self.permissions.authorize_tool(call.caller, call.name, None)
        except EdgedError as refused:
            error = refused
        self.path.record.refuse(call.caller, call.name[:128], error)
        return Outcome(status=OutcomeStatus.REFUSED, error=error)


def _presenting(call: ToolCall) -> ToolCall:
    """The call of one who presents a lease; what is no text is the id of none.

    Nothing is refused here: what makes safe needs no lease, and no wrong one holds it back.
    """
    lease = call.arguments[LEASE]
    arguments = {name: value for name, value in call.arguments.items() if name != LEASE}
    if lease is None or lease == "":
        return replace(call, arguments=arguments)
    presented = lease if isinstance(lease, str) else NO_LEASE
    return replace(call, arguments=arguments, caller=replace(call.caller, lease=presented))


def _action(tool: Tool, call: ToolCall) -> Action:
    """By its present name, so that a token's entry counts in whichever spelling it is called."""
    return tool.action(call if call.name == tool.name else replace(call, name=tool.name))


def _refuse_dry_run(tool: str, asked: object, _arguments: Mapping[str, Any]) -> NoReturn:
    """The check of a call whose ``dry_run`` is neither true nor false."""
    raise Invalid(
        f"{DRY_RUN} {shown(asked)} is not true or false, as {tool} needs.",
        code=ErrorCode.BAD_ARGUMENTS,
        data={"parameter": DRY_RUN, "value": shown_value(asked)},
        remedy="Nothing was sent: write true or false.",
    )
