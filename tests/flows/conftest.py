"""What flows share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import pyvisa

from edged.changes import TOLD
from edged.operations.instrument_list import InstrumentList
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

    def judged(listing: InstrumentList) -> ToldList:
        for _ in range(3):
            told, mark = kept(listing), TOLD.mark
            now = [listing.entry(instrument) for instrument in listing._pool.all()]
            if told == now or mark != TOLD.mark or _without_rounding(told, now):
                return told
            # A thread may be between a change and its note.
            time.sleep(0.05)  # noqa: TID251 - on the engine's loop, in a test that fails
        raise AssertionError(f"an old list: {told}; now: {now}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InstrumentList, "all", judged)
        yield


def _without_rounding(told: list[dict[str, Any]], now: list[dict[str, Any]]) -> bool:
    """Whether they differ by moments alone that two scales of time give, some ms apart."""
    return len(told) == len(now) and all(
        _timeless(one) == _timeless(other)
        and all(abs(a - b) <= 5 for a, b in zip(_moments(one), _moments(other), strict=True))
        for one, other in zip(told, now, strict=True)
    )


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    lease = entry["lease"] and {**entry["lease"], "expires_ms": 0}
    return {**entry, "heard_ms": 0, "lease": lease}


def _moments(entry: dict[str, Any]) -> tuple[int, int]:
    """When a unit was heard, and until when it is leased."""
    return entry["heard_ms"] or 0, (entry["lease"] or {"expires_ms": 0})["expires_ms"]


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
