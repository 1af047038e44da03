from __future__ import annotations

from typing import Any, cast

import pytest

from edged.actions.caller import Route
from edged.errors import ErrorCode, Refused
from edged.protocol.revisions import REVISIONS
from edged.surfaces.mcp.methods import ENDABLE, METHODS, NOTIFICATIONS
from edged.surfaces.mcp.seams import CallerHead, DirectGuard
from edged.surfaces.mcp.tool_list import SENTENCES, instructions_for
from edged.surfaces.mcp.visa_methods import visa_extension
from tests.bench.fake_tools import FakeTools


def test_every_method_of_every_revision_has_a_handler_and_no_other() -> None:
    methods = {method for revision in REVISIONS.values() for method in revision.methods}
    notes = {note for revision in REVISIONS.values() for note in revision.notifications}
    visa = visa_extension(cast("Any", None))
    assert {*METHODS, *visa.methods} == methods
    assert {*NOTIFICATIONS, *visa.notifications} == notes
    assert set(METHODS) >= ENDABLE


def test_instructions_are_under_150_words_with_every_tool_there() -> None:
    assert sum(len(sentence.split()) for _, sentence in SENTENCES) < 150


async def test_instructions_name_no_tool_that_is_not_there() -> None:
    tools = FakeTools()
    assert instructions_for(tools) == ""
    tools.add("send_scpi", tools.call)
    assert instructions_for(tools) == dict(SENTENCES)["send_scpi"]


async def test_the_direct_guard_knows_the_remote() -> None:
    caller = await DirectGuard().guard(CallerHead(tokens=(), remote="10.1.1.1"))
    assert (caller.route, caller.remote, caller.claims) == (Route.DIRECT, "10.1.1.1", None)


@pytest.mark.parametrize("tokens", [("",), ("a.b.c",), ("a", "b")])
async def test_the_direct_guard_never_ignores_a_token(tokens: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        await DirectGuard().guard(CallerHead(tokens=tokens, remote=""))
    assert refused.value.code is ErrorCode.NOT_AUTHENTICATED
    assert "a.b.c" not in str(refused.value)


async def test_the_direct_guard_remembers_a_bounded_number_of_peers() -> None:
    guard = DirectGuard()
    for number in range(5_000):
        await guard.guard(CallerHead(tokens=(), remote=str(number)))
    assert len(guard._callers) <= 1_024
