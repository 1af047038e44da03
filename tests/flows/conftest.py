"""What flows share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import pyvisa

from edged.changes import TOLD
from edged.operations.bench import InstrumentList
from edged.protocol.results import ToldList
from tests.bench.engine import Engine

FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session", autouse=True)
def usb_library_is_loaded() -> None:
    """libusb opens a netlink socket for the life of the process; no test is to blame for it."""
    pyvisa.ResourceManager("@py").close()


@pytest.fixture(scope="session", autouse=True)
def no_list_is_old() -> Iterator[None]:
    """Each list_instruments of an engine in this process is what a list made now would be."""
    kept = InstrumentList.all
    heard: dict[int, tuple[ToldList, list[float]]] = {}

    def judged(listing: InstrumentList) -> ToldList:
        for _ in range(3):
            told, mark = kept(listing), TOLD.mark()
            units = listing._bench.pool.all()
            # Each entry is made of nothing that was kept.
            listing._kept.clear()
            now = [listing.entry(unit) for unit in units]
            latest = [unit.heard_at for unit in units]
            made, then = heard.get(id(listing), (None, latest))
            if made is not told:
                heard[id(listing)], then = (told, latest), latest
            is_current = then == latest and _timeless(told.items()) == _timeless(now)
            if mark != TOLD.mark() or is_current:
                return told
            # A thread may be between a change and its note.
            time.sleep(0.05)  # noqa: TID251 - on the engine's loop, in a test that fails
        raise AssertionError(f"an old list: {told}; now: {now}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InstrumentList, "all", judged)
        yield


def _timeless(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without when a unit was heard and until when it is leased: two clocks are read for these, and
    a busy machine takes its time between them. When it was heard is compared by one of the clocks;
    a list that shows a lease is never kept."""
    return [
        {**entry, "heard_ms": 0, "lease": entry["lease"] and {**entry["lease"], "expires_ms": 0}}
        for entry in entries
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(autouse=True)
def failure_is_no_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a failed test leaves at an engine that others use, too, is removed."""
    yield
    if not request.node.stash.get(FAILED, False):
        return
    for value in request.node.funcargs.values():
        engine = value if isinstance(value, Engine) else getattr(value, "engine", None)
        if isinstance(engine, Engine):
            # It may have been the test's own, and have ended.
            with contextlib.suppress(OSError, AssertionError):
                engine.tidy()
