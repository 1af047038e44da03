"""A page is printed by a browser that ends, and leaves nothing, whatever it does."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from edged.errors import ErrorCode, Failed
from edged.plot.browser import NAMES, PrintingBrowser, find_browser

PAGE = b"<!DOCTYPE html><title>a page</title>"
READ = """
import os, sys, subprocess, time
words = dict(word.removeprefix('--').partition('=')[::2] for word in sys.argv[1:])
page = open(sys.argv[-1].removeprefix('file://'), 'rb').read()
pdf = words['print-to-pdf']
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is made on the way lies."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def program(tmp_path: Path, body: str, name: str = "browser") -> str:
    path = tmp_path / name
    path.write_text(f"#!{sys.executable} -S\n{READ}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def browser(found: str, deadline_s: float = 20.0) -> PrintingBrowser:
    return PrintingBrowser(find=lambda: found, deadline_s=deadline_s)


async def test_it_gets_the_page_and_its_own_empty_home_and_leaves_nothing(
    tmp_path: Path, place: Path
) -> None:
    body = "open(pdf, 'wb').write(b'%PDF-1.7 ' + page + os.environ['HOME'].encode())"
    printed = await browser(program(tmp_path, body)).print(PAGE)
    assert printed.startswith(b"%PDF-1.7 " + PAGE)
    assert str(place).encode() in printed
    assert list(place.iterdir()) == []


async def test_it_gets_a_new_profile_no_network_and_no_script(tmp_path: Path) -> None:
    body = "open(pdf, 'wb').write(b'%PDF-' + repr(sys.argv).encode())"
    printed = (await browser(program(tmp_path, body)).print(PAGE)).decode()
    for word in ("--user-data-dir=", "--host-resolver-rules=MAP * ~NOTFOUND", "--headless"):
        assert word in printed
    assert ("--no-sandbox" in printed) == (os.geteuid() == 0)


async def test_one_that_hangs_is_killed_with_all_it_started(tmp_path: Path, place: Path) -> None:
    told = tmp_path / "child"
    body = (
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(told)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(Failed, match=r"did not print it within 3 s") as refused:
        await browser(program(tmp_path, body), deadline_s=3.0).print(PAGE)
    assert refused.value.code is ErrorCode.DRAWING_FAILED
    await gone(int(told.read_text()))
    assert list(place.iterdir()) == []


async def test_who_waits_no_longer_leaves_no_browser_behind(tmp_path: Path, place: Path) -> None:
    told = tmp_path / "pid"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    body = (
        f"open({str(told)!r}, 'w').write(str(os.getpid()))\n"
        f"open({str(fifo)!r}, 'w').close()\n"
        "time.sleep(60)"
    )
    task = asyncio.create_task(browser(program(tmp_path, body)).print(PAGE))
    await asyncio.to_thread(fifo.read_bytes)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int(told.read_text()))
    assert list(place.iterdir()) == []


async def gone(pid: int) -> None:
    """Its parent was killed, so that somebody else takes its last word."""
    async with asyncio.timeout(10):
        while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sys.exit(3)", "status 3 and made no PDF"),
        ("open(pdf, 'wb').write(b'an error page')", "status 0 and made no PDF"),
    ],
)
async def test_one_that_makes_no_pdf_is_an_error_with_its_status(
    tmp_path: Path, body: str, told: str
) -> None:
    with pytest.raises(Failed, match=told):
        await browser(program(tmp_path, body)).print(PAGE)


async def test_one_that_cannot_be_started_is_an_error(tmp_path: Path, place: Path) -> None:
    nothing = tmp_path / "nothing"
    with pytest.raises(Failed, match="cannot be started"):
        await browser(str(nothing)).print(PAGE)
    assert list(place.iterdir()) == []


async def test_without_one_it_is_said_so(tmp_path: Path) -> None:
    assert not browser("").is_installed
    with pytest.raises(Failed, match="no browser is installed"):
        await browser("").print(PAGE)


def test_the_first_of_the_known_names_on_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_browser() == ""
    second = program(tmp_path, "", NAMES[3])
    assert find_browser() == second
    first = program(tmp_path, "", NAMES[0])
    assert find_browser() == first
    assert PrintingBrowser().is_installed
