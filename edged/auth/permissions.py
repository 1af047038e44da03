"""Who may do what: one rule for tokens and for the owner's bound on the direct route.

Pure. The command path asks twice: tool and scope before anything is looked up (so that a refusal
says nothing about what exists), danger as soon as the command behind the name is known.

Source: docs/promises.md section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from edged.actions.caller import Caller, Route
from edged.errors import ErrorCode, Refused
from edged.record import record


@record
class Grant:
    """What somebody may do.

    Attributes:
        tools: entries ``<tool>`` or ``<tool>:<scope>``; ``None`` allows every tool.
        danger: whether dangerous things are allowed at all.
    """

    tools: frozenset[str] | None
    danger: bool

    def allows_tool(self, tool: str, scope: str | None) -> bool:
        """True if ``tool`` is allowed bare, or with exactly this scope.

        A scope that is missing (``None`` or empty) is allowed by no scoped entry.
        """
        if self.tools is None or tool in self.tools:
            return True
        return bool(scope) and f"{tool}:{scope}" in self.tools


EVERYTHING = Grant(tools=None, danger=True)


class Permissions:
    """The grant of each route.

    Args:
        direct: what the owner leaves to the direct route (DIRECT_TOOLS_ALLOW, DIRECT_DANGER_ALLOW).
    """

    def __init__(self, direct: Grant = EVERYTHING) -> None:
        self._direct = direct

    def authorize_tool(
        self, caller: Caller, tool: str, scope: str | None, plain_tool: str = ""
    ) -> None:
        """Let a tool pass under its called name or its unsuffixed one.

        A nested action passes: the tool around it was judged here before its first step, and only
        code inside the daemon can make a nested caller.

        Raises:
            Refused: NOT_ALLOWED.
        """
        if caller.outer_tool or self.allows_tool(caller, tool, scope, plain_tool):
            return
        asked = f"{tool}:{scope}" if scope else tool
        raise Refused(
            f"The tool {asked} is not among those this caller may use.",
            code=ErrorCode.NOT_ALLOWED,
            data={"tool": tool, "scope": scope or None},
            remedy="Ask whoever issued the access for it.",
        )

    def allows_tool(
        self, caller: Caller, tool: str, scope: str | None, plain_tool: str = ""
    ) -> bool:
        """Whether a caller may use a tool under its called name or its unsuffixed one."""
        grant = self._grant_of(caller)
        if grant.allows_tool(tool, scope):
            return True
        return bool(plain_tool) and grant.allows_tool(plain_tool, scope)

    def authorize_measure(self, caller: Caller, command_name: str, tools: Sequence[str]) -> None:
        """Let a command that a caller put into a sweep's ``measure`` pass only by itself.

        Unlike the steps of a sequence it was chosen by the caller and not by the profile's author,
        so being allowed to sweep is not enough.

        Args:
            tools: the names of the command's own tool, the present one and the unsuffixed one.

        Raises:
            Refused: NOT_ALLOWED.
        """
        grant = self._grant_of(caller)
        if grant.allows_tool("execute_command", command_name):
            return
        if any(grant.allows_tool(tool, None) for tool in tools if tool):
            return
        raise Refused(
            f"measure asks for {command_name}, for which this caller has no permission.",
            code=ErrorCode.NOT_ALLOWED,
            data={"tool": "execute_command", "scope": command_name},
            remedy="Leave it out of measure, or ask whoever issued the access for it.",
        )

    def authorize_danger(self, caller: Caller, what: str) -> None:
        """Let something dangerous pass only where danger is allowed.

        Raises:
            Refused: DANGEROUS.
        """
        if self._grant_of(caller).danger:
            return
        raise Refused(
            f"{what} is dangerous, and this caller has no permission for dangerous calls.",
            code=ErrorCode.DANGEROUS,
            data={"what": what},
            remedy="Ask whoever issued the access for one that allows danger.",
        )

    def _grant_of(self, caller: Caller) -> Grant:
        match caller.route:
            case Route.RELAY:
                if caller.claims is None:
                    return Grant(tools=frozenset(), danger=False)
                return Grant(tools=caller.claims.tools_allow, danger=caller.claims.danger_allow)
            case Route.DIRECT:
                return self._direct
            case Route.RPC | Route.INTERNAL:
                return EVERYTHING
        assert_never(caller.route)
