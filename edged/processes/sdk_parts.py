"""The SDK wrappers put together: the shelf of them, and what other rooms ask of it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

from edged.actions.action import Action
from edged.clock import Clock
from edged.commands.path import Executor
from edged.commands.wrapper_executors import WrapperExecutors, wrapper_capabilities
from edged.config import Config
from edged.processes.stores import Stores
from edged.sdk.shelf import WrapperShelf
from edged.sdk.specs import WrapperSpec
from edged.work.stop_wrappers import WrapperAbort

__all__ = ["SdkParts"]


class SdkParts:
    """The wrappers of one engine.

    Args:
        profile_keys: which no wrapper may be called.
        stores: knows what was learnt of their tools.
    """

    def __init__(
        self, config: Config, *, profile_keys: Collection[str], stores: Stores, clock: Clock
    ) -> None:
        self._stores = stores
        self._clock = clock
        self.shelf = WrapperShelf(
            directories=config.sdk_wrapper_dirs,
            taken=profile_keys,
            memory_mb=config.sdk_memory_mb,
            libraries=config.sdk_libraries,
            settings=config.sdk_settings,
            clock=clock,
        )

    def start(self, parts: contextlib.AsyncExitStack) -> None:
        """Start the workers; ``parts`` gets what ends them."""
        parts.push_async_callback(self.shelf.stop)
        self.shelf.start()

    def executors(self) -> dict[type[Action], Executor]:
        """Their part of ``EXECUTORS``."""
        return WrapperExecutors(shelf=self.shelf, clock=self._clock).table()

    def find_spec(self, stem: str, name: str) -> WrapperSpec:
        """One tool of one wrapper; raises NotFound."""
        return self.shelf.find(stem, name)[1]

    def capabilities(self) -> list[dict[str, Any]]:
        """Their part of get_capabilities."""
        return wrapper_capabilities(self.shelf, self._stores.experience_of_wrapper)

    def aborts(self) -> list[WrapperAbort]:
        """What stop all runs."""
        return [
            WrapperAbort(
                wrapper=executor.stem, spec_name=spec.name, is_expected=executor.has_answered
            )
            for executor, spec in self.shelf.aborts()
        ]

    def is_wrapper(self, name: str) -> bool:
        """Whether this is a wrapper's id."""
        return self.shelf.known(name) is not None

    async def stop_calls_on(self, name: str) -> list[str]:
        """For a lockout; returns the tools whose calls were ended."""
        executor = self.shelf.known(name)
        return executor.stop_calls() if executor is not None else []
