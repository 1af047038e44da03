"""One point of a stream: as clients see it, and as a row of the recording. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from edged.profiles.model import Command, WaveformAnswer
from edged.record import record
from edged.runs.run_head import Column
from edged.yaml.tree import Scalar

WAVEFORM_FIELDS: Final = ("y_dtype", "y_length", "x_unit", "y_unit", "x_increment")
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


@record(kw_only=False)
class Point:
    """What one measurement gave.

    Attributes:
        shown: what clients get: {value, unit, timestamp_ms}, or the metadata of a waveform.
        primary: the number that counts for the statistics, or ``None``.
        row: its row in the recording.
    """

    shown: dict[str, Any]
    primary: float | None
    row: tuple[Scalar | None, ...]

    def json(self) -> str:
        """``shown`` as the message of a progress notification."""
        return _ENCODE(self.shown)


def columns_of(command: Command) -> tuple[Column, ...]:
    """The columns of a recorded stream of this command."""
    time = Column(name="timestamp_ms", unit="ms")
    if isinstance(command.returns, WaveformAnswer):
        names = ("point_index", *WAVEFORM_FIELDS, "x_first", "array")
        return (time, *(Column(name=name) for name in names))
    values = command.answer_values
    columns = (Column(name=value.name or "value", unit=value.unit) for value in values)
    return (time, *columns, Column(name="flag"))


def point_of(command: Command, data: Mapping[str, Any], timestamp_ms: int) -> Point:
    """A point of what execute_command's result says.

    Args:
        data: {data, unit?, flag?, primary?}.
        timestamp_ms: when the instrument was asked, Unix epoch.
    """
    if isinstance(command.returns, WaveformAnswer):
        return _waveform_point(data["data"], timestamp_ms)
    value, flag = _clean(data.get("data")), data.get("flag")
    shown = {"value": value, "unit": data.get("unit", ""), "timestamp_ms": timestamp_ms}
    if flag is not None:
        shown["flag"] = flag
    flag_cell = flag if flag is None or isinstance(flag, str) else _ENCODE(flag)
    if isinstance(value, Mapping):
        names = (column.name for column in columns_of(command)[1:-1])
        cells = tuple(value.get(name) for name in names)
        primary = data.get("primary")
    elif isinstance(value, list):
        cells, primary = (_ENCODE(value),), None
    else:
        cells, primary = (value,), value
    return Point(shown, _number(primary), (timestamp_ms, *cells, flag_cell))


def _waveform_point(told: Mapping[str, Any], timestamp_ms: int) -> Point:
    shown = {name: told[name] for name in WAVEFORM_FIELDS}
    index = told["point_index"]
    row = (timestamp_ms, index, *shown.values(), told["x_first"], array_name(index))
    return Point(shown, None, row)


def array_name(point_index: int) -> str:
    """The name of a waveform's array in the recording's archives."""
    return f"y_{point_index:06d}"


def _clean(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _clean(inner) for name, inner in value.items()}
    return list(map(_clean, value)) if isinstance(value, list) else value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
