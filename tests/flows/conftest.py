"""What flows share."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator

import pytest
import pyvisa

from tests.bench.engine import Engine

FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session", autouse=True)
def usb_library_is_loaded() -> None:
    """libusb opens a netlink socket for the life of the process; no test is to blame for it."""
    pyvisa.ResourceManager("@py").close()


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
