"""Which wrappers' tools are listed: those whose device was seen, or that their owner wants."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from edged.sdk.registry import WrapperRegistry
from tests.bench.driven_clock import DrivenClock
from tests.bench.fake_worker import FakeWorker, WorkerBench, loaded
from tests.promises import promise

KORAD = (0x0416, 0x5011)
DIGILENT = (0x1443, 0x7003)
FOREIGN = (0x0403, 0x6001)


async def registry(
    tmp_path: Path, clock: DrivenClock, usb_ids: object, settings: Collection[str] = ()
) -> tuple[WrapperRegistry, list[int]]:
    (tmp_path / "supply.py").touch()
    bench = WorkerBench(clock)
    bench.starts = [loaded(usb_ids=usb_ids)]

    def make(_launch: Any, _output: Any, _clock: Any, on_end: Any) -> FakeWorker:
        return FakeWorker(bench, on_end)

    made = WrapperRegistry(
        directories=[tmp_path],
        taken=(),
        memory_mb=100,
        libraries={},
        settings={name: {} for name in settings},
        clock=clock,
        shipped=tmp_path,
        make_worker=make,
    )
    changes: list[int] = []
    made.subscribe(lambda: changes.append(len([one for one in made.offered() if one.is_seen])))
    made.start()
    await made.first_look(5)
    return made, changes


@promise("sdk.absent")
@pytest.mark.parametrize(
    ("usb_ids", "seen", "is_seen"),
    [
        (["0416:5011"], {FOREIGN}, False),
        (["0416:5011"], {FOREIGN, KORAD}, True),
        (["1443:*"], {DIGILENT}, True),
        (["1443:*"], {KORAD}, False),
        # What says nothing could never be seen.
        (None, set(), True),
        (["not an id", 7], set(), True),
    ],
)
async def test_what_ships_is_listed_once_its_device_hangs_on_usb(
    tmp_path: Path,
    driven_clock: DrivenClock,
    usb_ids: object,
    seen: set[tuple[int, int]],
    is_seen: bool,
) -> None:
    made, changes = await registry(tmp_path, driven_clock, usb_ids)
    before = len(changes)
    made.note_seen(seen)
    (wrapper,) = made.offered()
    assert wrapper.is_seen is is_seen
    if seen:
        assert changes[before:] == ([1] if is_seen else [])
    # It stays: a device that is unplugged for a moment must not change the list.
    made.note_seen(set())
    assert wrapper.is_seen is is_seen
    await made.stop()


async def test_a_device_that_was_seen_before_its_wrapper_was_loaded_counts(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    (tmp_path / "supply.py").touch()
    bench = WorkerBench(driven_clock)
    bench.starts = [loaded(usb_ids=["0416:5011"])]
    made = WrapperRegistry(
        directories=[tmp_path],
        taken=(),
        memory_mb=100,
        libraries={},
        settings={},
        clock=driven_clock,
        shipped=tmp_path,
        make_worker=lambda _launch, _output, _clock, on_end: FakeWorker(bench, on_end),
    )
    made.note_seen({KORAD})
    made.start()
    await made.first_look(5)
    (wrapper,) = made.offered()
    assert wrapper.is_seen
    await made.stop()


async def test_one_that_its_owner_names_is_listed_without_a_device(
    tmp_path: Path, driven_clock: DrivenClock
) -> None:
    made, _ = await registry(tmp_path, driven_clock, ["0416:5011"], settings=["supply"])
    (wrapper,) = made.offered()
    assert wrapper.is_seen
    await made.stop()
