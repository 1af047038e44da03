"""A real browser for the stories of the bench page, and a bench to look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.browser import Browser, running_browser
from tests.bench.engine_process import EngineProcess, engine_process


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    place = tmp_path_factory.mktemp("page")
    (place / "bench.yaml").write_text(
        "format: 1\npsu1: {confirm: [set_current], confirm_ttl_s: 60, confirm_by: [page]}\n"
    )
    with engine_process(place, config={"BENCH_PAGE": "full"}) as running:
        yield running
