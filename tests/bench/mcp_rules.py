"""The table form of a rule's test: request in; status, headers and body out.

The rules are in docs/mcp-rules.md; a case, or a test marked with ``holds``, names the one it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.bench.mcp_client import Answer, modern

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
V03, V06, V11 = LEGACY
V24 = "2024-11-05"
V26 = "2026-07-28"
ANY: Any = ...
"""In an expected body: whatever stands there."""
EMPTY = b""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and its answer.

    Attributes:
        rule: its id in docs/mcp-rules.md.
        name: what is odd about it; unique within the rule.
        message: the body: JSON-ready, or bytes as they are.
        headers: set, or with ``OMIT`` left out.
        session: the revision of a session to open first; empty for none.
        body: what the answer holds at least; ``EMPTY`` for no body, ``ANY`` for whatever.
        has: headers of the answer, by lower-case name; ``None`` for one that must not be there,
            ``ANY`` for one that must.
    """

    rule: str
    name: str
    message: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    verb: str = "POST"
    status: int = 200
    body: Any = ANY
    has: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.rule}: {self.name}"

    def judge(self, answer: Answer) -> None:
        """Fail unless the answer is the expected one."""
        assert answer.status == self.status, answer
        for name, value in self.has.items():
            found = answer.headers.get(name)
            assert found == value or (value is ANY and found), (name, answer.headers)
        if self.body == EMPTY:
            assert answer.body == EMPTY
        elif self.body is not ANY:
            messages = answer.messages()
            assert_holds(messages[0] if isinstance(self.body, Mapping) else messages, self.body)


def holds(*_rules: str) -> Callable[[F], F]:
    """Mark a test that is no table row with the rules it holds; read from the source."""
    return lambda test: test


def call(method: str, request_id: Any = 7, /, **params: Any) -> dict[str, Any]:
    """A request."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return {**message, "params": params} if params else message


def note(method: str, **params: Any) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def initialize(version: str, request_id: Any = 7) -> dict[str, Any]:
    client = {"name": "t", "version": "1"}
    return call(
        "initialize", request_id, protocolVersion=version, capabilities={}, clientInfo=client
    )


def modern_case(
    rule: str,
    name: str,
    message: dict[str, Any],
    *,
    more: Mapping[str, str] | None = None,
    **want: Any,
) -> Case:
    """A case of 2026-07-28: ``_meta`` and headers are made, then ``more`` headers are set."""
    body, headers = modern(message)
    return Case(rule=rule, name=name, message=body, headers=headers | dict(more or {}), **want)


def error(code: int, request_id: Any = 7, **data: Any) -> dict[str, Any]:
    """What a refusal's body holds."""
    inner: dict[str, Any] = {"code": code, "message": ANY}
    return {"jsonrpc": "2.0", "id": request_id, "error": inner | ({"data": data} if data else {})}


def result(request_id: Any = 7, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": members}


def assert_holds(found: Any, wanted: Any, where: str = "") -> None:
    """Every member that is wanted is there; lists are compared item by item."""
    if wanted is ANY:
        return
    if isinstance(wanted, Mapping):
        assert isinstance(found, Mapping), (where, found)
        for key, value in wanted.items():
            assert key in found, (f"{where}.{key}", found)
            assert_holds(found[key], value, f"{where}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(found, list), (where, found)
        assert len(found) == len(wanted), (where, found)
        for number, value in enumerate(wanted):
            assert_holds(found[number], value, f"{where}[{number}]")
    else:
        assert (found, type(found)) == (wanted, type(wanted)), where
