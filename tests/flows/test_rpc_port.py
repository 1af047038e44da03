"""What stands beside /rpc on a real engine."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest

from tests.bench.engine import Engine, running_engine
from tests.bench.engine_process import REPOSITORY
from tests.promises import promise

FAMILY = re.compile(r"^# HELP (edged_\w+) ", re.MULTILINE)
IN_PAGE = re.compile(r"`(edged_\w+)`")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("rpc")) as running:
        yield running


def get(engine: Engine, path: str, method: str = "GET") -> tuple[str, dict[str, str]]:
    url = engine.rpc_url.replace("/rpc", path)
    own = engine.rpc_url.removesuffix("/rpc")
    request = urllib.request.Request(url, method=method, headers={"Origin": own})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode(), dict(refused.headers)


@promise("rpc.metrics")
def test_every_family_of_figures_is_on_the_page_and_in_the_reference(
    engine: Engine,
) -> None:
    engine.tool("list_instruments")
    page, headers = get(engine, "/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    found = {name.removesuffix("_total") for name in FAMILY.findall(page)}
    documented = set(IN_PAGE.findall((REPOSITORY / "docs" / "rpc.md").read_text()))
    assert found == documented
    assert re.search(r'edged_tool_calls_total\{outcome="ok",tool="list_instruments"\} [1-9]', page)
    assert re.search(r'edged_instruments\{state="ready"\} 3', page)
    assert re.search(r"edged_call_duration_seconds_bucket\{.*le=", page)


@pytest.mark.parametrize("path", ["/rpc", "/metrics", "/healthz", "/events"])
def test_no_page_of_another_origin_is_let_in_by_a_header(engine: Engine, path: str) -> None:
    for method in ("OPTIONS", "GET"):
        _, headers = get(engine, path, method)
        assert not [name for name in headers if name.lower().startswith("access-control")]
