"""The page of ``/metrics``, which is loaded when it is asked for.

prometheus_client takes some 70 ms to import: a start need not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edged.commands.record import CountedRecord
from edged.surfaces.rpc.figures import MetricFigure

if TYPE_CHECKING:
    from edged.surfaces.rpc.metrics import MetricsPage


class MetricsSource:
    """Gives the page.

    Args:
        counts: of calls.
        figures: everything else.
    """

    def __init__(self, counts: CountedRecord, figures: Sequence[MetricFigure]) -> None:
        self._counts = counts
        self._figures = tuple(figures)

    async def __call__(self) -> tuple[bytes, str]:
        """The page as it is now, and its content type."""
        metrics = await asyncio.to_thread(_load)
        self._counts.count()
        page = metrics(self._counts, self._figures)
        return page.render(), page.content_type


def _load() -> type[MetricsPage]:
    from edged.surfaces.rpc.metrics import MetricsPage

    return MetricsPage
