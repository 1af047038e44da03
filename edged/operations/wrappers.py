"""The tools of SDK wrappers, and what get_capabilities tells of wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from edged.actions.action import CallWrapper
from edged.actions.outcome import Done
from edged.clock import Clock
from edged.commands.operation import Failure, Operation, Rows, bind
from edged.commands.resolve import Resolver
from edged.commands.target import Target
from edged.profiles.model import wire_value
from edged.profiles.naming import wrapper_tool_name
from edged.record import record
from edged.sdk.executor import WrapperExecutor, WrapperState
from edged.sdk.registry import WrapperRegistry
from edged.sdk.specs import WrapperSpec, wrapper_id
from edged.store.experience import CommandKnowledge

Entry = dict[str, Any]


@record
class WrapperOperations:
    """What they are run with."""

    registry: WrapperRegistry
    clock: Clock

    def table(self) -> Rows:
        """Its rows, bound."""
        return bind(self, OPERATIONS)

    async def call(self, action: CallWrapper, target: Target, began: float) -> Done:
        """Call it in its worker's process."""
        spec = target.aimed_spec()
        executor, _present = self.registry.find(action.wrapper, action.spec_name)
        arguments = {
            name: wire_value(value, spec.parameters.get(name))
            for name, value in target.values.items()
        }
        value = await executor.run_tool(spec, arguments, target.send_guard, action.cause)
        data: Entry = {"success": True, "data": value}
        if spec.returns is not None and spec.returns.unit:
            data["unit"] = spec.returns.unit
        data["execution_time_ms"] = round((self.clock.monotonic() - began) * 1000, 3)
        return Done(data=data)


def failed_call(failure: Failure) -> Entry:
    """A wrapper tool's result."""
    return {
        "success": False,
        "data": None,
        "execution_time_ms": failure.time_ms,
        "error": failure.told,
    }


OPERATIONS: Final = (
    Operation(
        action=CallWrapper, run=WrapperOperations.call, aim=Resolver.wrapper, failed=failed_call
    ),
)


NamesOf = Callable[[str], Mapping[str, str]]
"""The id of a wrapper → the whole name of each of its tools → the name that it is listed under."""


def wrapper_capabilities(
    registry: WrapperRegistry,
    experience: Callable[[WrapperSpec], Mapping[str, CommandKnowledge]],
    names_of: NamesOf,
) -> list[Entry]:
    """An entry for each wrapper, in the form of an instrument's; ``tool`` is what is called."""
    return [
        _capabilities(one, experience(one.specs[0]), names_of(wrapper_id(one.stem)))
        for one in registry.offered()
    ]


def _capabilities(
    executor: WrapperExecutor, known: Mapping[str, CommandKnowledge], names: Mapping[str, str]
) -> Entry:
    return {
        "instrument_id": wrapper_id(executor.stem),
        "alias": "",
        "instrument_class": "sdk_wrapper",
        "profile_name": "",
        "is_connected": executor.state is WrapperState.READY,
        "commands": [_command(spec, known.get(spec.name), names) for spec in executor.specs],
        "sequences": [],
        "settings": [],
    }


def _command(spec: WrapperSpec, known: CommandKnowledge | None, names: Mapping[str, str]) -> Entry:
    whole = wrapper_tool_name(spec.wrapper, spec.name)
    entry: Entry = {
        "name": spec.name,
        "tool": names.get(whole, whole),
        "description": spec.description,
        "parameters": spec.check.schema,
        "is_query": spec.is_query,
        "is_dangerous": spec.is_dangerous,
        "is_safe": spec.is_safe,
        "requires_sweep": False,
        "unit": spec.returns.unit if spec.returns else "",
    }
    if spec.returns is not None:
        entry["returns"] = spec.returns.to_json()
    if known is not None:
        entry["experience"] = known.to_json()
    return entry
