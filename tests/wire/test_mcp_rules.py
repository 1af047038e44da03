"""Every rule of docs/mcp-rules.md: request in; status, headers and body out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edged.errors import ErrorCode, Invalid
from tests.bench.engine_process import REPOSITORY
from tests.bench.fake_resources import FakeResources
from tests.bench.fake_tools import echo
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import Case
from tests.promises import promise
from tests.wire import rules_of_http, rules_of_mistakes, rules_of_modern, rules_of_sessions

CASES: list[Case] = [
    *rules_of_http.HTTP,
    *rules_of_http.JSON_RPC,
    *rules_of_sessions.RECOGNITION,
    *rules_of_sessions.BATCHES,
    *rules_of_sessions.SESSIONS,
    *rules_of_sessions.TOOLS,
    *rules_of_modern.RECOGNITION,
    *rules_of_modern.LADDER,
    *rules_of_modern.RESULTS,
    *rules_of_mistakes.MISTAKES,
]
TESTS = REPOSITORY / "tests"
RULE_ROW = re.compile(r"^\| `([a-z0-9.-]+)` \|", re.MULTILINE)
HOLDS = re.compile(r"@holds\(([^)]*)\)")


@pytest.fixture
async def mcp() -> AsyncIterator[Endpoint]:
    async with running_endpoint(resources=FakeResources()) as endpoint:
        endpoint.tools.fails("picky", Invalid("a is too large.", code=ErrorCode.BAD_ARGUMENTS))
        region: dict[str, Any] = {"type": "string", "x-mcp-header": "Region"}
        endpoint.tools.add(
            "marked",
            echo,
            input_schema={"type": "object", "properties": {"region": region}},
        )
        yield endpoint


@promise("revisions.every-rule")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_answer_is_as_the_rule_says(mcp: Endpoint, case: Case) -> None:
    client = await mcp.session(case.session) if case.session else mcp.client()
    if case.verb == "POST":
        answer = await client.post(case.message, case.headers)
    else:
        answer = await client.send(case.verb, b"", case.headers)
    case.judge(answer)


@promise("revisions.every-rule")
def test_every_rule_has_a_test_and_every_test_a_rule() -> None:
    page = (REPOSITORY / "docs" / "mcp-rules.md").read_text(encoding="utf-8")
    rules = RULE_ROW.findall(page)
    assert len(rules) == len(set(rules))
    sources = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    marks = [mark for source in sources for mark in HOLDS.findall(source)]
    held = {rule for mark in marks for rule in re.findall(r'"([^"]+)"', mark)}
    tested = held | {case.rule for case in CASES}
    assert sorted(set(rules) - tested) == [], "rules without a test"
    assert sorted(tested - set(rules)) == [], "tests of no rule"


def test_no_two_cases_have_one_name() -> None:
    names = [case.id for case in CASES]
    assert sorted({name for name in names if names.count(name) > 1}) == []
