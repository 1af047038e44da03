import pytest

from edged.actions.caller import Caller, Claims, Route
from edged.auth.permissions import Grant, Permissions
from edged.errors import ErrorCode, Refused


def relay_caller(*tools: str, danger: bool = False) -> Caller:
    claims = Claims(
        iss="https://issuer.example",
        aud="edge:e1",
        sub="user:u1",
        exp=300,
        iat=0,
        edge_id="e1",
        tools_allow=frozenset(tools),
        danger_allow=danger,
    )
    return Caller(route=Route.RELAY, subject="user:u1", claims=claims)


DIRECT = Caller(route=Route.DIRECT)


@pytest.mark.parametrize(
    ("allowed", "tool", "scope", "plain", "passes"),
    [
        (["execute_command"], "execute_command", "set_voltage", "", True),
        (["execute_command"], "execute_command", "", "", True),
        (["execute_command:set_voltage"], "execute_command", "set_voltage", "", True),
        (["execute_command:set_voltage"], "execute_command", "output_on", "", False),
        (["execute_command:set_voltage"], "execute_command", "", "", False),
        (["execute_command:set_voltage"], "psu__set_voltage", None, "", False),
        (["psu__set_voltage"], "execute_command", "set_voltage", "", False),
        (["psu__set_voltage"], "psu__A1__set_voltage", None, "psu__set_voltage", True),
        (["psu__A1__set_voltage"], "psu__A1__set_voltage", None, "psu__set_voltage", True),
        (["psu__B2__set_voltage"], "psu__A1__set_voltage", None, "psu__set_voltage", False),
        ([], "get_status", None, "", False),
    ],
)
def test_a_token_opens_exactly_the_tools_and_scopes_it_names(
    allowed: list[str], tool: str, scope: str | None, plain: str, passes: bool
) -> None:
    judge = Permissions().authorize_tool
    if passes:
        judge(relay_caller(*allowed), tool, scope, plain)
        return
    with pytest.raises(Refused) as refusal:
        judge(relay_caller(*allowed), tool, scope, plain)
    assert refusal.value.code is ErrorCode.NOT_ALLOWED


def test_danger_is_refused_to_a_token_without_it_whatever_tools_it_names() -> None:
    with pytest.raises(Refused) as refusal:
        Permissions().authorize_danger(relay_caller("output_on"), "output_on")
    assert refusal.value.code is ErrorCode.DANGEROUS


def test_the_direct_route_may_do_everything_unless_the_owner_bounds_it() -> None:
    Permissions().authorize_tool(DIRECT, "anything", None)
    Permissions().authorize_danger(DIRECT, "anything")
    bound = Permissions(Grant(tools=frozenset({"get_status"}), danger=False))
    bound.authorize_tool(DIRECT, "get_status", None)
    with pytest.raises(Refused):
        bound.authorize_tool(DIRECT, "execute_command", "x")
    with pytest.raises(Refused):
        bound.authorize_danger(DIRECT, "output_on")


def test_a_relay_caller_without_claims_may_do_nothing() -> None:
    with pytest.raises(Refused):
        Permissions().authorize_tool(Caller(route=Route.RELAY), "get_status", None)


def test_a_nested_action_was_judged_with_the_tool_around_it() -> None:
    caller = relay_caller("execute_sequence:voltage_point")
    inner = caller.nested(tool="execute_sequence", scope="voltage_point", on_behalf_of="seq-1")
    Permissions().authorize_tool(inner, "execute_sequence", None)
