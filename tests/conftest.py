"""What every test gets: a driven clock, free ports, and a look at what it left behind.

A test that leaves an asyncio task, a thread, a child process or an open socket fails at its end, so
that the leak is found where it is made and not three tests later.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.bench.driven_clock import DrivenClock
from tests.bench.leaks import EVERYTHING, GRACE_S, Before, Kind, is_hosting

# How long an example takes depends on what else this machine does. CI looks longer than a person
# at a keyboard wants to wait: `--hypothesis-profile=ci`.
settings.register_profile("usual", deadline=None, max_examples=25, stateful_step_count=20)
settings.register_profile("ci", deadline=None, max_examples=300, stateful_step_count=50)
settings.load_profile("usual")

MEMORY = Path("/dev/shm")
# What a whole run leaves there is some hundred megabytes; a small one fills under it.
LEAST_MEMORY_BYTES = 4 * 1024**3

# Files that take long go first, so that no worker waits for another at the end. Unit tests, which
# compute, stand between the others, which wait.
LONG_FILES = (
    "test_experiment_for_real",
    "test_identity_owed",
    "test_pymeasure",
    "test_newcomers_with_lewis",
    "test_newcomers_without_scpi",
    "test_add_your_instrument",
    "test_official_suite",
    "test_page",
    "test_site",
    "test_side_by_side",
    "test_newcomers",
    "test_inspector",
    "test_agents",
    "test_attacks",
    "test_peers_maps",
    "test_resume",
    "test_storm",
    "test_in_step",
    "test_hot_reload",
    "test_profiles_matrix",
    "test_visa_programs",
    "test_sweep_faults",
    "test_engine_storm",
    "test_hislip_network",
    "test_interlocks_attacked",
    "test_probe",
    "test_dead_man_attacked",
    "test_no_scpi",
    "test_dead_man",
    "test_bench_runs",
    "test_approval_clients",
    "test_interlocks",
    "test_source_traps",
    "test_causes",
    "test_telemetry",
    "test_docs_pages",
    "test_approval_attacks",
    "test_engine_killed",
    "test_sdk_client",
    "test_clients",
    "test_sweeps",
    "test_fleet_page",
    "test_login",
    "test_relay",
    "test_engine",
    "test_streams",
    "test_checks",
)


def pytest_configure() -> None:
    """Keep what tests write in memory, where the machine has room for it.

    edged waits for a disk that hangs, and refuses what it cannot record: on a machine whose disk
    stalls for some seconds, a test of something else would tell of that. The tests of a hung and of
    a full disk make their own.
    """
    if "TMPDIR" not in os.environ and _is_roomy(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    # What the shell says of its owner's engine is not meant for those that are tried here.
    for name in [name for name in os.environ if name.startswith("EDGED_")]:
        del os.environ[name]
    _heed_signals()


def _heed_signals() -> None:
    """Let programs under test be asked to end, whoever runs the tests.

    What nohup or a shell's ``&`` has this process ignore, the programs that it starts would too.
    """
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _is_roomy(folder: Path) -> bool:
    if sys.platform == "win32" or not os.access(folder, os.W_OK | os.X_OK):
        return False
    may_hold_programs = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return may_hold_programs and shutil.disk_usage(folder).free >= LEAST_MEMORY_BYTES


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    files = dict.fromkeys(item.path for item in items)
    kinds: tuple[list[Path], list[Path]] = ([], [])
    for file in files:
        kinds["unit" in file.parts].append(file)
    place = {file: rank / len(kind) for kind in kinds for rank, file in enumerate(kind)}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Thousands of tests are no garbage; looking through them would take much of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()
    # A tenth of the processor time of a run went into looks for cycles, of which there are few.
    gc.set_threshold(20_000, 10, 10)


def _turn(item: pytest.Item) -> int:
    stem = item.path.stem
    return LONG_FILES.index(stem) if stem in LONG_FILES else len(LONG_FILES)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    # The threads and sockets of an engine that several tests use come and go while it lives.
    kinds = Kind.CHILDREN if is_hosting() else EVERYTHING
    before = Before()
    yield
    if left := before.left(kinds):
        pytest.fail(f"left behind: {', '.join(left)}", pytrace=False)


@pytest.fixture(autouse=True)
def no_task_left_in_a_loop(
    request: pytest.FixtureRequest,
    nothing_left_behind: None,  # for the order of the two
) -> None:
    """Only tests with a loop pay for one; the loop itself is gone when its sockets are counted."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("no_task_left")


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    deadline = asyncio.get_running_loop().time() + GRACE_S
    while _new_tasks(before) and asyncio.get_running_loop().time() < deadline:
        await asyncio.wait(_new_tasks(before), timeout=GRACE_S)
    left = [task.get_name() + f" {task.get_coro()}" for task in _new_tasks(before)]
    if left:
        pytest.fail(f"tasks left behind: {', '.join(left)}", pytrace=False)


@pytest.fixture
def driven_clock() -> DrivenClock:
    return DrivenClock()


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Makes loopback port numbers that nobody listens on; no two calls give the same."""
    given: set[int] = set()

    def find() -> int:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            if port not in given:
                given.add(port)
                return port

    return find


def _new_tasks(before: set[asyncio.Task[object]]) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - before - {asyncio.current_task()}  # type: ignore[arg-type]
