"""A worker that does as it is told: what the executor of a wrapper meets, without a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edged.clock import Clock
from edged.sdk.executor import WrapperExecutor
from edged.sdk.process import WorkerDied
from edged.sdk.specs import WrapperSpec

SPECS: list[dict[str, Any]] = [
    {
        "name": "read",
        "description": "Read it.",
        "method": "read",
        "is_query": True,
        "returns": {"type": "float", "unit": "V"},
    },
    {
        "name": "set",
        "description": "Set it.",
        "method": "set",
        "parameters": {"volts": {"type": "float", "min": 0, "max": 30, "unit": "V"}},
    },
    {"name": "arm", "description": "Output on.", "method": "arm", "is_dangerous": True},
    {"name": "off", "description": "Off.", "method": "off", "is_safe": True, "is_abort": True},
]


def loaded(specs: object = SPECS, missing: object = None, usb_ids: object = None) -> dict[str, Any]:
    return {
        "loaded": {
            "specs": specs,
            "lines": [],
            "line": 1,
            "methods": None,
            "missing": missing,
            "usb_ids": usb_ids,
        }
    }


class FakeWorker:
    """One life. ``answers`` are taken in turn; an exception is raised, a future waited for."""

    def __init__(self, bench: WorkerBench, on_end: Callable[[], None]) -> None:
        self._bench = bench
        self._on_end = on_end
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pid = 0
        self.is_dead = False

    async def start(self) -> Mapping[str, Any]:
        first = self._bench.starts.pop(0) if self._bench.starts else loaded()
        if isinstance(first, WorkerDied):
            self.is_dead = True
            raise first
        return first

    async def ask(
        self, method: str, arguments: Mapping[str, Any], timeout_s: float
    ) -> Mapping[str, Any]:
        self._bench.asked.append((method, dict(arguments)))
        answer: Any = self._bench.answers.pop(0) if self._bench.answers else {"value": None}
        if isinstance(answer, asyncio.Future):
            await asyncio.wait({answer, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                raise WorkerDied("crashed (SIGKILL)")
            answer = answer.result()
        if isinstance(answer, WorkerDied):
            self.die()
        if isinstance(answer, Exception):
            raise answer
        reply: Mapping[str, Any] = answer
        return reply

    def die(self) -> None:
        """End by itself."""
        self.is_dead = True
        if not self._ended.done():
            self._ended.set_result(None)
        self._on_end()

    def kill(self) -> None:
        self._bench.kills += 1
        self.die()

    async def end(self) -> None:
        self.is_dead = True
        self._bench.ended += 1


class WorkerBench:
    """Makes an executor whose workers follow a script, and remembers what they were asked."""

    def __init__(self, clock: Clock, path: Path = Path("/w/toy.py")) -> None:
        self.starts: list[dict[str, Any] | WorkerDied] = []
        self.answers: list[Any] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.kills = self.ended = self.changes = 0
        self.workers: list[FakeWorker] = []
        self.executor = WrapperExecutor(
            "toy", path, make=self._make, clock=clock, on_change=self._note_change
        )

    def spec(self, name: str) -> WrapperSpec:
        return next(spec for spec in self.executor.specs if spec.name == name)

    async def run(self, name: str, **arguments: Any) -> Any:
        return await self.executor.run_tool(self.spec(name), arguments)

    def _make(self, on_end: Callable[[], None]) -> FakeWorker:
        worker = FakeWorker(self, on_end)
        self.workers.append(worker)
        return worker

    def _note_change(self) -> None:
        self.changes += 1
