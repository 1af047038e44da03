"""Captured waveforms and large pictures, kept to be fetched under one memory budget.

When there is no room the oldest goes, of whichever stream, and a later fetch of it says so.
Decoding and encoding run on a thread of their own.

Source: docs/promises.md section 7.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from edged.actions.caller import Caller
from edged.errors import ErrorCode, NotFound
from edged.plot.figure import Figure
from edged.profiles.frames import Samples
from edged.profiles.model import WaveformAnswer
from edged.runs.points import (
    DEFAULT_DECIMATED,
    LargePicture,
    Waveform,
    as_base64,
    make_waveform,
)
from edged.runs.recordings.figures import waveform_figure
from edged.yaml.tree import Scalar

PICTURE_URI: Final = "edged://pictures/{tool}/{command_name}/{picture_id}"
MEBIBYTE: Final = 1024 * 1024
MAX_STREAMS: Final = 10_000
"""Streams whose number of waveforms is remembered, so that an old id is still told apart; and as
many pictures."""

T = TypeVar("T")
K = TypeVar("K", Waveform, LargePicture)


class WaveformRegistry:
    """The waveforms and large pictures that can be fetched.

    Args:
        memory_mb: WAVEFORM_MEMORY_MB.
    """

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._kept: OrderedDict[tuple[str, int], Waveform | LargePicture] = OrderedDict()
        self._bytes = 0
        # Stream id → how many waveforms it has had.
        self._counts: OrderedDict[str, int] = OrderedDict()
        # Stream id → route and subject of who has measured it; as many as there are counts.
        self._makers: dict[str, tuple[str, str]] = {}
        # Ids of all pictures there were.
        self._pictures: OrderedDict[str, None] = OrderedDict()
        self._listeners: list[Callable[[str, int], None]] = []
        self._thread = concurrent.futures.ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="edged-waveforms"
        )

    def subscribe(self, listener: Callable[[str, int], None]) -> Callable[[], None]:
        """Tell of each new waveform, by stream_id and point_index, and of each picture by its id.

        Returns:
            What ends that.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def newest(self, most: int) -> list[tuple[str, int, Waveform]]:
        """What can be fetched, newest first: stream_id, point_index, waveform."""
        return list(itertools.islice(self._newest_first(Waveform), most))

    def newest_pictures(self, most: int) -> list[tuple[str, LargePicture]]:
        """The pictures that can be read, newest first, each with its id."""
        newest = itertools.islice(self._newest_first(LargePicture), most)
        return [(picture_id, picture) for picture_id, _, picture in newest]

    def _newest_first(self, kind: type[K]) -> Iterator[tuple[str, int, K]]:
        for (name, index), kept in reversed(self._kept.items()):
            if isinstance(kept, kind):
                yield name, index, kept

    def stop(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, Any]:
        """{count, used_mb, budget_mb}: for get_status."""
        return {
            "count": len(self._kept),
            "used_mb": round(self._bytes / MEBIBYTE, 3),
            "budget_mb": self._memory_mb,
        }

    async def decode(
        self,
        answer: WaveformAnswer,
        blocks: Sequence[Samples],
        preamble: str | None,
        values: Mapping[str, Scalar],
    ) -> Waveform:
        return await self.on_thread(make_waveform, answer, blocks, preamble, values)

    def add(self, stream_id: str, waveform: Waveform, maker: Caller) -> int:
        """Keep a waveform; what is too old for the budget goes.

        Args:
            maker: who has measured it.

        Returns:
            Its point_index.
        """
        index = self._counts.get(stream_id, 0)
        self._counts[stream_id] = index + 1
        self._counts.move_to_end(stream_id)
        self._makers[stream_id] = maker.route.value, maker.subject
        if len(self._counts) > MAX_STREAMS:
            oldest, _ = self._counts.popitem(last=False)
            del self._makers[oldest]
        self._keep(stream_id, index, waveform)
        return index

    def add_picture(self, picture: LargePicture) -> str:
        """Keep a picture; what is too old for the budget goes.

        Returns:
            Its id.
        """
        picture_id = f"picture-{secrets.token_hex(5)}"
        self._pictures[picture_id] = None
        if len(self._pictures) > MAX_STREAMS:
            self._pictures.popitem(last=False)
        self._keep(picture_id, 0, picture)
        return picture_id

    def _keep(self, name: str, index: int, captured: Waveform | LargePicture) -> None:
        self._kept[name, index] = captured
        self._bytes += len(captured.samples)
        while self._bytes > self._memory_mb * MEBIBYTE:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.samples)
        for listener in tuple(self._listeners):
            listener(name, index)

    def picture(self, picture_id: str) -> LargePicture:
        """One picture.

        Raises:
            NotFound: UNKNOWN_RESOURCE, which says whether it was evicted.
        """
        kept = self._kept.get((picture_id, 0))
        if isinstance(kept, LargePicture):
            return kept
        if picture_id in self._pictures:
            raise NotFound(
                f"{picture_id} was evicted: large pictures and waveforms are kept in "
                f"{self._memory_mb} MiB (WAVEFORM_MEMORY_MB), and the oldest go first.",
                code=ErrorCode.UNKNOWN_RESOURCE,
                data={"picture_id": picture_id, "evicted": True},
                remedy="Take the picture again, and read it sooner.",
            )
        raise NotFound(
            f"There is no picture {picture_id[:100]!r}.",
            code=ErrorCode.UNKNOWN_RESOURCE,
            data={"picture_id": picture_id[:100]},
            remedy="Take its URI from the result of execute_command.",
        )

    async def read_picture(self, picture: LargePicture) -> dict[str, Any]:
        """{mime, length, encoding, image}: a picture as text, made beside the loop."""
        return {
            "mime": picture.mime,
            "length": len(picture.samples),
            "encoding": "base64",
            "image": await self.on_thread(as_base64, picture.samples),
        }

    def last(self, stream_id: str, caller: Caller) -> int | None:
        """The point_index of a stream's newest waveform, if it is kept and shown to the caller."""
        index = self._counts.get(stream_id, 0) - 1
        if (stream_id, index) not in self._kept or not caller.is_shown(*self._makers[stream_id]):
            return None
        return index

    def get(self, stream_id: str, point_index: int) -> Waveform:
        """One waveform.

        Raises:
            NotFound: UNKNOWN_STREAM; UNKNOWN_POINT, which says whether it was evicted.
        """
        kept = self._kept.get((stream_id, point_index))
        if isinstance(kept, Waveform):
            return kept
        count = self._counts.get(stream_id)
        if count is None:
            raise NotFound(
                f"There are no waveforms of a stream {stream_id[:100]!r}.",
                code=ErrorCode.UNKNOWN_STREAM,
                data={"stream_id": stream_id[:100]},
                remedy="Take stream_id from the result of execute_command or start_stream.",
            )
        if 0 <= point_index < count:
            raise NotFound(
                f"Waveform {point_index} of {stream_id} was evicted: waveforms are kept in "
                f"{self._memory_mb} MiB (WAVEFORM_MEMORY_MB), and the oldest go first.",
                code=ErrorCode.UNKNOWN_POINT,
                data={"stream_id": stream_id, "point_index": point_index, "evicted": True},
                remedy="Fetch sooner; the stream's recording has it.",
            )
        raise NotFound(
            f"{stream_id} has {count} waveforms so far, so point_index goes from 0 to {count - 1}.",
            code=ErrorCode.UNKNOWN_POINT,
            data={"stream_id": stream_id, "point_index": point_index, "count": count},
        )

    async def fetch(
        self,
        stream_id: str,
        point_index: int,
        form: str,
        points: int = DEFAULT_DECIMATED,
        first: int = 0,
        count: int | None = None,
    ) -> dict[str, Any]:
        """The result of fetch_waveform in one of its formats; for png all but the picture.

        Args:
            points: of ``decimated``, the most numbers.
            first: of ``base64``: see ``Waveform.base64``, as of ``count``.

        Raises:
            NotFound: see ``get``.
            Invalid: see ``Waveform.base64``.
        """
        waveform = self.get(stream_id, point_index)
        shown: dict[str, Any] = {}
        match form:
            case "base64":
                shown = await self.on_thread(waveform.base64, first, count)
            case "summary":
                shown = await self.on_thread(waveform.summary)
            case "decimated":
                shown = await self.on_thread(waveform.decimated, points)
        return {
            "stream_id": stream_id,
            "point_index": point_index,
            "format": form,
            **waveform.told(),
            "x_first": waveform.x_first,
            **waveform.freshness,
            "preamble": dict(waveform.preamble),
            **shown,
        }

    async def figure(self, stream_id: str, point_index: int, title: str = "") -> Figure:
        """What a picture of a waveform shows.

        Raises:
            NotFound: see ``get``.
        """
        title = title or f"Waveform {point_index} of {stream_id}"
        return await self.on_thread(waveform_figure, self.get(stream_id, point_index), title)

    async def on_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Do what takes long beside the loop, one such thing after another."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *arguments)
