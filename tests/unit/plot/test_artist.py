from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from edged.errors import Conflict, ErrorCode, Failed
from edged.plot.artist import MAX_WAITING, Artist
from edged.plot.figure import Curve, Figure, Panel, read_figure

FIGURE = Figure(
    title="a title",
    x_label="time",
    x_unit="s",
    panels=(
        Panel(label="", unit="V", lines=(Curve(label="a", x=[0.0, 1.0], low=[1.0, None]),)),
        Panel(label="I", unit="A", lines=(Curve(label="b", x=[0.0], low=[1.0], high=[2.0]),)),
    ),
)
PNG = r"b'\x89PNG\r\n\x1a\n'"


def artist(tmp_path: Path, program: str, **more: float) -> Artist:
    command = (sys.executable, "-S", "-c", f"import sys, time, os; {program}")
    return Artist(cache_dir=tmp_path, is_installed=lambda: True, command=command, **more)


def test_a_figure_survives_the_way_to_the_program() -> None:
    assert read_figure(FIGURE.encode()) == Figure(
        title="a title",
        x_label="time",
        x_unit="s",
        panels=FIGURE.panels,
    )


async def test_the_program_gets_the_figure_and_a_place_for_its_cache(tmp_path: Path) -> None:
    cache = "os.environ['MPLCONFIGDIR'].encode()"
    told = f"sys.stdout.buffer.write({PNG} + sys.stdin.buffer.read() + {cache})"
    drawn = await artist(tmp_path, told).draw(FIGURE)
    assert drawn.endswith(FIGURE.encode() + str(tmp_path).encode())


async def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="matplotlib, which is not installed on the bench") as refused:
        await Artist(cache_dir=tmp_path, is_installed=lambda: False).draw(FIGURE)
    assert refused.value.code is ErrorCode.DRAWING_FAILED
    assert "edged[plot]" in refused.value.remedy


async def test_a_program_that_hangs_is_killed_at_its_deadline(tmp_path: Path) -> None:
    hanging = artist(tmp_path, "time.sleep(60)", deadline_s=0.2)
    with pytest.raises(Failed, match=r"not drawn within 0\.2 s"):
        await hanging.draw(FIGURE)


async def test_the_last_words_of_one_that_fails_are_told_without_a_traceback(
    tmp_path: Path,
) -> None:
    with pytest.raises(Failed, match="not drawn: ValueError: no ink") as failed:
        await artist(tmp_path, "raise ValueError('no ink')").draw(FIGURE)
    assert "Traceback" not in failed.value.message
    with pytest.raises(Failed, match="no reason was given"):
        await artist(tmp_path, "print('hello')").draw(FIGURE)


async def test_only_so_many_wait_and_who_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    slow = artist(tmp_path, "time.sleep(60)")
    waiting = [asyncio.create_task(slow.draw(FIGURE)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="wait to be drawn"):
        await slow.draw(FIGURE)
    for task in waiting:
        task.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
