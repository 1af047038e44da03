"""The topic of measured values: how often it is told, what is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from edged.actions.action import RunCommand
from edged.actions.outcome import Outcome, OutcomeStatus
from edged.clock import SystemClock
from edged.commands.target import Target
from edged.profiles.model import (
    AnswerField,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    Returns,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.scpi.kinds import AnswerType
from edged.surfaces.events.feeds import EVERY_S, MOST_KEPT, MOST_TEXT, ValueFeed
from tests.promises import promise

VOLTS = ScalarAnswer(type=AnswerType.FLOAT, unit="V")


def measured(
    feed: ValueFeed,
    value: Any,
    command: str = "measure_voltage",
    returns: Returns = VOLTS,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    target = SimpleNamespace(
        command=SimpleNamespace(name=command, is_query=True, returns=returns),
        instrument=SimpleNamespace(id="psu1"),
        lines=(f"MEAS:VOLT? {parameters}",),
    )
    action = RunCommand.__new__(RunCommand)
    object.__setattr__(action, "parameters", parameters)
    outcome = SimpleNamespace(status=OutcomeStatus.OK, data={"data": value, "unit": "V"})
    feed.hear(action, cast("Target", target), cast("Outcome", outcome))


@promise("page.values")
async def test_values_are_gathered_and_told_four_times_a_second_at_most() -> None:
    feed = ValueFeed(SystemClock())
    told: list[Any] = []
    once = asyncio.Event()

    def publish(_name: str, data: Any) -> None:
        told.append(data)
        once.set()

    end = feed.follow(publish)
    for value in range(500):
        measured(feed, float(value))
    assert told == []
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(10):
        await once.wait()
    assert asyncio.get_running_loop().time() - began >= EVERY_S * 0.9
    assert EVERY_S >= 0.25
    assert len(told) == 1
    assert [one["value"] for one in told[0]] == [float(value) for value in range(500)]
    end()
    measured(feed, 1.0)
    assert [one["value"] for one in feed.latest()] == [1.0]


async def test_what_is_no_number_of_json_is_none_and_last_values_are_bounded() -> None:
    feed = ValueFeed(SystemClock())
    measured(feed, float("nan"))
    assert feed.latest()[0]["value"] is None
    for number in range(MOST_KEPT + 10):
        measured(feed, 1.0, f"measure_{number}")
    assert len(feed.latest()) == MOST_KEPT


def test_measurements_with_other_parameters_are_others_and_long_ones_are_not_kept_whole() -> None:
    feed = ValueFeed(SystemClock())
    for channel in (1, 2, 1):
        measured(feed, float(channel), parameters={"channel": channel})
    assert [(one["parameters"], one["value"]) for one in feed.latest()] == [
        ({"channel": 2}, 2.0),
        ({"channel": 1}, 1.0),
    ]
    measured(feed, "x" * 5_000, "read_text", parameters={"name": "y" * 5_000})
    told = feed.latest()[-1]
    assert (len(told["value"]), len(told["parameters"]["name"])) == (MOST_TEXT, MOST_TEXT)


@promise("page.values")
def test_each_field_of_an_answer_has_its_own_unit() -> None:
    units = {"voltage": "V", "current": "A", "mode": ""}
    fields = tuple(AnswerField(name=n, type=AnswerType.FLOAT, unit=u) for n, u in units.items())
    feed = ValueFeed(SystemClock())
    measured(
        feed,
        {"voltage": 5.0, "current": 0.2, "mode": "CV"},
        returns=FieldsAnswer(fields=fields, primary="voltage"),
    )
    assert {one["column"]: one["unit"] for one in feed.latest()} == units


def test_a_list_is_told_by_its_length() -> None:
    feed = ValueFeed(SystemClock())
    measured(feed, [1.0, None], returns=ListAnswer(unit="V"))
    (told,) = feed.latest()
    assert (told["value"], told["unit"]) == (2, "values")


@promise("page.values")
@pytest.mark.parametrize(
    ("returns", "told", "shown"),
    [
        (
            WaveformAnswer(data=":WAV:DATA?", dtype="u1"),
            {"y_dtype": "float32", "y_length": 1200, "x_unit": "s", "point_index": 0},
            (1200, "samples"),
        ),
        (
            ImageAnswer(mime="image/png", data=":DISP:DATA?"),
            {"mime": "image/png", "length": 2256, "encoding": "base64", "image": "iVBORw0KGg"},
            (2256, "bytes"),
        ),
    ],
)
def test_a_trace_and_a_picture_are_a_size_and_not_the_words_around_their_bytes(
    returns: Returns, told: dict[str, Any], shown: tuple[int, str]
) -> None:
    feed = ValueFeed(SystemClock())
    measured(feed, told, returns=returns)
    assert [(one["value"], one["unit"]) for one in feed.latest()] == [shown]
    assert "column" not in feed.latest()[0]
