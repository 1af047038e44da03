"""The RPC interface's own methods for recordings, running streams and pictures; they only tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edged.actions.outcome import Picture
from edged.errors import Invalid
from edged.plot.artist import Artist
from edged.surfaces.rpc.methods import OwnMethod, picture_told
from edged.work.run_figure import run_figure
from edged.work.run_head import RunKind
from edged.work.run_reader import MAX_ROWS, export_run, list_runs, show_run
from edged.work.runs import RunBook
from edged.work.streams import StreamBook
from edged.work.waveforms import WaveformBook

__all__ = ["run_methods"]

Params = Mapping[str, Any]
MAX_LISTED = 10_000


def run_methods(
    runs: RunBook, streams: StreamBook, waveforms: WaveformBook, artist: Artist
) -> dict[str, OwnMethod]:
    """``runs.…``, ``streams.show`` and ``pictures.show``."""

    async def list_(params: Params) -> Any:
        kind = _text(params, "kind", "")
        if kind and kind not in list(RunKind):
            raise Invalid(
                f"kind is one of {', '.join(RunKind)}.", data={"parameter": "kind", "value": kind}
            )
        limit = _integer(params, "limit", 100, 1, MAX_LISTED)
        found = await runs.read(list_runs, limit, kind, _text(params, "instrument", ""))
        return {"runs": found}

    async def show(params: Params) -> Any:
        rows = _integer(params, "rows", 10, 0, MAX_ROWS)
        return await runs.read(show_run, _text(params, "run_id"), rows)

    async def export(params: Params) -> Any:
        offset = _integer(params, "offset", 0, 0, 1 << 62)
        form = _text(params, "format", "csv")
        return await runs.read(export_run, _text(params, "run_id"), form, offset)

    async def draw(params: Params) -> Any:
        run_id = _text(params, "run_id")
        data = await artist.draw(await runs.read(run_figure, run_id))
        return {"run_id": run_id, **picture_told(Picture(mime="image/png", data=data))}

    async def status(_params: Params) -> Any:
        return runs.status()

    async def stream(params: Params) -> Any:
        after = _integer(params, "after", 0, 0, 1 << 62)
        return streams.show(_text(params, "stream_id"), after)

    async def picture(params: Params) -> Any:
        picture_id = _text(params, "picture_id")
        told = await waveforms.read_picture(waveforms.picture(picture_id))
        return {
            "picture_id": picture_id,
            "mime": told["mime"],
            "encoding": told["encoding"],
            "content": told["image"],
        }

    return {
        "runs.list": list_,
        "runs.show": show,
        "runs.export": export,
        "runs.draw": draw,
        "runs.status": status,
        "streams.show": stream,
        "pictures.show": picture,
    }


def _text(params: Params, name: str, default: str | None = None) -> str:
    value = params.get(name, default)
    if not isinstance(value, str):
        raise Invalid(f"{name} must be a string.", data={"parameter": name})
    return value


def _integer(params: Params, name: str, default: int, lowest: int, highest: int) -> int:
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise Invalid(
            f"{name} must be an integer from {lowest} to {highest}.", data={"parameter": name}
        )
    return value
