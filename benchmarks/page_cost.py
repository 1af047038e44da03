"""What people who look at the bench page cost the engine.

``python -m benchmarks.page_cost`` opens sixteen pages beside a stream of 10 Hz. Each does what
``main.js`` does and draws nothing: the socket with all topics, and with what browsers offer for it;
the status and the instruments every five seconds and soon after news; new rows of the run every
second. With pages and without take turns, since the machine's speed comes and goes. Then a cached
call by 16 clients beside the same pages, the bytes of all files, what an engine has in memory whose
page nobody opens, beside one that has none, and the first paint in a browser (chromium and its
driver).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import aiohttp

from benchmarks.compare.clients import load
from benchmarks.compare.measures import THREE
from benchmarks.compare.price import STATUS
from benchmarks.compare.servers import Server, engine, simulator
from benchmarks.figures import Figure, tell
from tests.bench.browser import running_browser
from tests.bench.engine_process import REPOSITORY, EngineProcess
from tests.bench.mcp_client import modern

PAGES: Final = 16
TURNS: Final = 4
WATCHED_S: Final = 12.0
SETTLED_S: Final = 2.0
CALLED_S: Final = 4.0
INTERVAL_MS: Final = 100
MOST_FILES: Final = 160_000
MOST_CORE: Final = 5.0
MOST_CALL: Final = 1.3
PAINTED: Final = 9
MOST_PAINT_MS: Final = 500
STATIC = REPOSITORY / "edged" / "surfaces" / "page" / "static"

TOPICS: Final = ("instrument", "sweep", "stream", "audit", "value")
REFRESH_S: Final = 5.0
SPACED_S: Final = 1.0
PLOT_S: Final = 1.0
OFFERED_WINDOW: Final = 15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page_cost", description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--look", metavar="URL", help="be the pages, until the input ends")
    options = parser.parse_args()
    if options.look:
        asyncio.run(_look(options.look))
        return 0
    figures = [*_beside_a_stream(), _files(), *_memory(), _first_paint()]
    return tell(f"what {PAGES} open pages cost", figures, as_json=options.json)


def _beside_a_stream() -> list[Figure]:
    cores: dict[bool, list[float]] = {True: [], False: []}
    calls: dict[bool, list[float]] = {True: [], False: []}
    with simulator("--instruments", THREE) as bench, engine(bench) as (server, process):
        for _ in range(TURNS):
            for is_shown in (False, True):
                with _pages(server) if is_shown else contextlib.nullcontext():
                    with _stream(process):
                        cores[is_shown].append(_core_percent(server))
                    idle = _core_percent(server, WATCHED_S / 3) / 100
                    told = load(server, [STATUS], clients=16, seconds=CALLED_S)
                    spent_us = told["cpu_us"] - idle * CALLED_S / told["calls"] * 1e6
                    calls[is_shown].append(spent_us)
    shown, alone = (statistics.median(cores[one]) for one in (True, False))
    dear, cheap = (statistics.median(calls[one]) for one in (True, False))
    return [
        Figure(name="a stream of 10 Hz alone", value=alone, unit="% of a core"),
        Figure(name="pages more", value=shown - alone, unit="% of a core", bound=MOST_CORE),
        Figure(name="a cached call alone", value=cheap, unit="us"),
        Figure(name="times that beside pages", value=dear / cheap, unit="x", bound=MOST_CALL),
    ]


def _core_percent(server: Server, watched_s: float = WATCHED_S) -> float:
    time.sleep(SETTLED_S)  # noqa: TID251 - another process's threads
    before, began = server.cpu_s(), time.perf_counter()
    time.sleep(watched_s)  # noqa: TID251 - time is what is measured
    return (server.cpu_s() - before) / (time.perf_counter() - began) * 100


@contextlib.contextmanager
def _stream(process: EngineProcess) -> Iterator[None]:
    started = process.tool(
        "start_stream",
        instrument_id="psu1",
        command_name="measure_voltage",
        parameters={"channel": 1},
        interval_ms=INTERVAL_MS,
        duration_ms=600_000,
        detach=True,
    )
    if started["is_error"]:
        sys.exit(f"psu1 cannot be measured: {started}")
    try:
        yield
    finally:
        process.tool("stop_stream", stream_id=started["result"]["stream_id"])


@contextlib.contextmanager
def _pages(server: Server) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.page_cost", "--look", server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            sys.exit("no page was opened")
        yield
        if process.poll() is not None:
            sys.exit("the pages were closed")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


def _files() -> Figure:
    count = sum(file.stat().st_size for file in STATIC.iterdir())
    return Figure(name="all files of the page", value=count, unit="bytes", bound=MOST_FILES)


def _memory() -> list[Figure]:
    found: dict[str, list[float]] = {"off": [], "read": []}
    for _ in range(TURNS):
        for mode, own in found.items():
            with (
                simulator("--instruments", THREE) as bench,
                engine(bench, BENCH_PAGE=mode) as (server, _process),
            ):
                time.sleep(SETTLED_S)  # noqa: TID251 - what was queued is written meanwhile
                own.append(server.rss_kb())
    unused, none = (statistics.median(found[mode]) for mode in ("read", "off"))
    return [
        Figure(name="resident, BENCH_PAGE off", value=none / 1024, unit="MB"),
        Figure(name="more with a page nobody opened", value=unused - none, unit="KB"),
    ]


def _first_paint() -> Figure:
    """In Debian's chromium, which has loaded the page before as a person's has."""
    painted = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    found: list[float] = []
    with (
        simulator("--instruments", THREE) as bench,
        engine(bench) as (server, _process),
        running_browser() as browser,
    ):
        for _ in range(PAINTED):
            browser.open("about:blank")
            browser.open(f"{server.url.removesuffix('/mcp')}/bench")
            browser.sees("live, edged")
            found.append(browser.wait(lambda: browser.run(painted)))
    return Figure(
        name="first paint, median", value=statistics.median(found), unit="ms", bound=MOST_PAINT_MS
    )


# The pages, in a process of their own


async def _look(url: str) -> None:
    ready = [asyncio.Event() for _ in range(PAGES)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        pages = [_Page(session, url) for _ in ready]
        looking = [
            asyncio.create_task(page.live(each)) for page, each in zip(pages, ready, strict=True)
        ]
        opened = asyncio.gather(*(each.wait() for each in ready))
        await asyncio.wait([opened, *looking], return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
            await asyncio.wait([ended, *looking], return_when=asyncio.FIRST_COMPLETED)
        for task in looking:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        opened.cancel()


class _Page:
    """One: hears everything, asks as ``main.js`` does, draws nothing."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._look = ""
        self._runs: list[str] = []
        self._next: dict[str, int] = {}
        self._news = asyncio.Event()

    async def live(self, is_ready: asyncio.Event) -> None:
        events = f"{self._url.removesuffix('/mcp')}/bench/events"
        async with (
            self._session.ws_connect(events, compress=OFFERED_WINDOW) as socket,
            asyncio.TaskGroup() as tasks,
        ):
            params = {"topics": TOPICS}
            await socket.send_json(
                {"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": params}
            )
            self._look = (await socket.receive_json())["result"]["look"]
            tasks.create_task(self._refresh_again())
            tasks.create_task(self._plot_again())
            is_ready.set()
            async for message in socket:
                told = json.loads(message.data)
                if _is_news(told.get("params", {})):
                    self._news.set()
            raise ConnectionError("the engine has closed a page")

    async def _refresh_again(self) -> None:
        while True:
            status, _ = await asyncio.gather(
                self._call("get_status"), self._call("list_instruments")
            )
            self._runs = [one["stream_id"] for one in status["streams"]]
            await self._plot()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):
                    await self._news.wait()
                    await asyncio.sleep(SPACED_S)
            self._news.clear()

    async def _plot_again(self) -> None:
        while True:
            await asyncio.sleep(PLOT_S)
            await self._plot()

    async def _plot(self) -> None:
        for run_id in self._runs:
            start = self._next.get(run_id, 0)
            told = await self._call(
                "bench__runs", run_id=run_id, from_row=start, rows=2000, every=1
            )
            self._next[run_id] = start + len(told["rows"])

    async def _call(self, tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments}
        message, headers = modern(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        )
        headers = {**headers, "Accept": "application/json", "Edged-Look": self._look}
        async with self._session.post(self._url, json=message, headers=headers) as response:
            told = await response.json()
        if "error" in told or told["result"].get("isError"):
            raise ConnectionError(f"{tool}: {told}")
        return told["result"]["structuredContent"]


def _is_news(event: dict[str, Any]) -> bool:
    """As ``main.js``: points, values and what a run does at each step are drawn, no more."""
    topic = event.get("topic")
    if topic == "audit":
        return not event["data"]["on_behalf_of"]
    return topic in {"instrument", "sweep"}


if __name__ == "__main__":
    raise SystemExit(main())
