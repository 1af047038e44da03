"""An operation: one row that says all of one thing that can be asked of the daemon.

Which action it is, at what it is aimed, how it is run, what shape its failure has, and by what it
is asked: its static tool, its RPC method, and the resources that are its answer at a URI. The rows
are in ``edged.operations``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from edged.actions.action import Action, NamedAction
from edged.actions.caller import Caller
from edged.actions.outcome import Done
from edged.actions.tool import Tool
from edged.commands.pending import Running
from edged.commands.rehearsal import Rehearse, no_rehearsal
from edged.commands.resolve import NOTHING, Resolver
from edged.commands.static_tool import StaticTool
from edged.commands.target import Target
from edged.errors import EdgedError, Failed, Fault
from edged.protocol.jsonrpc import encode
from edged.protocol.messages import Content
from edged.record import record

Row = type[Action] | str
"""The key of a row: its type of action, or its name if that type is a ``NamedAction``."""


Rows = dict[Any, "Operation"]
"""Operations by their keys."""


@record
class Failure:
    """What a failed call has to tell.

    Attributes:
        target: what it was aimed at, where it got that far.
        told: the error as ``EdgedError.for_caller`` gives it.
    """

    target: Target | None
    error: EdgedError
    told: Mapping[str, Any]
    time_ms: float


def at_nothing(_resolver: Resolver, _action: Action) -> Target:
    """It is aimed at nothing that could hold it back."""
    return NOTHING


def error_alone(failure: Failure) -> Any:
    """A failure that has no other shape."""
    return {"error": failure.told}


def said_by_its_error(_failure: Failure) -> None:
    """A refusal: its error says it all."""


SCHEME: Final = "edged://"
READ_TOOL: Final = "resources/read"
"""The name under which a read is judged that no tool can do."""
JSON: Final = "application/json"


class Permission(NamedTuple):
    """By what a resource is read."""

    tool: str
    scope: str | None


@record
class ResourceRead:
    """One read of a resource; ``values`` are the template's variables."""

    uri: str
    values: Mapping[str, str]
    caller: Caller
    action_id: str


Show = Callable[["Resource", ResourceRead, Any], Content]
"""Makes the content of what an operation answered."""


def as_json(resource: Resource, asked: ResourceRead, data: Any) -> Content:
    """All of it."""
    text = encode(data).decode("ascii")
    return Content(uri=asked.uri, mime_type=resource.mime_type, text=text)


def as_text(resource: Resource, asked: ResourceRead, data: Any) -> Content:
    """A text as it is."""
    return Content(uri=asked.uri, mime_type=resource.mime_type, text=str(data))


@record
class Resource:
    """One sort of resource: an operation's answer at a URI.

    Whoever may not use the tool may not read it here, and the row in the audit log is the tool's.
    Recordings have no tool; they are read by the permission ``resources/read:runs``
    (docs/relay.md).

    Attributes:
        template: its URI with variables in braces (RFC 6570, level 1).
        tool, scope: by what permission it is read; without a tool, that of its operation.
        show: makes its content.
        arguments: the variables that are arguments of the operation, too.
        ask: makes the action of a read where its row alone could not; gets ``values``, and what
            any action begins with.
        is_by_maker: read by whoever may call what made it: its URI names that tool, and the
            command, which is the scope; ``tool`` then stands where no one of them is meant.
    """

    template: str
    name: str
    title: str
    description: str
    mime_type: str = JSON
    tool: str = ""
    scope: str | None = None
    show: Show = as_json
    arguments: tuple[str, ...] = ()
    ask: Callable[..., Action] | None = None
    is_by_maker: bool = False

    def permission(self, values: Mapping[str, str]) -> Permission:
        """By what one with these variables is read."""
        if self.is_by_maker and values:
            return Permission(values["tool"], values["command_name"])
        return Permission(self.tool, self.scope)

    @property
    def variables(self) -> tuple[str, ...]:
        """The template's variables in their order."""
        return tuple(part[1:-1] for part in parts_of(self.template) if part.startswith("{"))

    @property
    def is_listed(self) -> bool:
        """Whether it always is in the list: it has one URI, and is no page of an app."""
        return self.template.startswith(SCHEME) and not self.variables

    def action(self, asked: ResourceRead) -> Action:
        """What a read asks for, in the words of the tool; nothing is judged yet."""
        if self.ask is None:
            raise LookupError(f"{self.name} belongs to no operation")
        arguments = {name: asked.values[name] for name in self.arguments}
        return self.ask(
            **self.permission(asked.values)._asdict(),
            caller=asked.caller,
            action_id=asked.action_id,
            arguments={**arguments, "uri": asked.uri},
            values=asked.values,
        )


def parts_of(uri: str) -> list[str]:
    """What stands between the slashes of a URI or template."""
    return uri.removeprefix(SCHEME).split("/")


@record
class Operation:
    """One row.

    Attributes:
        action: the type that asks for it; one of the two named ones where arguments are enough.
        name: its key among those; the name of its tool, if it has one.
        run: runs it once it has been judged: (action, target, when that began in monotonic s).
            A plain function that is done, or gives the job on a line that it is; or a coroutine.
            Raises ``EdgedError``. In a row it is a method of the family's class; see ``bind``.
        aim: what the action's names mean.
        failed: the data of a failure, in the tool's own shape.
        refused: the same where nothing was sent to anything.
        tool: the static tool that asks for it.
        short_name: of an RPC method besides that with the name of the tool.
        resources: read by the permission of that tool.
        rehearse: tells what it would send; of those whose tools take ``dry_run``. A method, too.
    """

    action: type[Action] = NamedAction
    name: str = ""
    run: Callable[..., Running]
    aim: Callable[[Resolver, Any], Target] = at_nothing
    failed: Callable[[Failure], Any] = error_alone
    refused: Callable[[Failure], Any] = said_by_its_error
    tool: StaticTool | None = None
    short_name: str = ""
    resources: tuple[Resource, ...] = ()
    rehearse: Rehearse = no_rehearsal

    @property
    def key(self) -> Row:
        """What ``Action.row`` of its actions is."""
        if not issubclass(self.action, NamedAction):
            return self.action
        return self.tool.name if self.tool is not None else self.name

    def ask(self, **asked: Any) -> Action:
        """An action that asks for it."""
        if issubclass(self.action, NamedAction):
            asked["operation"] = self.key
        return self.action(**asked)

    def tools(self) -> tuple[Tool, ...]:
        """The tool, if it has one, compiled."""
        return () if self.tool is None else (self.tool.compiled(self.ask),)

    def readable(self) -> tuple[Resource, ...]:
        """Its resources, which ask for it by the permission of its tool if they name no other."""
        name = "" if self.tool is None else self.tool.name
        return tuple(
            dataclasses.replace(one, tool=one.tool or name, ask=one.ask or self.ask)
            for one in self.resources
        )


def later(name: str) -> Callable[..., Running]:
    """The ``run`` of a row whose family is a ``runs.registry.Late``: the method of that name."""

    async def run(family: Any, *asked: Any) -> Done:
        done: Done = await getattr(await family.come(), name)(*asked)
        return done

    return run


def bind(family: object, rows: Iterable[Operation]) -> Rows:
    """Each row under its key, its methods bound to the object that has what it works with."""
    return {
        row.key: dataclasses.replace(
            row, run=row.run.__get__(family), rehearse=row.rehearse.__get__(family)
        )
        for row in rows
    }


def failure_data(
    operation: Operation, target: Target | None, error: EdgedError, spent_ms: float
) -> Any:
    """The data of a call that failed or was refused; ``None`` where its error says it all."""
    failure = Failure(
        target=target,
        error=error,
        told=error.for_caller(),
        time_ms=round(spent_ms, 3),
    )
    has_failed = isinstance(error, Failed | Fault)
    return operation.failed(failure) if has_failed else operation.refused(failure)
