"""One judge: what the owner says of a command holds on every road, in every shipped profile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edged.actions.action import Action, RunCommand, SendProgram, SendScpi
from edged.actions.caller import Caller, Route
from edged.auth.permissions import Grant, Permissions
from edged.commands.policy import Policy
from edged.commands.target import ProfileChecks, Target
from edged.errors import EdgedError, ErrorCode
from edged.profiles.model import Bound, Command, ParameterType
from edged.profiles.owner_rules import tightened
from edged.profiles.template import render_lines
from edged.profiles.unit_rules import EMPTY_RULES, UnitRules
from edged.yaml.tree import Scalar
from tests.bench.driven_clock import DrivenClock
from tests.bench.shipped import shipped_library
from tests.bench.sweep_bench import SweepHouse
from tests.promises import promise

SHIPPED = dict(shipped_library().profiles)
ASKED: dict[str, Any] = {"caller": Caller(route=Route.DIRECT), "action_id": "a"}
# A raw line that the profile does not know whole is restricted as soon as the owner said anything.
DENIED = {ErrorCode.DENIED_BY_OWNER, ErrorCode.RAW_SCPI_RESTRICTED}
RAMPED = {ErrorCode.REQUIRES_SWEEP, ErrorCode.RAW_SCPI_RESTRICTED}
LIMITED = {ErrorCode.BAD_ARGUMENTS, ErrorCode.RAW_SCPI_RESTRICTED}


def highest(command: Command) -> dict[str, Scalar]:
    """Each parameter at its upper end."""
    found: dict[str, Scalar] = {}
    for name, parameter in command.parameters.items():
        if parameter.options:
            found[name] = parameter.options[-1]
        elif parameter.type is ParameterType.BOOL:
            found[name] = True
        elif parameter.type is ParameterType.STRING:
            found[name] = "A"
        elif parameter.max is not None:
            found[name] = (
                int(parameter.max) if parameter.type is ParameterType.INT else parameter.max
            )
    return found


def spellings(line: str) -> Iterator[str]:
    yield line
    yield line.lower()
    yield "*CLS;" + line
    yield " " + line


def roads(command: Command, checks: ProfileChecks) -> list[Action]:
    """The command with its highest values, typed and in each raw spelling.

    One line of several is not the command: the selection of a channel denies nobody anything.
    """
    values = highest(command)
    try:
        checked = checks.command(command.name)[1].validate(values)
    except EdgedError:
        return []
    lines = render_lines(command, checked)
    shared: dict[str, Any] = {**ASKED, "instrument_id": "S::psu1"}
    return [
        RunCommand(tool="execute_command", command_name=command.name, parameters=values, **shared),
        *(
            SendScpi(tool="send_scpi", scpi=spelled, **shared)
            for line in (lines if len(lines) == 1 else ())
            for spelled in spellings(line)
        ),
    ]


def rules_of(command: Command) -> Iterator[tuple[UnitRules, set[ErrorCode]]]:
    """What the owner may say that forbids the command at its highest values, and the answers.

    A command that can load any value is refused under each of these anyway, unless it is allowed.
    """
    allowed = frozenset({command.name})
    yield UnitRules(key="k", deny=frozenset({command.name}), allow_changes=allowed), DENIED
    if command.sweep is not None:
        yield UnitRules(key="k", requires_sweep=frozenset({command.name})), RAMPED
    for name, parameter in command.parameters.items():
        if parameter.min is not None and parameter.max is not None and not parameter.options:
            half = Bound(max=(parameter.min + parameter.max) / 2)
            limits = {command.name: {name: half}}
            yield UnitRules(key="k", limits=limits, allow_changes=allowed), LIMITED


@promise("raw.owner-limits-hold")
@pytest.mark.parametrize("key", SHIPPED)
def test_no_road_passes_what_the_owner_forbids(key: str) -> None:
    async def judge_all() -> int:
        house, judged = SweepHouse(DrivenClock()), 0
        supply, profile = house.supply, SHIPPED[key]
        checks = ProfileChecks(profile)
        for command in profile.commands.values():
            if command.is_query or command.is_safe or command.scpi == ("*CLS",):
                continue  # *CLS is common: it is allowed as itself whatever the owner denies
            forbidding = [(r, tightened(profile, r), codes) for r, codes in rules_of(command)]
            for action in roads(command, checks):
                supply.rules, supply.profile = EMPTY_RULES, profile
                if _code(house, action) is not None:
                    continue
                before = house.path.judge(replace(action, instrument_id=supply.id))
                for rules, narrowed, codes in forbidding:
                    supply.rules, supply.profile = rules, narrowed
                    what = (command.name, getattr(action, "scpi", "typed"), rules)
                    assert _code(house, action) in codes, what
                    assert _code_again(house, action, before) in codes, what
                    judged += 1
        await house.sweeps.close(0.1)
        return judged

    assert asyncio.run(judge_all()) > 4


@promise("raw.owner-limits-hold")
@pytest.mark.parametrize("key", SHIPPED)
def test_no_line_of_several_passes_the_limit_of_the_value_that_it_carries(key: str) -> None:
    async def judge_all() -> None:
        house = SweepHouse(DrivenClock())
        supply, profile = house.supply, SHIPPED[key]
        checks = ProfileChecks(profile)
        for command in profile.commands.values():
            if command.is_query or command.is_safe or len(command.scpi) == 1:
                continue
            values = highest(command)
            with contextlib.suppress(EdgedError):
                values = checks.command(command.name)[1].validate(values)
                lines = zip(command.scpi, render_lines(command, values), strict=True)
                limiting = [
                    (rules, tightened(profile, rules), codes)
                    for rules, codes in rules_of(command)
                    if rules.limits
                ]
                for (template, line), (rules, narrowed, codes) in itertools.product(
                    lines, limiting
                ):
                    limited = rules.limits[command.name]
                    if not any(f"{{{name}" in template for name in limited):
                        continue
                    action = SendScpi(tool="send_scpi", scpi=line, instrument_id="", **ASKED)
                    supply.rules, supply.profile = EMPTY_RULES, profile
                    if _code(house, action) is not None:
                        continue
                    supply.rules, supply.profile = rules, narrowed
                    assert _code(house, action) in codes, (command.name, line, rules)
        await house.sweeps.close(0.1)

    asyncio.run(judge_all())


@promise("raw.owner-limits-hold")
def test_new_rules_hold_although_the_profile_is_still_the_old_one() -> None:
    """The two are replaced one after the other, and a line's thread may look in between."""

    async def judge() -> None:
        house = SweepHouse(DrivenClock())
        supply = house.supply
        assert supply.profile is not None
        (name,) = (c.name for c in supply.profile.commands.values() if c.name == "set_voltage")
        for action in roads(supply.profile.commands[name], ProfileChecks(supply.profile)):
            supply.rules = EMPTY_RULES
            before = house.path.judge(replace(action, instrument_id=supply.id))
            supply.rules = UnitRules(key="k", requires_sweep=frozenset({name}))
            assert _code_again(house, action, before) in RAMPED, action
        await house.sweeps.close(0.1)

    asyncio.run(judge())


def test_a_message_with_a_block_is_judged_alike_when_it_comes_and_when_it_goes() -> None:
    async def judge() -> None:
        house = SweepHouse(DrivenClock())
        action = SendProgram(
            tool="send_scpi",
            **ASKED,
            instrument_id=house.supply.id,
            scpi="*CLS #215<15 bytes>",
            data=b"*CLS #215:MEAS:VOLT? CH1",
        )
        before = house.path.judge(action)
        assert before.is_unknown
        house.supply.rules = UnitRules(key="k", deny=frozenset({"measure_voltage"}))
        assert _code(house, action) is ErrorCode.RAW_SCPI_RESTRICTED
        assert _code_again(house, action, before) is ErrorCode.RAW_SCPI_RESTRICTED
        await house.sweeps.close(0.1)

    asyncio.run(judge())


@pytest.mark.parametrize(
    "line", ["OUTP:PROT:CLE", "OUTP:PROT:WDOG?;CLE", "OUTP:PROT:WDOG?;:OUTP:PROT:CLE"]
)
def test_a_dead_man_is_not_cleared_by_a_header_that_continues_another(line: str) -> None:
    async def judge() -> None:
        house = SweepHouse(DrivenClock())
        house.supply.profile = SHIPPED["keysight_n7951a"]
        house.supply.rules = UnitRules(key="k", dead_man_s=10)
        asked = {"tool": "send_scpi", **ASKED, "instrument_id": house.supply.id, "scpi": line}
        for action in (SendScpi(**asked), SendProgram(**asked, data=line.encode())):
            assert _code(house, action) is ErrorCode.DEAD_MAN
        await house.sweeps.close(0.1)

    asyncio.run(judge())


@promise("dead-man.untouched")
def test_a_command_that_waited_does_not_stop_a_dead_man_that_the_owner_set_meanwhile() -> None:
    async def judge() -> None:
        house = SweepHouse(DrivenClock())
        supply, profile = house.supply, SHIPPED["keysight_n7951a"]
        stop = Command(name="stop", scpi=("OUTP:PROT:WDOG OFF",))
        supply.profile = replace(profile, commands={**profile.commands, "stop": stop})
        action = RunCommand(
            tool="execute_command",
            **ASKED,
            instrument_id=supply.id,
            command_name="stop",
        )
        before = house.path.judge(action)
        supply.rules = UnitRules(key="k", dead_man_s=10)
        assert _code_again(house, action, before) is ErrorCode.DEAD_MAN
        await house.sweeps.close(0.1)

    asyncio.run(judge())


def test_a_programs_line_that_became_dangerous_meanwhile_is_not_sent_for_just_anybody() -> None:
    async def judge() -> None:
        calm = Permissions(Grant(tools=frozenset({"send_scpi"}), danger=False))
        house = SweepHouse(DrivenClock(), permissions=calm)
        supply = house.supply
        line = ":SOUR1:VOLT 1"
        action = SendProgram(
            tool="send_scpi", **ASKED, instrument_id=supply.id, scpi=line, data=line.encode()
        )
        before = house.path.judge(action)
        assert not before.is_dangerous
        rules = UnitRules(key="k", is_dangerous=frozenset({"set_voltage"}))
        assert supply.profile is not None
        supply.rules, supply.profile = rules, tightened(supply.profile, rules)
        assert _code_again(house, action, before) is ErrorCode.DANGEROUS
        await house.sweeps.close(0.1)

    asyncio.run(judge())


def _code(house: SweepHouse, action: Action) -> ErrorCode | None:
    try:
        house.path.judge(replace(action, instrument_id=house.supply.id))
    except EdgedError as error:
        return error.code
    return None


def _code_again(house: SweepHouse, action: Action, target: Target) -> ErrorCode | None:
    policy: Policy = house.policy
    try:
        policy.check_again(action, target)
    except EdgedError as error:
        return error.code
    return None
