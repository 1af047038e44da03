"""All SDK wrappers of this machine: found, started, asked, told of, ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog

from edged.clock import Clock
from edged.errors import ErrorCode, NotFound
from edged.host import resident_bytes
from edged.sdk.executor import WrapperExecutor, WrapperState
from edged.sdk.process import Launch, OutputLog, WorkerProcess
from edged.sdk.specs import PREFIX, UsbId, WrapperSpec, wrapper_id
from edged.sdk.wrapper import find_wrappers

MEBIBYTE: Final = 1024 * 1024

MakeWorker = Callable[[Launch, OutputLog, Clock, Callable[[], None]], WorkerProcess]


def _process(
    launch: Launch, output: OutputLog, clock: Clock, on_end: Callable[[], None]
) -> WorkerProcess:
    return WorkerProcess(launch, output=output, clock=clock, on_end=on_end)


class WrapperRegistry:
    """The wrappers, each with its worker.

    Args:
        directories: SDK_WRAPPER_DIRS.
        taken: keys of profiles, which no wrapper may be called.
        memory_mb: SDK_MEMORY_MB.
        libraries: SDK_LIBRARIES.
        settings: SDK_SETTINGS: wrapper → name → text.
        variables: SDK_ENVIRONMENT.
        clock: for rests.
        shipped: of the directories, the one that nobody chose: what it holds is listed where its
            device was seen, or SDK_SETTINGS names it.
        make_worker: makes workers; a test has its own.
    """

    def __init__(
        self,
        *,
        directories: Sequence[Path],
        taken: Collection[str],
        memory_mb: int,
        libraries: Mapping[str, Path],
        settings: Mapping[str, Mapping[str, str]],
        variables: Sequence[str] = (),
        clock: Clock,
        shipped: Path | None = None,
        make_worker: MakeWorker = _process,
    ) -> None:
        files = find_wrappers(directories, taken)
        self._complaints = list(files.complaints)
        self._complaints += [
            f"SDK_SETTINGS names {stem}, which is not a wrapper."
            for stem in settings
            if stem not in files.found
        ]
        self._listeners: list[Callable[[], None]] = []
        self._seen: frozenset[UsbId] = frozenset()
        self._log = structlog.get_logger("edged.sdk")
        common = Launch(
            stem="",
            path=Path(),
            directories=tuple(directories),
            memory_mb=memory_mb,
            libraries=libraries,
            variables=tuple(variables),
        )
        self._shelved: dict[str, WrapperExecutor] = {}
        for stem, path in sorted(files.found.items()):
            launch = replace(common, stem=stem, path=path, settings=settings.get(stem, {}))
            self._shelved[stem] = WrapperExecutor(
                stem,
                path,
                make=_maker(make_worker, launch, OutputLog(stem, clock), clock),
                clock=clock,
                on_change=self._publish,
                is_seen=path.parent != shipped or stem in settings,
            )

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever tools or states have changed."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start every worker; returns at once."""
        for complaint in self._complaints:
            self._log.warning("sdk_wrapper_refused", complaint=complaint)
        for executor in self._shelved.values():
            executor.start()

    async def first_look(self, within_s: float) -> None:
        """Return when every wrapper has been loaded or could not be, or when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for executor in self._shelved.values():
                    await executor.looked.wait()

    async def stop(self) -> None:
        """End every worker, side by side."""
        await asyncio.gather(*(executor.stop() for executor in self._shelved.values()))

    def offered(self) -> tuple[WrapperExecutor, ...]:
        """The wrappers that have tools, by name."""
        return tuple(one for one in self._shelved.values() if one.specs)

    def note_seen(self, usb_ids: Collection[tuple[int, int]]) -> None:
        """These hang on USB: the tools of their wrappers are listed from now on."""
        self._seen |= {*usb_ids, *((vendor, None) for vendor, _ in usb_ids)}
        self._list_seen()

    def _list_seen(self) -> None:
        for executor in self._shelved.values():
            if not self._seen.isdisjoint(executor.usb_ids):
                executor.note_device()

    def find(self, wrapper: str, spec_name: str) -> tuple[WrapperExecutor, WrapperSpec]:
        """One tool of one wrapper.

        Raises:
            NotFound: UNKNOWN_COMMAND.
        """
        executor = self._shelved.get(wrapper)
        for spec in executor.specs if executor is not None else ():
            if executor is not None and spec.name == spec_name:
                return executor, spec
        raise NotFound(
            f"There is no tool {spec_name!r} of an SDK wrapper {wrapper!r} now.",
            code=ErrorCode.UNKNOWN_COMMAND,
            data={"wrapper": wrapper, "tool": spec_name},
            remedy="tools/list has the present names; get_status says how wrappers are.",
        )

    def known(self, name: str) -> WrapperExecutor | None:
        """The wrapper with that id (``sdk:<stem>``)."""
        return self._shelved.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None

    def aborts(self) -> list[tuple[WrapperExecutor, WrapperSpec]]:
        """What stop all runs: one abort a wrapper, or several in their order."""
        return [(one, spec) for one in self.offered() for spec in one.specs if spec.is_abort]

    def status(self) -> dict[str, Any]:
        """For get_status."""
        return {
            "wrappers": [_told(executor) for executor in self._shelved.values()],
            "complaints": list(self._complaints),
        }

    def _publish(self) -> None:
        # One that was loaded just now says by what its device is known.
        self._list_seen()
        for listener in self._listeners:
            listener()


def _maker(
    make: MakeWorker, launch: Launch, output: OutputLog, clock: Clock
) -> Callable[[Callable[[], None]], WorkerProcess]:
    return lambda on_end: make(launch, output, clock, on_end)


def _told(executor: WrapperExecutor) -> dict[str, Any]:
    used = resident_bytes(executor.pid) if executor.pid else None
    return {
        "wrapper": executor.stem,
        "id": wrapper_id(executor.stem),
        "path": str(executor.path),
        "state": executor.state.value,
        "is_seen": executor.is_seen,
        "is_usable": executor.state in (WrapperState.READY, WrapperState.STARTING),
        "problem": executor.problem,
        "remedy": executor.remedy,
        "tools": len(executor.specs),
        "running": executor.running or None,
        "waiting": executor.waiting,
        "restarts": executor.restarts,
        "last_loss": executor.last_loss or None,
        "pid": executor.pid or None,
        "memory_mb": None if used is None else round(used / MEBIBYTE, 1),
    }
